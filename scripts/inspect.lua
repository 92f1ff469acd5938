-- Who holds the lock.
-- KEYS: lock, label
-- reply: {type, pttl, token, label}; token is empty where the type is not string
local kind = redis.call('TYPE', KEYS[1])['ok']
local token, label = '', ''
if kind == 'string' then
  token = redis.call('GET', KEYS[1])
  if redis.call('TYPE', KEYS[2])['ok'] == 'string' then
    label = redis.call('GET', KEYS[2])
  end
end
return {kind, redis.call('PTTL', KEYS[1]), token, label}
