-- A lock with a fence: a counter per name, of which a grant takes a block of
-- numbers. What is stored is the block's end. It follows this server's clock, so
-- that it goes on rising where the counter was lost (hazard H35).
-- KEYS: lock, counter [, label]
-- ARGV: token, ttl ms, proposal in µs (0 = none), size of the block,
--       ms that the counter lives [, label]
-- reply: {1, TIME µs, block's end} set, {0, TIME µs} something stands there
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
if not last or last > 9006099743113216 then
  return redis.error_reply('FENCE the counter ' .. KEYS[2] .. ' is no number below 2^53 - 2^40')
end
local fence = math.max(now, last + tonumber(ARGV[4]))
local proposal = tonumber(ARGV[3])
if proposal <= now + 1000000 then
  fence = math.max(fence, proposal)
end
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return {0, now}
end
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', ARGV[5])
if KEYS[3] then
  redis.call('SET', KEYS[3], ARGV[6], 'PX', ARGV[2])
end
return {1, now, fence}
