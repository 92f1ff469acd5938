-- Free the lock of the holder that the caller names, and of no other. The mark
-- keeps a renewal that crosses this from bringing the lock back.
-- KEYS: lock, mark, label
-- ARGV: token, ms the mark lives
-- reply: {1, ''} deleted, {0, ''} absent, {2, holder} another's
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
local holder = redis.call('GET', KEYS[1])
if not holder then
  return {0, ''}
elseif holder ~= ARGV[1] then
  return {2, holder}
end
redis.call('DEL', KEYS[1], KEYS[3])
return {1, ''}
