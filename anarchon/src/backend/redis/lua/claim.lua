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

local function skipped(job, id, bound)
  if not bound or tonumber(id) > tonumber(bound) then
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

local function record_skip(job, id, previous, reason, bound)
  local skips, first, count = job.key .. ':s', id, 1
  local before = call('ZREVRANGEBYSCORE', skips, '(' .. id, '-inf', 'LIMIT', 0, 1)[1]
  if before then
    local from, to, times, why = string.match(before, '^(%S+) (%S+) (%S+) (%S+)$')
    if why == reason and to == previous and not between(job, to, id) then
      first, count = from, tonumber(times) + 1
      call('ZREM', skips, before)
    end
  end
  call('ZADD', skips, id, first .. ' ' .. id .. ' ' .. text(count) .. ' ' .. reason)
  if not bound or tonumber(bound) < tonumber(id) then
    set(job, 'skips', id)
  end
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

local function take_over(job, run, token, instance, lease, fence)
  local reason = run[TOKEN] and 'takeover' or 'hand-over'
  if run[STATUS] == 'waiting' then
    reason = 'retry'
  end
  if run[TOKEN] then
    run[FAILURES], run[ENDED] = run[FAILURES] + 1, 'lost'
    end_attempt(job, run[ID], run[TOKEN], 'lost', false)
  end
  run[ATTEMPT], run[STATUS], run[UNTIL] = run[ATTEMPT] + 1, 'running', now + lease
  begin(job, run, token, reason, instance, fence)
  return won(run)
end

local function decide(job, found, floor, ...)
  local id, kind, token, instance, _, _, previous, limit, lease, skip, max, retry, within = ...
  local paused, fence, mark, bound = found[4], found[5], found[6], found[8]
  local slot = tonumber(id)
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
    return take_over(job, run, token, instance, lease, fence)
  end
  if skipped(job, id, bound) then
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
      record_skip(job, id, previous, 'paused', bound)
    end
    return { 'paused', recorded and 1 or 0 }
  end
  local blocker = skip and blocker_of(job, id, true)
  if blocker then
    if recorded then
      record_skip(job, id, previous, 'overlap', bound)
    end
    return overlap(blocker, recorded)
  end
  if skip then
    supersede(job, slot)
  end
  local reason = kind == 'catch-up' and 'catch-up' or 'scheduled'
  -- With places for what `begin` says: to enlarge a table costs more than to make it.
  run = { id, id, 'running', 1, 0, 0, token, now + lease, false, max, retry, within, true, false, false, false, false }
  begin(job, run, token, reason, instance, fence)
  insert(job, run)
  return won(run)
end

local function step(key, ...)
  local id, _, token, _, identity, floor = ...
  if now > select(14, ...) then
    return { 'late', 'stale' }
  end
  local job, found = load(key, id, 'pause', 'fence', 'mark', 'touched', 'skips', 'f:' .. identity)
  if not job then
    return found
  end
  if found[9] then
    floor = found[9]
  else
    set(job, 'f:' .. identity, floor)
  end
  if found[7] and now - tonumber(found[7]) > HOUR then
    touch(job)
  end
  close_over(job, token)
  local answer = decide(job, found, floor, ...)
  save(job)
  return answer
end

for at = first, #ARGV do
  answers[at] = step(KEYS[at - 1], unpacked(ARGV[at]))
end
return answers
