-- The newest records of a job: more than were asked for, as the client puts attempts and skips into one order.

local function tell(into, id, kept, status)
  for _, attempt in ipairs(kept and kept[R_ATTEMPTS] or {}) do
    local line = { 'attempt', id, kept[R_SLOT], status }
    for at, value in ipairs(attempt) do
      line[4 + at] = value
    end
    into[#into + 1] = line
  end
end

local function step(key, limit)
  local job, newer = load(key, false)
  if not job then
    return newer
  end
  local lines = { 'history' }
  for _, run in ipairs(job.open) do
    tell(lines, run[ID], record(job, run[ID]), run[STATUS])
  end
  if limit == 0 then
    return lines
  end
  -- As many runs as records at most, and those that share the last one's slot.
  local last = call('ZREVRANGE', key .. ':h', limit - 1, limit - 1, 'WITHSCORES')
  for _, member in ipairs(call('ZREVRANGEBYSCORE', key .. ':h', '+inf', last[2] or '-inf')) do
    local id = string.match(member, '^%S+')
    local kept = record(job, id)
    tell(lines, id, kept, kept and kept[R_STATUS])
  end
  for _, skip in ipairs(call('ZREVRANGE', key .. ':s', 0, limit - 1)) do
    lines[#lines + 1] = { 'skipped', string.match(skip, '^(%S+) (%S+) (%S+) (%S+)$') }
  end
  return lines
end
