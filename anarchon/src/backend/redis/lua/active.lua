-- The unfinished runs of these jobs, or of all. Manual ones whose lease is over are closed on the way.

local runs = { now }
local keys = KEYS
if #ARGV == 1 then
  keys = call('ZRANGE', INDEX, 0, -1)
end
for at = 1, #ARGV == 1 and #keys or #ARGV - 1 do
  local job, newer = load(keys[at], false)
  if not job then
    return { now, newer }
  end
  for place = #job.open, 1, -1 do
    if manual(job.open[place]) and closes(job.open[place]) then
      close(job, place)
    end
  end
  for _, run in ipairs(job.open) do
    runs[#runs + 1] = { job.key, run[ID], run[SLOT], run[STATUS], run[ATTEMPT], run[INSTANCE], left(run) }
  end
  save(job)
end
return runs
