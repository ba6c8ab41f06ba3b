-- Removes a job that nobody has touched for so many ms, unless it is paused. Only on a cluster, where no script can look
-- through the index: a job may have come back since it was found there.

local function step(key, forget_after)
  local found = call('HMGET', key, 'v', 'pause', 'touched')
  if (found[1] and tonumber(found[1]) > NEWEST) or found[2] then
    return { 'kept' }
  end
  if found[3] and now - tonumber(found[3]) <= forget_after then
    return { 'kept' }
  end
  call('UNLINK', key, key .. ':h', key .. ':s')
  return { 'gone' }
end
