-- One script, so that one name stands for all of it on a server. doc.go has the argument, layout.go the layouts.
--   ARGV[1] what to do, ARGV[2] the term (8 bytes), then what each part says.
local call, sub, byte = redis.call, string.sub, string.byte
local pack, unpack_, concat = struct.pack, struct.unpack, table.concat
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local term = ARGV[2]

-- The continuous bucket, in units of 1/period of a token: a microsecond brings `requests` units. Every value is a whole
-- number below 2^53, so nothing is ever rounded. A clock that goes back brings nothing and takes nothing.
local function refill(elapsed, level, requests, cap)
  if elapsed <= 0 then return level end
  local more = elapsed * requests
  if more >= cap - level then return cap end
  return level + more
end

-- check: KEYS are buckets; ARGV[3] has two bytes for each, the tokens asked for, plus 32768 for an address.
-- ARGV[4..6] are period, requests and burst of addresses.
if ARGV[1] == 'c' then
  local asks, values, out = ARGV[3], call('MGET', unpack(KEYS)), {}
  local seconds = tonumber(time[1])
  for i = 1, #KEYS do
    local v = values[i]
    local high, low = byte(asks, 2 * i - 1, 2 * i)
    local want = high * 256 + low
    if want >= 32768 then
      want = want - 32768
      local period, requests = tonumber(ARGV[4]), tonumber(ARGV[5])
      local cap = ARGV[6] * period
      local level = cap
      if v then
        local at
        at, level = unpack_('<dd', v)
        level = refill(now - at, level, requests, cap)
      end
      local granted = math.min(want, math.floor(level / period))
      if granted > 0 then
        level = level - granted * period
        call('SET', KEYS[i], pack('<dd', now, level), 'PX', math.ceil((cap - level) / requests / 1000) + 1000)
      end
      out[i] = pack('<BHd', 2, granted, level)
    elseif not v or sub(v, 1, 8) ~= term then
      out[i] = '\0'
    else
      local at, level, dies, status, expires, period, requests, burst
      status = byte(v, 33)
      if status == 1 then
        at, level, dies, status, expires, period, requests, burst = unpack_('<ddI4BI6dI4I4', v, 13)
      end
      if status ~= 1 then
        out[i] = status == 4 and '\4' or '\3'
      elseif expires > 0 and now >= expires * 1000 then
        out[i] = '\3'
      else
        local elapsed, cap = now - at, burst * period
        level = refill(elapsed, level, requests, cap)
        local granted = want
        if level < want * period then granted = math.floor(level / period) end
        if granted > 0 or elapsed < 0 then
          level = level - granted * period
          local lease = dies - seconds
          local ttl = 3600 + 2 * math.ceil(cap / requests / 1000000)
          if lease < ttl / 2 or lease > ttl then
            dies = seconds + ttl
            call('EXPIRE', KEYS[i], ttl)
          end
          call('SETRANGE', KEYS[i], 12, pack('<ddI4', now, level, dies))
        end
        out[i] = pack('<BHd', 1, granted, level) .. sub(v, 40)
      end
    end
  end
  return concat(out)
end

-- Writes a record verified in this term. What was taken from the bucket stays taken, also under another tier.
local function store(key, old, version, static)
  local status = byte(static)
  if status ~= 1 then
    call('SET', key, term .. version .. pack('<ddI4', 0, 0, 0) .. static, 'EX', status == 4 and 10 or 600)
    return
  end
  local period, requests, burst = unpack_('<dI4I4', static, 8)
  local cap = burst * period
  local level = cap
  if old and #old > 33 then
    local at, left, _, _, _, period0, requests0, burst0 = unpack_('<ddI4BI6dI4I4', old, 13)
    local taken = burst0 * period0 - refill(now - at, left, requests0, burst0 * period0)
    if period0 ~= period then taken = math.ceil(taken / period0 * period) end
    level = math.max(0, cap - taken)
  end
  local ttl = 3600 + 2 * math.ceil(cap / requests / 1000000)
  call('SET', key, term .. version .. pack('<ddI4', now, level, time[1] + ttl) .. static, 'EX', ttl)
end

-- ticket: a load of KEYS[1] begins. Nothing is returned if it is verified already.
if ARGV[1] == 't' then
  local v = call('GET', KEYS[1])
  local first = v and sub(v, 1, 8)
  if first == term then return '' end
  if first and byte(first) == 255 then return first end
  local ticket = '\255' .. sub(pack('>d', now), 2)
  if v then
    call('SETRANGE', KEYS[1], 0, ticket)
  else
    call('SET', KEYS[1], ticket, 'EX', 10)
  end
  return ticket
end

-- put: the load of KEYS[1] under ticket ARGV[3] found version ARGV[4] and the rest ARGV[5]. An announcement meanwhile
-- has taken the ticket away, and so has expiry or eviction: then the load says nothing any more.
if ARGV[1] == 'p' then
  local v = call('GET', KEYS[1])
  if not v or sub(v, 1, 8) ~= ARGV[3] then return 0 end
  store(KEYS[1], v, ARGV[4], ARGV[5])
  return 1
end

-- announce: version ARGV[2i+1] and the rest ARGV[2i+2] for each of KEYS. Revoked is final and always written. An active
-- record replaces a verified older one; over anything else it only ends the loads under way.
if ARGV[1] == 'a' then
  for i = 1, #KEYS do
    local key, version, static = KEYS[i], ARGV[2 * i + 1], ARGV[2 * i + 2]
    local v = call('GET', key)
    if byte(static) ~= 1 then
      store(key, nil, version, static)
    elseif v and #v > 33 and sub(v, 1, 8) == term then
      if unpack_('>I4', v, 9) <= unpack_('>I4', version) then store(key, v, version, static) end
    elseif v and #v > 33 then
      call('SETRANGE', key, 0, '\0\0\0\0\0\0\0\0')
    elseif v and byte(v, 33) ~= 3 then
      call('DEL', key)
    end
  end
  return #KEYS
end

-- heartbeat: ARGV[3] is alive; answers how many are. KEYS[1] is the set of pods.
if ARGV[1] == 'h' then
  call('ZADD', KEYS[1], time[1], ARGV[3])
  call('ZREMRANGEBYSCORE', KEYS[1], '-inf', time[1] - 10)
  call('EXPIRE', KEYS[1], 60)
  return call('ZCARD', KEYS[1])
end

-- leave: ARGV[3] stops.
if ARGV[1] == 'l' then
  return call('ZREM', KEYS[1], ARGV[3])
end
return redis.error_reply('ERR unknown operation')
