-- Free several locks at once: release.lua, once for each.
-- KEYS: n locks [, n labels] [, n waiters [, n queues, n ends]]
-- ARGV: token, ms to keep (0 = delete; else shorten to it), n, how many labels
-- reply: 1 all were the caller's, 0 not; and 2 more if somebody was woken
local keep, n, labels = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local function free(key)
  if keep == 0 then
    redis.call('DEL', key)
  elseif redis.call('PTTL', key) > keep then
    redis.call('PEXPIRE', key, keep)
  end
end
local freed, woken = 1, 0
for i = 1, n do
  if redis.call('GET', KEYS[i]) == ARGV[1] then
    free(KEYS[i])
    if labels > 0 then
      free(KEYS[n + i])
    end
  else
    freed = 0
  end
end
local rest = n + labels
if keep > 0 or #KEYS == rest then
  return freed
end
for i = 1, n do
  if tell(KEYS[i], KEYS[rest + i], KEYS[rest + n + i], KEYS[rest + 2 * n + i]) > 0 then
    woken = 2
  end
end
return freed + woken
