-- Compare-and-delete: only the holder's own token frees the lock. Then one of
-- those who wait here is woken, whatever stood at the lock: the name is free on a
-- majority, even where the lease had no vote. Only one, and the one who waits for
-- longest; who does not listen any more is skipped. Waking is a courtesy: where it
-- is not allowed, the release stands and the waiters poll.
-- KEYS: lock [, label] [, waiters]
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
while true do
  local first = redis.pcall('ZPOPMIN', KEYS[#KEYS])
  if first.err or not first[1] then
    return freed
  end
  local heard = redis.pcall('PUBLISH', first[1], '0' .. KEYS[1])
  if type(heard) ~= 'number' then
    return freed
  elseif heard > 0 then
    return freed + 2
  end
end
