-- Hold on to several locks at once: extend.lua, which needs all of them.
-- KEYS: n locks, n marks [, n labels]
-- ARGV: token, ttl ms, not-after in µs of this server's TIME (0 = none), n, label
-- reply: {1} all mine, {2} some set again, {0} one is another's, {3, TIME µs} stale,
--        {4} one was broken
local stamp, n, ttl = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[2])
if stamp > 0 then
  local t = redis.call('TIME')
  local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
  if now > stamp then
    return {3, now}
  end
end
local mine = {}
for i = 1, n do
  local holder = redis.call('GET', KEYS[i])
  if holder and holder ~= ARGV[1] then
    return {0}
  end
  mine[i] = holder
end
for i = 1, n do
  if not mine[i] and redis.call('GET', KEYS[n + i]) == ARGV[1] then
    return {4}
  end
end
local code = 1
for i = 1, n do
  if not mine[i] then
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ttl)
    code = 2
  elseif redis.call('PTTL', KEYS[i]) < ttl then
    redis.call('PEXPIRE', KEYS[i], ttl)
  end
  if KEYS[2 * n + i] then
    redis.call('SET', KEYS[2 * n + i], ARGV[5], 'PX', math.max(ttl, redis.call('PTTL', KEYS[i])))
  end
end
return {code}
