-- Starts manual runs, in a key space of their own: they touch no slot.

local function step(key, token, instance, exclusive, lease, valid_until)
  if now > valid_until then
    return { 'late' }
  end
  local id = 'm' .. token
  local job, found = load(key, id, 'fence')
  if not job then
    return found
  end
  close_over(job, false)
  local answer
  local kept = record(job, id)
  if kept then
    local run = find(job, id)
    if run and run[TOKEN] == token then
      -- Its sender counts the lease from the sending of the packet that was answered.
      renew(job, run, lease)
      answer = { 'won', run[SLOT], run[FENCE] }
    else
      answer = { 'late' }
    end
  else
    for _, run in ipairs(exclusive and job.open or {}) do
      if run[COUNTS] and live(run) then
        answer = { 'overlap' }
      end
    end
  end
  if not answer then
    local slot = text(now)
    local run = { id, slot, 'running', 1, 0, 0, token, now + lease, false, 1, false, 0, exclusive }
    begin(job, run, token, 'manual', instance, found[4])
    insert(job, run)
    answer = { 'won', slot, run[FENCE] }
  end
  save(job)
  return answer
end
