-- What nginx does for a request: look the key of its header up in shared memory, take a token by one call of take.lua, and send
-- the document or an error.
local settings = require 'settings'
local ffi = require 'ffi'

ffi.cdef [[
typedef struct { uint8_t opaque[112]; } bench_sha256;
int SHA256_Init(bench_sha256 *c);
int SHA256_Update(bench_sha256 *c, const void *data, size_t len);
int SHA256_Final(unsigned char *digest, bench_sha256 *c);
int prctl(int option, unsigned long signal);
typedef struct __attribute__((packed)) { uint16_t granted; double level; } bench_reply;
]]

local C, ffi_string, cast = ffi.C, ffi.string, ffi.cast
local sub, find, match = string.sub, string.find, string.match
local floor, ceil, max = math.floor, math.ceil, math.max
local crc32, tcp = ngx.crc32_short, ngx.socket.tcp
local state, digest = ffi.new('bench_sha256'), ffi.new('unsigned char[32]')
local reply_type = ffi.typeof('const bench_reply *')
local reply_size = ffi.sizeof('bench_reply')

local M = {}

-- Ends this worker when the master is killed.
function M.end_with_master()
    C.prctl(1, 15)
end

-- Reads the keys into shared memory: lines of a key's SHA-256 in hexadecimal and its tier (period in microseconds, tokens in a
-- period, burst).
function M.load()
    local keys = ngx.shared.keys
    for line in io.lines(settings.keys) do
        local hash, tier = match(line, '^(%x+) (.+)$')
        local bytes = hash:gsub('%x%x', function(pair) return string.char(tonumber(pair, 16)) end)
        local ok, problem = keys:set(bytes, tier)
        if not ok then error(problem) end
    end
end

-- The SHA-256 of a key of the right form; nil for anything else.
local function hash_of(authorization)
    if not authorization or #authorization ~= 63 or sub(authorization, 1, 15) ~= 'Bearer service_' then return nil end
    local key = sub(authorization, 8)
    if not find(key, '^[0-9a-f]+$', 9) or crc32(sub(key, 1, 48)) ~= tonumber(sub(key, 49), 16) then return nil end
    C.SHA256_Init(state)
    C.SHA256_Update(state, key, #key)
    C.SHA256_Final(digest, state)
    return ffi_string(digest, 32)
end

-- A word of a command, as Redis reads it.
local function word(text)
    return '$' .. #text .. '\r\n' .. text .. '\r\n'
end

local head = '*8\r\n' .. word('EVALSHA') .. word(settings.sha) .. word('1') .. word(settings.buckets)

-- The numbers of a tier and its part of the command, by the tier's text.
local tiers = {}
local function tier_of(text)
    local tier = tiers[text]
    if not tier then
        local period, requests, burst = match(text, '^(%d+) (%d+) (%d+)$')
        tier = {
            period = tonumber(period), requests = tonumber(requests), burst = tonumber(burst),
            words = word(period) .. word(requests) .. word(burst) .. '$12\r\n',
        }
        tiers[text] = tier
    end
    return tier
end

-- Takes a token, and returns the reply of take.lua, or nil and an error. The field is the first 12 bytes of the hash.
local function take(hash, tier)
    local socket = tcp()
    socket:settimeout(1000)
    local ok, problem = socket:connect(settings.host, settings.port)
    if not ok then return nil, problem end
    if socket:getreusedtimes() == 0 then
        socket:send('*2\r\n' .. word('AUTH') .. word(settings.password))
        local greeting = socket:receive()
        if greeting ~= '+OK' then return nil, greeting end
    end
    ok, problem = socket:send { head, tier.words, sub(hash, 1, 12), '\r\n' }
    if not ok then return nil, problem end
    local line
    line, problem = socket:receive()
    if not line then return nil, problem end
    if line ~= '$' .. reply_size then return nil, line end
    local reply
    reply, problem = socket:receive(reply_size + 2) -- and the end of the line
    if not reply then return nil, problem end
    socket:setkeepalive(60000, 256)
    return reply
end

local function refuse(status, body)
    ngx.status = status
    ngx.header['Content-Length'] = #body
    ngx.print(body)
end

function M.answer()
    local hash = hash_of(ngx.var.http_authorization)
    local text = hash and ngx.shared.keys:get(hash)
    if not text then return refuse(401, '{"error":{"code":"unauthorized"}}') end
    local tier = tier_of(text)
    local reply, problem = take(hash, tier)
    if not reply then
        ngx.log(ngx.ERR, 'Redis: ', problem)
        return refuse(503, '{"error":{"code":"service_unavailable"}}')
    end
    local r = cast(reply_type, reply)
    local header = ngx.header
    header['RateLimit-Limit'] = tier.requests
    header['RateLimit-Remaining'] = floor(r.level / tier.period)
    header['RateLimit-Reset'] = ceil((tier.burst * tier.period - r.level) / tier.requests / 1000000)
    header['RateLimit-Policy'] = tier.requests .. ';w=' .. ceil(tier.period / 1000000)
    if r.granted == 0 then
        header['Retry-After'] = max(ceil((tier.period - r.level) / tier.requests / 1000000), 1)
        return refuse(429, '{"error":{"code":"rate_limited"}}')
    end
    header['Content-Length'] = #settings.body
    ngx.print(settings.body)
end

return M
