-- Hold on to a lock. A renewal that was stuck in a hung server must not revive
-- a key, hence the not-after stamp (hazards H3, H4).
-- KEYS: lock, mark [, label]
-- ARGV: token, ttl ms, not-after in µs of this server's TIME (0 = none) [, label]
-- reply: {1} mine, {2} set again, {0} another's, {3, TIME µs} stale, {4} broken
local stamp = tonumber(ARGV[3])
if stamp > 0 then
  local t = redis.call('TIME')
  local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
  if now > stamp then
    return {3, now}
  end
end
local ttl = tonumber(ARGV[2])
local holder = redis.call('GET', KEYS[1])
local code = 1
if holder == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < ttl then
    redis.call('PEXPIRE', KEYS[1], ttl)
  end
elseif holder then
  return {0}
elseif redis.call('GET', KEYS[2]) == ARGV[1] then
  return {4}
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ttl)
  code = 2
end
if KEYS[3] then
  redis.call('SET', KEYS[3], ARGV[4], 'PX', math.max(ttl, redis.call('PTTL', KEYS[1])))
end
return {code}
