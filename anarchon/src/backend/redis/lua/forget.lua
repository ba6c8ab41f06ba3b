-- Removes a job, unless it is paused. Only on a cluster, where no script can look through the index.

local function step(key)
  local found = call('HMGET', key, 'v', 'pause')
  if (found[1] and tonumber(found[1]) > NEWEST) or found[2] then
    return { 'kept' }
  end
  call('UNLINK', key, key .. ':h', key .. ':s')
  return { 'gone' }
end
