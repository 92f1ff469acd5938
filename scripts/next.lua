-- What the scripts share that know who is next for a name: it stands before each of
-- them. A queue is two sorted sets: who waits, by ticket, and the ms of this server's
-- TIME until which an entry lives. One that is not in both is none.
local RESERVED = 'reserved:'

-- The ms of TIME.
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- Who stands first and lives, and until when. Entries that ended are removed, all
-- together: the dead cost one lease, however many they are.
local function first(queue, ends, now)
  for _, who in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', string.format('(%.0f', now))) do
    redis.call('ZREM', queue, who)
    redis.call('ZREM', ends, who)
  end
  while true do
    local who = redis.call('ZRANGE', queue, 0, 0)[1]
    local till = who and redis.call('ZSCORE', ends, who)
    if till or not who then
      return who, tonumber(till)
    end
    redis.call('ZREM', queue, who)
  end
end

-- Keep a name that became free for who stands first, for as long as its entry lives,
-- and wake it. The reply is nil where nobody queues, else how many heard it.
local function reserve(lock, queue, ends)
  if redis.call('EXISTS', queue) == 0 then
    return nil
  end
  local now = clock()
  local who, till = first(queue, ends, now)
  if not who then
    return nil
  end
  local holder = redis.call('GET', lock)
  if not holder or string.sub(holder, 1, #RESERVED) == RESERVED then
    redis.call('SET', lock, RESERVED .. who, 'PX', math.max(till - now, 1))
  end
  local heard = redis.pcall('PUBLISH', string.match(who, '^[^.]*'), '2' .. who)
  return type(heard) == 'number' and heard or 0
end

-- Wake the plain waiter that is registered for longest; who does not listen any more
-- is skipped. The reply is how many heard it.
local function wake(waiters, lock)
  while true do
    local who = redis.pcall('ZPOPMIN', waiters)
    if who.err or not who[1] then
      return 0
    end
    local heard = redis.pcall('PUBLISH', who[1], '0' .. lock)
    if type(heard) ~= 'number' then
      return 0
    elseif heard > 0 then
      return heard
    end
  end
end

-- Tell whoever is next that a name is free: the queue first. Telling is a courtesy:
-- where it is not allowed, what the script did before stands and the waiters poll.
local function tell(lock, waiters, queue, ends)
  if queue then
    local ok, heard = pcall(reserve, lock, queue, ends)
    if ok and heard then
      return heard
    end
  end
  return wake(waiters, lock)
end

