-- One script, so that one name stands for all of it on a server. doc.go has the argument, layout.go the layouts.
--   KEYS[1] a hash of records, ARGV[1] what to do, ARGV[2] the term (8 bytes), then what each part says.
-- A call from a script costs Redis as much as a GET from outside: what a batch needs is one HMGET and one HSET.
local call, sub, byte = redis.call, string.sub, string.byte
local pack, unpack_, concat = struct.pack, struct.unpack, table.concat
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local term = ARGV[2]
local whole = 104 -- bytes of a key's record; all other entries are shorter

-- The continuous bucket, in units of 1/period of a token: a microsecond brings `requests` units. Every value is a whole
-- number below 2^53, so nothing is ever rounded. A clock that goes back brings nothing and takes nothing.
local function refill(elapsed, level, requests, cap)
  if elapsed <= 0 then return level end
  local more = elapsed * requests
  if more >= cap - level then return cap end
  return level + more
end

-- What an entry that is no record says: nothing, or that the key is revoked, or was not in PostgreSQL a moment ago.
local function refusal(v)
  if v and #v < whole and sub(v, 17, 24) == term then
    if byte(v, 29) == 3 then return 65534 end
    local elapsed = now - unpack_('<d', v)
    if elapsed >= 0 and elapsed < 10000000 then return 65533 end
  end
  return 65535
end

