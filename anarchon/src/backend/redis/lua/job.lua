-- The steps that all scripts share.

-- Numbers become text here and nowhere else: Lua's own way rounds them to 14 digits.
local function text(number)
  return format('%.0f', number)
end

-- The job as it is, with what else is asked for; the record of `id` is read on the way. Or the answer that it is newer.
local function load(key, id, ...)
  local found = call('HMGET', key, 'v', 'open', 'r:' .. (id or ''), ...)
  local version = found[1]
  if version and version ~= FORMAT and tonumber(version) > NEWEST then
    return nil, { 'newer', version }
  end
  local job = {
    key = key, new = not version, open = {}, fence = 0, newest = 0, records = {}, stale = {}, fields = {}, over = {},
  }
  if found[2] then
    job.open, job.fence, job.newest, job.paused = unpacked(found[2])
  end
  if id then
    job.records[id] = found[3] and unpacked(found[3])
  end
  return job, found
end

local function set(job, field, value)
  local fields = job.fields
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end

local function find(job, id)
  for at, run in ipairs(job.open) do
    if run[ID] == id then
      return run, at
    end
  end
end

local function attempt_in(run)
  local who = run[INSTANCE]
  return { run[ATTEMPT], run[TOKEN], run[FENCE], run[REASON], who, 'running', run[CLAIMED], false, false, false }
end

-- The record of a run; nil if there is no such run. Whoever changes it says so.
local function record(job, id, changes)
  local known = job.records[id]
  if known == nil then
    local found = call('HGET', job.key, 'r:' .. id)
    known = found and unpacked(found)
  end
  if not known then
    local run = find(job, id)
    known = run and { run[SLOT], false, 0, { attempt_in(run) } }
  end
  job.records[id] = known or false
  if changes and known then
    job.stale[id] = true
  end
  return known or nil
end

local function touch(job)
  set(job, 'touched', text(now))
  if INDEX then
    call('ZADD', INDEX, text(now), job.key)
  end
end

-- Lua hands on some thousand arguments at once, and no more.
local function write(command, key, list)
  if #list <= CHUNK then
    return call(command, key, unpack(list))
  end
  for at = 1, #list, CHUNK do
    call(command, key, unpack(list, at, math.min(at + CHUNK - 1, #list)))
  end
end

-- What `open` holds.
local function state(job)
  -- No runs are packed as the byte 144, and `true` as 195.
  local runs = #job.open > 0 and pack(job.open) or '\144'
  return runs .. times('>BdBd', 203, job.fence, 203, job.newest) .. (job.paused and '\195' or '')
end

-- Notes a slot that is decided: older ones are not for `fresh.lua`.
local function decided(job, slot)
  job.newest, job.changed = math.max(job.newest, slot), true
end

-- Writes what has changed: as a rule by one command for the hash, and one for runs that are over.
local function save(job)
  if job.changed then
    set(job, 'open', state(job))
  end
  for id in pairs(job.stale) do
    set(job, 'r:' .. id, pack(job.records[id]))
  end
  if #job.fields == 0 then
    return
  end
  if job.new then
    set(job, 'v', FORMAT)
    touch(job)
  end
  write('HSET', job.key, job.fields)
  if #job.over > 0 then
    write('ZADD', job.key .. ':h', job.over)
  end
end

local function manual(run)
  return string.byte(run[ID]) == 109
end

local function insert(job, run)
  local open, slot, at = job.open, tonumber(run[SLOT]), #job.open + 1
  while at > 1 do
    local before = tonumber(open[at - 1][SLOT])
    if before < slot or (before == slot and open[at - 1][ID] < run[ID]) then
      break
    end
    at = at - 1
  end
  table.insert(open, at, run)
  if not manual(run) then
    decided(job, slot)
  end
  job.changed = true
end

local function left(run)
  return math.max(run[UNTIL] - now, 0)
end

local function live(run)
  return run[STATUS] == 'running' and run[UNTIL] > now
end

local function renew(job, run, lease)
  run[UNTIL] = math.max(run[UNTIL], now + lease)
  job.changed = true
end

local function attempt_of(kept, token)
  local attempts = kept and kept[R_ATTEMPTS] or {}
  for at = #attempts, 1, -1 do
    if attempts[at][A_TOKEN] == token then
      return attempts[at]
    end
  end
end

local function end_attempt(job, id, token, status, why)
  local attempt = attempt_of(record(job, id, true), token)
  if attempt then
    attempt[A_STATUS], attempt[A_ENDED], attempt[A_ERROR] = status, now, why
  end
  return attempt
end

-- Notes a new attempt of a run, with the next fence: it grows even when a failed-over server has forgotten the last. The
-- first one needs no record yet: all there is to know is in the run.
local function begin(job, run, token, reason, instance)
  local kept = find(job, run[ID]) and record(job, run[ID], true)
  job.fence = math.max(job.fence + 1, now)
  run[TOKEN], run[REASON], run[INSTANCE], run[CLAIMED], run[FENCE] = token, reason, instance, now, job.fence
  if kept then
    local attempts = kept[R_ATTEMPTS]
    attempts[#attempts + 1] = attempt_in(run)
  end
  job.changed = true
end

-- Takes the run at this place out of the unfinished ones, and gives it its last status.
local function settle(job, at, status)
  local run = job.open[at]
  local kept = record(job, run[ID], true)
  table.remove(job.open, at)
  kept[R_STATUS], kept[R_UNTIL] = status, run[UNTIL]
  job.over[#job.over + 1] = run[SLOT]
  job.over[#job.over + 1] = run[ID] .. ' ' .. #kept[R_ATTEMPTS]
  job.changed = true
end

local function closes(run)
  if run[UNTIL] > now then
    return false
  end
  local used_up = run[FAILURES] + (run[TOKEN] and 1 or 0) >= run[MAX] or run[RELEASES] >= 20
  return manual(run) or used_up or now - run[UNTIL] > run[WITHIN]
end

local function close(job, at)
  local run, status = job.open[at], 'dead'
  if run[STATUS] == 'waiting' then
    status = run[ENDED] == 'timed_out' and 'timed_out' or 'failed'
  end
  if run[TOKEN] then
    end_attempt(job, run[ID], run[TOKEN], 'lost', false)
  end
  settle(job, at, status)
end

-- Closes what is expired or used up, but not what the token still holds: that one wins again.
local function close_over(job, token)
  for at = #job.open, 1, -1 do
    local run = job.open[at]
    if closes(run) and not (token and run[TOKEN] == token) then
      close(job, at)
    end
  end
end

local function expire(key, ttl)
  for _, suffix in ipairs({ '', ':h', ':s' }) do
    call('PEXPIRE', key .. suffix, ttl)
  end
end
