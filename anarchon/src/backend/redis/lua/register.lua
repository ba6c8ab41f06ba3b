-- Makes jobs known, and removes those that nobody has registered for long enough.

local AT_ONCE = 100
local after

local function step(key, identity, fingerprint, instance, forget_after)
  after = forget_after
  local job, found = load(key, false, 'pause', 'f:' .. identity, 'reg')
  if not job then
    return found
  end
  local answer = { 'registered' }
  local known = found[6] and unpacked(found[6]) or {}
  for named, by in pairs(known) do
    if by[1] ~= fingerprint and by[2] ~= instance and now - by[3] < DAY then
      answer[#answer + 1] = { named, by[2], by[1] }
    end
  end
  known[identity] = { fingerprint, instance, now }
  local floor = found[5]
  if not floor then
    floor = text(now)
    set(job, 'f:' .. identity, floor)
  end
  table.insert(answer, 2, floor)
  local ttl = text(after + DAY)
  set(job, 'reg', pack(known))
  set(job, 'ttl', ttl)
  if not job.new then
    touch(job)
  end
  save(job)
  if not found[4] then
    expire(key, ttl)
  end
  return answer
end

local answers = { now }
for at = 2, #ARGV do
  answers[at] = step(KEYS[at - 1], unpacked(ARGV[at]))
end
if INDEX and after then
  local gone = 0
  for _, key in ipairs(call('ZRANGEBYSCORE', INDEX, '-inf', '(' .. text(now - after), 'LIMIT', 0, 10 * AT_ONCE)) do
    local found = call('HMGET', key, 'v', 'pause')
    local ours = not found[1] or tonumber(found[1]) <= NEWEST
    if ours and not found[2] and gone < AT_ONCE then
      call('UNLINK', key, key .. ':h', key .. ':s')
      call('ZREM', INDEX, key)
      gone = gone + 1
    end
  end
end
return answers
