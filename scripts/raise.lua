-- Raise a name's counter to the fence that its holder has: without that the next
-- holder's may be lower (hazards 5.1). One clock far ahead must not lift the
-- counters of all nodes for ever, hence the limit.
-- KEYS: lock, counter
-- ARGV: token, fence, µs that it may be ahead of this server's TIME, ms that the counter lives
-- reply: 1 it stands, 0 the lock is not the caller's, 2 too far ahead
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local fence = tonumber(ARGV[2])
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
if last and last >= fence then
  return 1
end
local t = redis.call('TIME')
if fence > tonumber(t[1]) * 1000000 + tonumber(t[2]) + tonumber(ARGV[3]) then
  return 2
end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[4])
return 1
