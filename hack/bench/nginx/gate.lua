-- What nginx and lua do for a request: take the key out of its header, call the product's script for it, and send the
-- document, or refuse. Nothing is gathered: each request is a call. Where the script and its records change, `ask` and
-- `verdict` change with them.
local settings = require 'settings'
local ffi = require 'ffi'

ffi.cdef [[
typedef struct { uint8_t opaque[112]; } bench_sha256;
int SHA256_Init(bench_sha256 *c);
int SHA256_Update(bench_sha256 *c, const void *data, size_t len);
int SHA256_Final(unsigned char *digest, bench_sha256 *c);
int prctl(int option, unsigned long signal);
typedef struct __attribute__((packed)) {
    double at, level; char term[8]; uint32_t version;
    double period; uint32_t requests, burst; double expires; uint32_t scale; char ids[48];
    uint16_t granted;
} bench_verdict;
]]

local C, ffi_string, cast = ffi.C, ffi.string, ffi.cast
local sub, find = string.sub, string.find
local floor, ceil, max = math.floor, math.ceil, math.max
local crc32, tcp = ngx.crc32_short, ngx.socket.tcp
local state, digest = ffi.new('bench_sha256'), ffi.new('unsigned char[32]')
local verdict_type = ffi.typeof('const bench_verdict *')
local verdict_size = ffi.sizeof('bench_verdict')

local M = {}

-- Without this a master that is killed would leave its workers behind.
function M.end_with_master()
    C.prctl(1, 15)
end

-- The SHA-256 of a key that has the right form, nil of anything else.
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

-- The call for one key. All but the field is the same each time: the first 22 bytes of the key's hash, as MessagePack has
-- a string of that length.
local head = '*8\r\n' .. word('EVALSHA') .. word(settings.sha) .. word('1') .. word(settings.records) .. word('c') ..
    word(settings.term) .. '$23\r\n\182'
local tail = '\r\n' .. word('\0\1')

-- Calls the script for a key's hash, and returns what it says, or nil and why.
local function ask(hash)
    local socket = tcp()
    socket:settimeout(1000)
    local ok, problem = socket:connect(settings.host, settings.port)
    if not ok then return nil, problem end
    if socket:getreusedtimes() == 0 then
        socket:send('*2\r\n' .. word('AUTH') .. word(settings.password))
        local greeting = socket:receive()
        if greeting ~= '+OK' then return nil, greeting end
    end
    ok, problem = socket:send { head, sub(hash, 1, 22), tail }
    if not ok then return nil, problem end
    local line
    line, problem = socket:receive()
    if not line then return nil, problem end
    local size = sub(line, 1, 1) == '$' and tonumber(sub(line, 2))
    if not size then return nil, line end
    local reply
    reply, problem = socket:receive(size + 2)
    if not reply then return nil, problem end
    socket:setkeepalive(60000, 256)
    return reply
end

-- What the script says of one key: nil if the key is not good; else its tokens and its tier.
local function verdict(reply)
    if #reply ~= verdict_size + 2 then return nil end -- and the end of the line
    return cast(verdict_type, reply)
end

local function refuse(status, body)
    ngx.status = status
    ngx.header['Content-Length'] = #body
    ngx.print(body)
end

function M.answer()
    local hash = hash_of(ngx.var.http_authorization)
    if not hash then return refuse(401, '{"error":{"code":"unauthorized"}}') end
    local reply, problem = ask(hash)
    if not reply then
        ngx.log(ngx.ERR, 'Redis: ', problem)
        return refuse(503, '{"error":{"code":"service_unavailable"}}')
    end
    local v = verdict(reply)
    if not v then return refuse(401, '{"error":{"code":"unauthorized"}}') end
    local header = ngx.header
    local limit = v.requests * v.scale
    header['RateLimit-Limit'] = limit
    header['RateLimit-Remaining'] = floor(max(v.level, 0) / v.period)
    header['RateLimit-Reset'] = ceil((v.burst * v.period - v.level) / v.requests / 1000000)
    header['RateLimit-Policy'] = limit .. ';w=' .. ceil(v.period * v.scale / 1000000)
    if v.granted == 0 then
        header['Retry-After'] = max(ceil((v.period - v.level) / v.requests / 1000000), 1)
        return refuse(429, '{"error":{"code":"rate_limited"}}')
    end
    header['Content-Length'] = #settings.body
    ngx.print(settings.body)
end

return M
