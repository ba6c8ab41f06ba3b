-- Whether a job is paused, by whom, since when and why.

local function step(key)
  local job, found = load(key, false, 'pause')
  if not job then
    return found
  end
  return { 'pause', unpack(found[4] and unpacked(found[4]) or {}) }
end
