-- Deletes full buckets among about ARGV[2] fields of the hash KEYS[1] from cursor ARGV[1] on.
-- Returns the next cursor (below the size of the hash's table), the number of fields read and the number deleted.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local entries, full = page[2], {}
for i = 1, #entries, 2 do
  local value = entries[i + 1]
  if #value ~= 28 then
    full[#full + 1] = entries[i]
  else
    local at, missing, _, requests = struct.unpack('<dddI4', value)
    if (now - at) * requests >= missing then full[#full + 1] = entries[i] end
  end
end
if #full > 0 then redis.call('HDEL', KEYS[1], unpack(full)) end
redis.call('EXPIRE', KEYS[1], 604800)
return {tonumber(page[1]), #entries / 2, #full}
