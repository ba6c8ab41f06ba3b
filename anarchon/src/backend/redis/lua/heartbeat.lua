-- Moves the ends of live leases forward; revives none. A job is read and written once, however many of its runs are
-- renewed, in whatever order.

local jobs = {}
local alive, lost = { 'alive' }, { 'lost' }

local function job_at(key)
  local known = jobs[key]
  if not known then
    local job, refusal = load(key, false)
    known = { job = job, refusal = not job and refusal, runs = {} }
    for _, run in ipairs(job and job.open or {}) do
      known.runs[run[ID]] = run
    end
    jobs[key] = known
  end
  return known
end

local function step(key, id, slot, token, lease)
  local known = job_at(key)
  if known.refusal then
    return known.refusal
  end
  local run = known.runs[id]
  if not run or run[SLOT] ~= slot or run[TOKEN] ~= token or not live(run) then
    return lost
  end
  renew(known.job, run, lease)
  return alive
end

local answers = { now }
for at = 2, #ARGV do
  answers[at] = step(KEYS[at - 1], unpacked(ARGV[at]))
end
for _, known in pairs(jobs) do
  if known.job then
    save(known.job)
  end
end
return answers
