-- Who holds the lock, and who queues for it.
-- KEYS: lock, label [, queue, ends]
-- reply: {type, pttl, token, label [, {who, ticket, …} of the first thousand]}; token
--        is empty where the type is not string
local kind = redis.call('TYPE', KEYS[1])['ok']
local token, label = '', ''
if kind == 'string' then
  token = redis.call('GET', KEYS[1])
  if redis.call('TYPE', KEYS[2])['ok'] == 'string' then
    label = redis.call('GET', KEYS[2])
  end
end
local reply = {kind, redis.call('PTTL', KEYS[1]), token, label}
if KEYS[3] then
  local queue, now = {}, clock()
  local all = redis.pcall('ZRANGE', KEYS[3], 0, 999, 'WITHSCORES')
  for i = 1, #all, 2 do
    local till = redis.pcall('ZSCORE', KEYS[4], all[i])
    if type(till) == 'string' and tonumber(till) >= now then
      queue[#queue + 1] = all[i]
      queue[#queue + 1] = string.format('%.0f', tonumber(all[i + 1]))
    end
  end
  reply[5] = queue
end
return reply
