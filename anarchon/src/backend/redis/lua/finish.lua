-- Ends attempts, for as long as nobody has taken their runs over.

local LONGEST_WAIT = 600000

local function step(key, id, slot, token, status, why, last)
  local job, found = load(key, id)
  if not job then
    return found
  end
  local run, at = find(job, id)
  local kept = record(job, id)
  if not kept or kept[R_SLOT] ~= slot then
    return { 'lost' }
  end
  if not run or run[TOKEN] ~= token then
    local ended = attempt_of(kept, token)
    if not ended or ended[A_STATUS] ~= status then
      return { 'lost' }
    end
    return { 'recorded', run and run[STATUS] or kept[R_STATUS], run and run[STATUS] == 'waiting' and left(run) }
  end
  run[TOKEN], run[ENDED], run[UNTIL] = false, status, now
  job.changed = true
  local attempt = end_attempt(job, id, token, status, why)
  if last and attempt then
    attempt[A_NOTE] = 'stopped'
  end
  local wait = false
  if status ~= 'done' then
    run[FAILURES] = run[FAILURES] + 1
    if run[RETRY] and not last and run[FAILURES] < run[MAX] then
      wait = math.min(run[RETRY] * 2 ^ math.min(run[FAILURES] - 1, 40), LONGEST_WAIT)
      run[STATUS], run[UNTIL] = 'waiting', now + wait
    end
  end
  if not wait then
    settle(job, at, status)
  end
  save(job)
  return { 'recorded', wait and 'waiting' or status, wait }
end
