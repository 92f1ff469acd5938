-- A lock with a label. (Without one it is a plain SET NX PX.)
-- KEYS: lock, label
-- ARGV: token, ttl ms, label
-- reply: 1 set, 0 something stands there
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[2])
  return 1
end
return 0
