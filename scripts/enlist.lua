-- Wait for a name here: behind those who wait already, or where one stands. The
-- list dies with the last who refreshes it.
-- KEYS: waiters
-- ARGV: channel, ms the list lives
-- reply: 1 enlisted, 0 the list is full
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= 10000 then
  return 0
end
local t = redis.call('TIME')
redis.call('ZADD', KEYS[1], 'NX', t[1] * 1000000 + t[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
