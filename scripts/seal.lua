-- Compare-and-set of the seal, with the quarantine that goes with it, so that
-- many clients agree on when it began (hazard H8).
-- KEYS: seal, quarantine
-- ARGV: expected seal ('' = none), new seal ('' = only look), quarantine ms (0 = none), force ('1' or '0')
-- reply: {1 written or 0, the seal that stands now, ms of quarantine left}
local seal = redis.call('GET', KEYS[1]) or ''
local written = 0
if ARGV[2] ~= '' and (ARGV[4] == '1' or seal == ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[2])
  if tonumber(ARGV[3]) > 0 then
    redis.call('SET', KEYS[2], '1', 'PX', ARGV[3])
  end
  seal = ARGV[2]
  written = 1
end
return {written, seal, math.max(0, redis.call('PTTL', KEYS[2]))}
