-- A lock for which callers queue, first come first served. An entry in the queue is
-- made or kept alive by this very call, and only the first that lives gets the lock;
-- who has no entry gets it where nobody queues. A lock that a release keeps for
-- somebody is free to the first that lives, whoever that is.
-- KEYS: lock, queue, ends, ticket counter [, fence counter] [, label]
-- ARGV: token, ttl ms, who, ticket (0 = wants no entry yet), ms that an entry lives,
--       ms that the ticket counter lives, how many may queue, ms that the fence
--       counter lives (0 = no fence), proposal in µs, size of the block [, label]
-- reply: {code, TIME µs, ticket that one who came now would get, ms until it may be
--         free (-1 = no TTL, -3 = of another type, 0 = unknown), who queue, block's end}
--        code: 1 set, 0 not, 2 not, and the queue is full
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local ms = math.floor(now / 1000)
local who, ticket, lease = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local life, fence = tonumber(ARGV[8]), 0
if life > 0 then
  local last = tonumber(redis.call('GET', KEYS[5]) or '0')
  if not last or last > 9006099743113216 then
    return redis.error_reply('FENCE the counter ' .. KEYS[5] .. ' is no number below 2^53 - 2^40')
  end
  fence = math.max(now, last + tonumber(ARGV[10]))
  if tonumber(ARGV[9]) <= now + 1000000 then
    fence = math.max(fence, tonumber(ARGV[9]))
  end
end

local head, till = first(KEYS[2], KEYS[3], ms)
local last = math.min(tonumber(redis.call('GET', KEYS[4]) or '0') or 0, 9006099743113216)
local offer, length = math.max(now, last + 1), redis.call('ZCARD', KEYS[2])
if ticket > 0 then
  if not redis.call('ZSCORE', KEYS[2], who) then
    if length >= tonumber(ARGV[7]) then
      return {2, now, offer, 0, length, 0}
    end
    redis.call('ZADD', KEYS[2], ticket, who)
    length = length + 1
  end
  redis.call('ZADD', KEYS[3], ms + lease, who)
  for i = 2, 3 do
    redis.call('PEXPIRE', KEYS[i], math.max(lease, redis.call('PTTL', KEYS[i])))
  end
  redis.call('SET', KEYS[4], string.format('%.0f', math.max(last, ticket)), 'PX', ARGV[6])
  head, till = first(KEYS[2], KEYS[3], ms)
end

local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' then
  return {0, now, offer, -3, length, 0}
end
local kept = holder and string.sub(holder, 1, #RESERVED) == RESERVED
if holder and not kept then
  return {0, now, offer, redis.call('PTTL', KEYS[1]), length, 0}
end
if head and head ~= who then
  if holder == RESERVED .. who then
    redis.call('PEXPIRE', KEYS[1], lease)
  end
  return {0, now, offer, till - ms, length, 0}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local label = 5
if life > 0 then
  redis.call('SET', KEYS[5], string.format('%.0f', fence), 'PX', life)
  label = 6
end
if KEYS[label] then
  redis.call('SET', KEYS[label], ARGV[11], 'PX', ARGV[2])
end
return {1, now, offer, 0, length, fence}
