-- Gives attempts up: the run stays `running`, with its lease ended now.

local function step(key, id, slot, token, returned)
  local job, found = load(key, id)
  if not job then
    return found
  end
  local status = returned and 'returned' or 'handed_over'
  local run, kept = find(job, id), record(job, id)
  if not kept or kept[R_SLOT] ~= slot then
    return { 'lost' }
  end
  if not run or run[TOKEN] ~= token then
    local ended = attempt_of(kept, token)
    return { ended and ended[A_STATUS] == status and 'released' or 'lost' }
  end
  run[TOKEN], run[RELEASES], run[UNTIL], run[ENDED] = false, run[RELEASES] + 1, now, status
  if returned then
    run[ATTEMPT] = run[ATTEMPT] - 1
  end
  job.changed = true
  end_attempt(job, id, token, status, false)
  save(job)
  return { 'released' }
end
