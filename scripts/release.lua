-- Compare-and-delete: only the holder's own token frees the lock.
-- KEYS: lock [, label]
-- ARGV: token, ms to keep (0 = delete; else shorten to it, for WithMinHold)
-- reply: 1 freed, 0 absent or another's
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local keep = tonumber(ARGV[2])
for i = 1, #KEYS do
  if keep == 0 then
    redis.call('DEL', KEYS[i])
  elseif redis.call('PTTL', KEYS[i]) > keep then
    redis.call('PEXPIRE', KEYS[i], keep)
  end
end
return 1
