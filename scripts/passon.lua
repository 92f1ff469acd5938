-- Wake the one who waits for longest, and is not who asks: a wake-up that did not
-- lead to a lease goes to the next. Who does not listen any more is skipped.
-- KEYS: waiters
-- ARGV: channel of who asks, lock key
-- reply: 1 somebody was woken, 0 nobody waits
while true do
  local two = redis.call('ZRANGE', KEYS[1], 0, 1)
  local who = two[1]
  if who == ARGV[1] then
    who = two[2]
  end
  if not who then
    return 0
  end
  redis.call('ZREM', KEYS[1], who)
  if redis.call('PUBLISH', who, '1' .. ARGV[2]) > 0 then
    return 1
  end
end
