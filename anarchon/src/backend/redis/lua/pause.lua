-- Pauses and resumes jobs. A paused one does not expire.

local function step(key, by, note)
  local job, found = load(key, false, 'ttl')
  if not job then
    return found
  end
  if by then
    set(job, 'pause', pack({ by, text(now), note }))
    job.paused, job.changed = true, true
    save(job)
    for _, suffix in ipairs({ '', ':h', ':s' }) do
      call('PERSIST', key .. suffix)
    end
  elseif not job.new then
    job.paused, job.changed = false, true
    save(job)
    call('HDEL', key, 'pause')
    if found[4] then
      expire(key, found[4])
    end
  end
  return { 'ok' }
end
