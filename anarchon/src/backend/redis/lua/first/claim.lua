-- Says who was first.

-- Also a claim that wins again writes: replicas are waited for up to the last write of the same connection.
local function won(key, version)
  call('HSET', key .. ':c', 'v', version or FORMAT)
  return { 'won' }
end

local function step(key, slot, token, instance, limit, valid_until, window, seconds)
  if now > valid_until then
    return { 'stale' }
  end
  local at = tonumber(slot)
  if at > now then
    return { 'early', at - now }
  end
  local refusal, version = newer(key, 'v')
  if refusal then
    return refusal
  end
  local winner = winner_of(key, slot)
  if winner == token then
    return won(key, version)
  elseif winner then
    return { 'taken' }
  end
  if now - at > limit or (window and now - at >= window) then
    return { 'late' }
  end
  local outcome = enter(key, slot, token, seconds)
  if outcome ~= 'won' then
    return { outcome }
  end
  note(key, token, slot, false, instance)
  return won(key, version)
end
