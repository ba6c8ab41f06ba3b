-- Gives attempts up: the run stays `running`, with its lease ended now.

local function step(key, release)
  local id, token, returned = unpack(release)
  local job, found = load(key, id)
  if not job then
    return found
  end
  local status = returned and 'returned' or 'handed_over'
  local run = find(job, id)
  if not run or run[TOKEN] ~= token then
    local ended = attempt_of(record(job, id), token)
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
