-- Several locks at once, all or none, with one fence above every counter.
-- KEYS: n locks [, n counters] [, n labels]
-- ARGV: token, ttl ms, n, ms that the counters live (0 = no fence), proposal in µs
--       (0 = none), size of the block, label
-- reply: {1, TIME µs, block's end} set, {0, TIME µs} something stands at one of them
local n, life = tonumber(ARGV[3]), tonumber(ARGV[4])
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local fence, rest = 0, n
if life > 0 then
  fence, rest = now, 2 * n
  local proposal = tonumber(ARGV[5])
  if proposal <= now + 1000000 then
    fence = math.max(fence, proposal)
  end
  for i = n + 1, 2 * n do
    local last = tonumber(redis.call('GET', KEYS[i]) or '0')
    if not last or last > 9006099743113216 then
      return redis.error_reply('FENCE the counter ' .. KEYS[i] .. ' is no number below 2^53 - 2^40')
    end
    fence = math.max(fence, last + tonumber(ARGV[6]))
  end
end
for i = 1, n do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    return {0, now}
  end
end
for i = 1, n do
  redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
for i = n + 1, rest do
  redis.call('SET', KEYS[i], string.format('%.0f', fence), 'PX', life)
end
for i = rest + 1, #KEYS do
  redis.call('SET', KEYS[i], ARGV[7], 'PX', ARGV[2])
end
return {1, now, fence}
