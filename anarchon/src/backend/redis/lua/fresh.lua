-- Nearly all claims are of two kinds: a slot's first one, where nothing else of the job is unfinished, and those that come
-- while that run is alive. They are answered here, just as `claim.lua` would, so that the functions of all others need not
-- be made, which costs a fifth of a call. From the first claim of another kind on, the rest of the call is decided there.

local answers, first = { now }, 2

while first <= #ARGV do
  local id, kind, token, instance, identity, _, _, limit, lease, _, max, retry, within, valid_until =
    unpacked(ARGV[first])
  local key, slot = KEYS[first - 1], tonumber(id)
  local found =
    call('HMGET', key, 'v', 'open', 'r:' .. id, 'pause', 'fence', 'mark', 'touched', 'skips', 'f:' .. identity)
  local floor, open = tonumber(found[9]), found[2] or ''
  local usual = found[1] == FORMAT and floor and not found[3] and now - (found[7] or now) <= HOUR
  if not usual or slot > now or now > valid_until then
    break
  end
  if open ~= '' then
    local runs = unpacked(open)
    local run = runs[1]
    if runs[2] or run[ID] ~= id or run[TOKEN] == token or run[UNTIL] <= now then
      break
    end
    answers[first] = { 'running', run[UNTIL] - now }
  else
    local mark, skips = tonumber(found[6]) or floor, tonumber(found[8]) or floor
    if kind == 'takeover' or found[4] or slot <= floor or slot <= mark or slot <= skips or now - slot > limit then
      break
    end
    local fence, reason = (found[5] or 0) + 1, kind == 'catch-up' and 'catch-up' or 'scheduled'
    if fence < now then
      fence = now
    end
    local run =
      { id, id, 'running', 1, 0, 0, token, now + lease, false, max, retry, within, true, fence, reason, instance, now }
    call('HSET', key, 'fence', format('%.0f', fence), 'open', pack({ run }))
    answers[first] = { 'won', 1, fence, reason, max }
  end
  first = first + 1
end
if first > #ARGV then
  return answers
end
