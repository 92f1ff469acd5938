-- Raise the counters of several names to the fence that their holder has: raise.lua,
-- which needs all of them.
-- KEYS: n locks, n counters
-- ARGV: token, fence, µs that it may be ahead of this server's TIME, ms that the
--       counters live, n
-- reply: 1 it stands, 0 a lock is not the caller's, 2 too far ahead
local n, fence = tonumber(ARGV[5]), tonumber(ARGV[2])
for i = 1, n do
  if redis.call('GET', KEYS[i]) ~= ARGV[1] then
    return 0
  end
end
local low = {}
for i = n + 1, 2 * n do
  local last = tonumber(redis.call('GET', KEYS[i]) or '0')
  if not last or last < fence then
    low[#low + 1] = KEYS[i]
  end
end
local t = redis.call('TIME')
if #low > 0 and fence > tonumber(t[1]) * 1000000 + tonumber(t[2]) + tonumber(ARGV[3]) then
  return 2
end
for _, key in ipairs(low) do
  redis.call('SET', key, ARGV[2], 'PX', ARGV[4])
end
return 1
