-- Leave a queue. What was kept for who leaves is kept for the next; where nobody
-- else queues, the lock is free and a plain waiter is woken. Without the lock, as
-- after the name was won, the entry goes and nothing else happens.
-- KEYS: queue, ends [, lock, waiters]
-- ARGV: who
-- reply: 2 somebody was woken, 0 nobody
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
if #KEYS == 2 then
  return 0
end
local holder = redis.call('GET', KEYS[3])
if holder == RESERVED .. ARGV[1] then
  redis.call('DEL', KEYS[3])
elseif holder then
  return 0
end
return tell(KEYS[3], KEYS[4], KEYS[1], KEYS[2]) > 0 and 2 or 0
