-- Starts manual runs, in a key space of their own: they touch no slot.

local function step(key, token, instance, exclusive, lease, valid_until)
  if now > valid_until then
    return { 'late' }
  end
  local id = 'm' .. token
  local job, found = load(key, id)
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
    local run =
      { id, slot, token, 'running', 1, 0, 0, false, 1, false, 0, exclusive, 'manual', instance, now + lease, now, 0 }
    begin(job, run, token, 'manual', instance)
    insert(job, run)
    answer = { 'won', slot, run[FENCE] }
  end
  save(job)
  return answer
end