-- check: ARGV[3] is the fields, each as a short string of MessagePack; ARGV[4] has two bytes for each, the tokens asked
-- for. KEYS[2..] are buckets of addresses, ARGV[5] the tokens asked of them, ARGV[6..8] their period, requests and burst.
-- The answer is the records as they are now, two bytes for each field (tokens granted, or a refusal), and for each
-- address two bytes and eight of contents. Tables are used twice, since making them is much of the work:
--   values  what was read, then what is answered
--   fields  the fields, then what is granted to them
--   writes  the tokens asked for, then what is written: the i-th field's are read before anything takes their place
if ARGV[1] == 'c' then
  local values = {}
  if ARGV[3] ~= '' then
    local fields = {cmsgpack.unpack(ARGV[3])}
    local count, written = #fields, 0
    local writes = {byte(ARGV[4], 1, 2 * count)}
    values = call('HMGET', KEYS[1], unpack(fields))
    for i = 1, count do
      local v = values[i]
      local at, level, verified, period, requests, burst, expires
      if v and #v == whole then
        at, level, verified, period, requests, burst, expires = unpack_('<ddc8xxxxdI4I4d', v)
      end
      if verified ~= term then
        fields[i], values[i] = refusal(v), ''
      elseif now >= expires then
        fields[i], values[i] = 65534, ''
      else
        local granted, elapsed = writes[2 * i - 1] * 256 + writes[2 * i], now - at
        level = refill(elapsed, level, requests, burst * period)
        if level < granted * period then granted = math.floor(level / period) end
        v = pack('<dd', now, level - granted * period) .. sub(v, 17)
        if granted > 0 or elapsed < 0 then
          writes[written + 1], writes[written + 2] = fields[i], v
          written = written + 2
        end
        fields[i], values[i] = granted, v
      end
    end
    if written > 0 then call('HSET', KEYS[1], unpack(writes, 1, written)) end
    values[count] = values[count] .. pack('<' .. string.rep('H', count), unpack(fields))
  end
  if #KEYS > 1 then
    local buckets = call('MGET', unpack(KEYS, 2))
    local period, requests = tonumber(ARGV[6]), tonumber(ARGV[7])
    local cap = ARGV[8] * period
    for i = 1, #buckets do
      local high, low = byte(ARGV[5], 2 * i - 1, 2 * i)
      local level, elapsed = cap, 0
      if buckets[i] then
        local at, left = unpack_('<dd', buckets[i])
        elapsed = now - at
        level = refill(elapsed, left, requests, cap)
      end
      local granted = math.min(high * 256 + low, math.floor(level / period))
      if granted > 0 or elapsed < 0 then
        level = level - granted * period
        call('SET', KEYS[i + 1], pack('<dd', now, level), 'PX', math.ceil((cap - level) / requests / 1000) + 1000)
      end
      values[#values + 1] = pack('<Hd', granted, level)
    end
  end
  return concat(values)
end

-- Writes an entry verified in this term. What was taken from the bucket stays taken, also under another tier.
local function store(field, old, version, static)
  local level = 0
  if #static > 1 then
    local period, requests, burst = unpack_('<dI4I4', static)
    level = burst * period
    if old and #old == whole then
      local at, left, period0, requests0, burst0 = unpack_('<ddxxxxxxxxxxxxdI4I4', old)
      local taken = burst0 * period0 - refill(now - at, left, requests0, burst0 * period0)
      if period0 ~= period then taken = math.ceil(taken / period0 * period) end
      level = math.max(0, level - taken)
    end
  end
  call('HSET', KEYS[1], field, pack('<dd', now, level) .. term .. version .. static)
end

-- ticket: a load of field ARGV[3] begins, under ticket ARGV[4] unless one is there already. Nothing is returned if the
-- field is verified already.
if ARGV[1] == 't' then
  local v = call('HGET', KEYS[1], ARGV[3])
  local verified = v and sub(v, 17, 24)
  if verified == term and (#v == whole or refusal(v) ~= 65535) then return '' end
  if verified and byte(verified) == 255 then return verified end
  if v and #v == whole then
    call('HSET', KEYS[1], ARGV[3], sub(v, 1, 16) .. ARGV[4] .. sub(v, 25))
  else
    call('HSET', KEYS[1], ARGV[3], pack('<dd', now, 0) .. ARGV[4])
  end
  return ARGV[4]
end

-- put: the load of field ARGV[3] under ticket ARGV[4] found version ARGV[5] and the rest ARGV[6]. An announcement
-- meanwhile has taken the ticket away, and so has the sweep: then the load says nothing any more.
if ARGV[1] == 'p' then
  local v = call('HGET', KEYS[1], ARGV[3])
  if not v or sub(v, 17, 24) ~= ARGV[4] then return 0 end
  store(ARGV[3], v, ARGV[5], ARGV[6])
  return 1
end

-- announce: ARGV[3] keys; of each the field, the version and the rest. Revoked is final and always written. An active
-- record replaces a verified older one; over anything else it only ends the loads under way. How old what it finds is
-- does not matter here, or a clock that goes back would bring an older version to life.
if ARGV[1] == 'a' then
  for i = 4, 3 * ARGV[3] + 1, 3 do
    local field, version, static = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    local v = call('HGET', KEYS[1], field)
    if #static == 1 then
      store(field, nil, version, static)
    elseif v and #v == whole then
      if sub(v, 17, 24) ~= term then
        call('HSET', KEYS[1], field, sub(v, 1, 16) .. '\0\0\0\0\0\0\0\0' .. sub(v, 25))
      elseif unpack_('>I4', v, 25) <= unpack_('>I4', version) then
        store(field, v, version, static)
      end
    elseif v and byte(v, 29) ~= 3 then
      call('HDEL', KEYS[1], field)
    end
  end
  return ARGV[3]
end

-- sweep: deletes what is past among about ARGV[4] entries from cursor ARGV[3] on; answers the next cursor, how many
-- entries it saw and how many it deleted. A hash that nobody sweeps for a week goes as a whole.
if ARGV[1] == 's' then
  local page = call('HSCAN', KEYS[1], ARGV[3], 'COUNT', ARGV[4])
  local entries, past = page[2], {}
  for i = 1, #entries, 2 do
    local v = entries[i + 1]
    local life = 10000000
    if #v == whole then
      local period, requests, burst = unpack_('<dI4I4', v, 29)
      life = 3600000000 + 2 * burst * period / requests
    elseif byte(v, 29) == 3 then
      life = 600000000
    end
    if now - unpack_('<d', v) >= life then past[#past + 1] = entries[i] end
  end
  if #past > 0 then call('HDEL', KEYS[1], unpack(past)) end
  call('EXPIRE', KEYS[1], 604800)
  return {page[1], #entries / 2, #past}
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
