-- A command, unless a higher number was here.
-- KEYS: the number, the key   ARGV: n, the command's words
-- reply: {1, the command's reply}, {0, the highest number} or {0, what is no number}
local seen = redis.call('GET', KEYS[1])
if seen then
  local highest = tonumber(seen)
  if not highest or highest > tonumber(ARGV[1]) then return {0, seen} end
end
redis.call('SET', KEYS[1], ARGV[1])
local reply = redis.call(unpack(ARGV, 2))
if reply == false then return {1} end
return {1, reply}
