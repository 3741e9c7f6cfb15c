-- Takes tokens from buckets; doc.go has the layout.
-- KEYS[1] is the hash.
-- ARGV[1] has the fields, each a short string of MessagePack, no field twice.
-- ARGV[2] has for each field the tokens asked for (2 bytes, big-endian) and the index of its rate (1 byte).
-- ARGV[3] has the rates: period (double), requests, burst.
-- Returns for each field the tokens granted (2 bytes) and the missing units afterwards (double).
local byte, pack, read = string.byte, struct.pack, struct.unpack
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local rates = {}
for at = 1, #ARGV[3], 16 do
  local period, requests, burst = read('<dI4I4', ARGV[3], at)
  rates[#rates + 1] = {period, requests, burst * period}
end
local fields = {cmsgpack.unpack(ARGV[1])}
local count, written, writes, reply = #fields, 0, {}, {}
local asked = {byte(ARGV[2], 1, 3 * count)}
local values = redis.call('HMGET', KEYS[1], unpack(fields))
for i = 1, count do
  local rate = rates[asked[3 * i] + 1]
  local period, requests, capacity = rate[1], rate[2], rate[3]
  local granted, missing, changed = asked[3 * i - 2] * 256 + asked[3 * i - 1], 0, false
  local value = values[i]
  if value and #value == 28 then
    local at, before, period0, requests0 = read('<dddI4', value)
    local elapsed = now - at
    missing = before
    if elapsed > 0 then missing = math.max(before - elapsed * requests0, 0) end
    changed = elapsed < 0 or period0 ~= period or requests0 ~= requests
    if period0 ~= period then -- in the units of the new rate, rounded up
      local part = missing % period0
      missing = (missing - part) / period0 * period + math.ceil(part * period / period0)
    end
    if missing > capacity then missing = capacity end
  end
  if capacity - missing < granted * period then granted = math.floor((capacity - missing) / period) end
  missing = missing + granted * period
  if granted > 0 or changed then
    writes[written + 1], writes[written + 2] = fields[i], pack('<dddI4', now, missing, period, requests)
    written = written + 2
  end
  reply[2 * i - 1], reply[2 * i] = granted, missing
end
if written > 0 then redis.call('HSET', KEYS[1], unpack(writes, 1, written)) end
return pack('<' .. string.rep('Hd', count), unpack(reply))
