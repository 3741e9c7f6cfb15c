-- Takes one token from each of several token buckets: the least that the rate limits of many keys can ask of Redis.
--   KEYS[1]     a hash with a bucket in each field, 16 bytes: its level, and the time of that in microseconds
--   ARGV[1..3]  the rate of all buckets of this call: the period in microseconds, the tokens in a period, the burst
--   ARGV[4..]   the fields
-- A level counts 1/period of a token, so that no arithmetic rounds. The reply has 10 bytes for each field: 1 (granted) or
-- 0 as two bytes, and the level as eight.
local call, pack, unpack_ = redis.call, struct.pack, struct.unpack
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local period, requests = tonumber(ARGV[1]), tonumber(ARGV[2])
local cap = ARGV[3] * period
local buckets = call('HMGET', KEYS[1], unpack(ARGV, 4))
local writes, written = {}, 0
for i = 1, #buckets do
  local level, granted = cap, 0
  if buckets[i] then
    local left, at = unpack_('<dd', buckets[i])
    level = math.min(cap, left + math.max(0, now - at) * requests)
  end
  if level >= period then
    level, granted = level - period, 1
    writes[written + 1], writes[written + 2] = ARGV[i + 3], pack('<dd', level, now)
    written = written + 2
  end
  buckets[i] = pack('<Hd', granted, level)
end
if written > 0 then call('HSET', KEYS[1], unpack(writes)) end
return table.concat(buckets)
