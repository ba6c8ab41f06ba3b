-- Says who was first.

local function step(key, claim)
  local slot, token, instance, limit, valid_until, window, seconds = unpack(claim)
  if now > valid_until then
    return { 'stale' }
  end
  local at = tonumber(slot)
  if at > now then
    return { 'early', at - now }
  end
  local refusal = newer(key, 'v')
  if refusal then
    return refusal
  end
  local winner = winner_of(key, slot)
  if winner then
    return { winner == token and 'won' or 'taken' }
  end
  if now - at > limit or (window and now - at >= window) then
    return { 'late' }
  end
  local outcome = enter(key, slot, token, seconds)
  if outcome == 'won' then
    note(key, token, slot, false, instance)
  end
  return { outcome }
end
