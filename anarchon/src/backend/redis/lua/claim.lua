-- Decides claims, by the table of the chapter on leases: its rows from the top. Those before `first` have been answered.

-- The first live run; or else, if such count, the first whose runner is gone and whom nobody has taken over.
local function blocker_of(job, id, orphans)
  local orphan
  for _, run in ipairs(job.open) do
    if run[ID] ~= id and run[COUNTS] and run[STATUS] == 'running' then
      if run[UNTIL] > now then
        return run
      elseif orphans and not orphan and not manual(run) then
        orphan = run
      end
    end
  end
  return orphan
end

local function overlap(blocker, recorded)
  return { 'overlap', blocker[ID], blocker[SLOT], left(blocker), recorded and 1 or 0 }
end

local function won(run)
  return { 'won', run[ATTEMPT], run[FENCE], run[REASON], run[MAX] }
end

local AS_RUN = { done = 'done', failed = 'failed', timed_out = 'timed_out', lost = 'dead' }

local function skipped(job, id)
  if tonumber(id) > job.newest then
    return false
  end
  local next_one = call('ZRANGEBYSCORE', job.key .. ':s', id, '+inf', 'LIMIT', 0, 1)[1]
  return next_one and tonumber(string.match(next_one, '^%S+')) <= tonumber(id)
end

-- Whether the run of another slot lies between these two.
local function between(job, from, to)
  for _, run in ipairs(job.open) do
    local slot = tonumber(run[SLOT])
    if not manual(run) and slot > tonumber(from) and slot < tonumber(to) then
      return true
    end
  end
  for _, member in ipairs(call('ZRANGEBYSCORE', job.key .. ':h', '(' .. from, '(' .. to)) do
    if string.byte(member) ~= 109 then
      return true
    end
  end
  return false
end

local function record_skip(job, id, previous, reason)
  local skips, first, count = job.key .. ':s', id, 1
  local before = call('ZREVRANGEBYSCORE', skips, '(' .. id, '-inf', 'LIMIT', 0, 1)[1]
  if before then
    local from, to, times, why = string.match(before, '^(%S+) (%S+) (%S+) (%S+)$')
    if why == reason and previous and to == text(previous) and not between(job, to, id) then
      first, count = from, tonumber(times) + 1
      call('ZREM', skips, before)
    end
  end
  call('ZADD', skips, id, first .. ' ' .. id .. ' ' .. text(count) .. ' ' .. reason)
  decided(job, tonumber(id))
end

-- Older runs that wait for a retry end as their last attempt did: the newer slot replaces them.
local function supersede(job, slot)
  for at = #job.open, 1, -1 do
    local run = job.open[at]
    if run[STATUS] == 'waiting' and tonumber(run[SLOT]) < slot then
      local attempts = record(job, run[ID], true)[R_ATTEMPTS]
      attempts[#attempts][A_NOTE] = 'superseded'
      close(job, at)
    end
  end
end

-- The run that a claim asks for, but for what is known when it begins.
local function asked_for(id, token)
  return { id, id, token, unpacked(shared) }
end

local function take_over(job, run, token)
  local reason = run[TOKEN] and 'takeover' or 'hand-over'
  if run[STATUS] == 'waiting' then
    reason = 'retry'
  end
  if run[TOKEN] then
    run[FAILURES], run[ENDED] = run[FAILURES] + 1, 'lost'
    end_attempt(job, run[ID], run[TOKEN], 'lost', false)
  end
  run[ATTEMPT], run[STATUS], run[UNTIL] = run[ATTEMPT] + 1, 'running', now + lease
  begin(job, run, token, reason, asked_for(run[ID], token)[INSTANCE])
  return won(run)
end

local function decide(job, id, token, slot, previous, paused, mark, floor)
  if slot > now then
    return { 'early', slot - now }
  end
  local run, kept = find(job, id), record(job, id)
  if run and run[TOKEN] == token then
    -- A lease that is over is not revived beside a run that was let in since.
    local blocker = skip and run[UNTIL] <= now and blocker_of(job, id)
    if blocker then
      return overlap(blocker, false)
    end
    renew(job, run, lease)
    return won(run)
  end
  if kept then
    local ended = attempt_of(kept, token)
    if ended then
      return { 'done', AS_RUN[ended[A_STATUS]] or 'running' }
    end
  end
  if kept and not run then
    return { 'done', kept[R_STATUS] }
  end
  if run then
    if run[UNTIL] > now then
      return { 'running', left(run) }
    end
    if paused then
      return { 'paused', 0 }
    end
    local blocker = skip and blocker_of(job, id)
    if blocker then
      return overlap(blocker, false)
    end
    return take_over(job, run, token)
  end
  if skipped(job, id) then
    return { 'done', 'skipped' }
  end
  if kind == 'takeover' then
    return { 'gone' }
  end
  if mark and slot <= tonumber(mark) then
    return { 'late', 'trimmed' }
  elseif slot <= tonumber(floor) then
    return { 'late', 'floor' }
  elseif now - slot > limit then
    return { 'late', 'too old' }
  end
  local recorded = kind == 'scheduled'
  if paused then
    if recorded then
      record_skip(job, id, previous, 'paused')
    end
    return { 'paused', recorded and 1 or 0 }
  end
  local blocker = skip and blocker_of(job, id, true)
  if blocker then
    if recorded then
      record_skip(job, id, previous, 'overlap')
    end
    return overlap(blocker, recorded)
  end
  if skip then
    supersede(job, slot)
  end
  run = asked_for(id, token)
  run[UNTIL] = now + lease
  begin(job, run, token, run[REASON], run[INSTANCE])
  insert(job, run)
  return won(run)
end

local function step(key, id, _, token, slot, floor_field, floor, previous, ...)
  if ... then
    kind, limit, lease, valid_until, skip, shared = ...
  end
  if now > valid_until then
    return { 'late', 'stale' }
  end
  local job, found = load(key, id, 'pause', 'mark', 'touched', floor_field)
  if not job then
    return found
  end
  if found[7] then
    floor = found[7]
  else
    set(job, floor_field, text(floor))
  end
  if found[6] and tonumber(found[6]) < hour then
    touch(job)
  end
  close_over(job, token)
  local answer = decide(job, id, token, slot, previous, found[4], found[5], floor)
  save(job)
  return answer
end

for at = first, #ARGV do
  answers[at] = step(KEYS[at - 1], unpacked(ARGV[at]))
end
return answers
