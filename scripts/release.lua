-- Compare-and-delete: only the holder's own token frees the lock. Then whoever is
-- next is told, whatever stood at the lock: the name is free on a majority, even
-- where the lease had no vote. Where callers queue, the lock is not left free but
-- kept for the first of them.
-- KEYS: lock [, label] [, waiters [, queue, ends]]
-- ARGV: token, ms to keep (0 = delete; else shorten to it, for WithMinHold),
--       how many of KEYS are the lock's
-- reply: 1 freed, 0 absent or another's; and 2 more if somebody was woken
local freed, keep, mine = 0, tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('GET', KEYS[1]) == ARGV[1] then
  freed = 1
  for i = 1, mine do
    if keep == 0 then
      redis.call('DEL', KEYS[i])
    elseif redis.call('PTTL', KEYS[i]) > keep then
      redis.call('PEXPIRE', KEYS[i], keep)
    end
  end
end
if keep > 0 or #KEYS == mine then
  return freed
end
if tell(KEYS[1], KEYS[mine + 1], KEYS[mine + 2], KEYS[mine + 3]) > 0 then
  return freed + 2
end
return freed
