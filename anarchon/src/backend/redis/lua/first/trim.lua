-- Drops the oldest attempts beyond the retention, a few hundred at a time, with what decided their slots.

local BATCH = 500

local function step(key, size, ttl, keep, expiry)
  local refusal, version = newer(key, 'v')
  if refusal then
    return refusal
  end
  if not version then
    return { 'trimmed' }
  end
  local attempts, order = key .. ':c', key .. ':ch'
  local kept_since, oldest = now - keep, ttl and now - ttl
  local excess = call('ZCARD', order) - size
  for at, token in ipairs(call('ZRANGEBYSCORE', order, '-inf', '(' .. text(kept_since), 'LIMIT', 0, BATCH)) do
    local known = call('HGET', attempts, 'r' .. token)
    local attempt = known and unpacked(known)
    local ended = attempt and (attempt[R_ENDED] or attempt[R_CLAIMED])
    if not attempt or ((at <= excess or (oldest and ended < oldest)) and ended < kept_since) then
      call('HDEL', attempts, 'r' .. token)
      call('ZREM', order, token)
      if attempt and not attempt[R_MANUAL] then
        forget(key, attempt[R_SLOT])
      end
    end
  end
  if expiry then
    call('PEXPIRE', attempts, expiry)
    call('PEXPIRE', order, expiry)
  end
  return { 'trimmed' }
end
