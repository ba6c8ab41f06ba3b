-- Notes how attempts ended; the first word stands.

local function step(key, token, status, why, last)
  local refusal, known = newer(key, 'r' .. token)
  if refusal then
    return refusal
  end
  local attempt = known and unpacked(known)
  if attempt and not attempt[R_STATUS] then
    attempt[R_STATUS], attempt[R_ENDED], attempt[R_ERROR] = status, now, why
    attempt[R_NOTE] = last and 'stopped'
    call('HSET', key .. ':c', 'r' .. token, pack(attempt))
  end
  return { 'recorded' }
end
