-- Starts manual runs; they touch nothing that decides slots.

local function step(key, token, instance, valid_until)
  if now > valid_until then
    return { 'late' }
  end
  local refusal, known = newer(key, 'r' .. token)
  if refusal then
    return refusal
  end
  if known then
    return { 'won', unpacked(known)[R_SLOT] }
  end
  note(key, token, text(now), true, instance)
  return { 'won', text(now) }
end
