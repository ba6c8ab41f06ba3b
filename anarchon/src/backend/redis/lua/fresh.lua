-- Nearly all claims are of two kinds: of a slot newer than all that are decided, where nothing of the job is unfinished; and
-- those that come while that slot's first attempt is alive. They are answered here, just as `claim.lua` would, so that the
-- functions of all others need not be made, which costs a fifth of a call. From the first claim of another kind on, the
-- rest of the call is decided there.
--
-- A request begins with those values of the run that no other has, as they are stored: the id, the slot as a text, and the
-- token, of 32 digits. Options follow only where they are not those of the claim before.
--
-- An answer here is a number: the fence of a win, or what is left of the run that is alive as -1, -2 and so on.

-- How many bytes of a request are stored, beside the digits of the id and the slot.
local BESIDE = 36
-- What is before them in `open`: an array of one array of 17 values.
local ONE_RUN = '\145\220\0\17'

local sub = string.sub

local answers, first = { now }, 2
local hour = now - now % HOUR
local kind, limit, lease, valid_until, skip, shared

while first <= #ARGV do
  local request = ARGV[first]
  local id, _, token, slot, floor_field, _, _, its_kind, its_limit, its_lease, its_end, its_skip, its_shared =
    unpacked(request)
  if its_kind then
    kind, limit, lease, valid_until, skip, shared = its_kind, its_limit, its_lease, its_end, its_skip, its_shared
  end
  local key = KEYS[first - 1]
  local found = call('HMGET', key, 'v', 'open', floor_field)
  local floor = found[3]
  if found[1] ~= FORMAT or not found[2] or not floor or slot > now or now > valid_until then
    break
  end
  local open, fence, newest, paused = unpacked(found[2])
  local run = open[1]
  -- The first claim in each hour of the clock goes on, to note that somebody still has the job.
  if fence < hour then
    break
  end
  if run then
    local recorded = run[FAILURES] + run[RELEASES] > 0
    if recorded or open[2] or run[ID] ~= id or run[TOKEN] == token or run[UNTIL] <= now then
      break
    end
    answers[first] = now - run[UNTIL] - 1
  else
    if paused or slot <= newest or slot <= tonumber(floor) or now - slot > limit or kind == 'takeover' then
      break
    end
    fence = fence < now and now or fence + 1
    -- The run's UNTIL, CLAIMED and FENCE, the last fence, and the newest slot.
    local rest = times('>BdBdBdBdBd', 203, now + lease, 203, now, 203, fence, 203, fence, 203, slot)
    call('HSET', key, 'open', ONE_RUN .. sub(request, 1, 2 * #id + BESIDE) .. shared .. rest)
    answers[first] = fence
  end
  first = first + 1
end
if first > #ARGV then
  return answers
end
