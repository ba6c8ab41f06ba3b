-- Moves the ends of live leases forward; revives none.

local function step(key, beat)
  local id, slot, token, lease = unpack(beat)
  local job, found = load(key, false)
  if not job then
    return found
  end
  local run = find(job, id)
  if not run or run[SLOT] ~= slot or run[TOKEN] ~= token or not live(run) then
    return { 'lost' }
  end
  renew(job, run, lease)
  save(job)
  return { 'alive' }
end
