-- The newest attempts, and those that share the last one's slot.

local function step(key, limit)
  local refusal = newer(key, 'v')
  if refusal then
    return refusal
  end
  local lines = { 'history' }
  if limit == 0 then
    return lines
  end
  local last = call('ZREVRANGE', key .. ':ch', limit - 1, limit - 1, 'WITHSCORES')
  for _, token in ipairs(call('ZREVRANGEBYSCORE', key .. ':ch', '+inf', last[2] or '-inf')) do
    local known = call('HGET', key .. ':c', 'r' .. token)
    if known then
      local attempt = unpacked(known)
      lines[#lines + 1] = { token, unpack(attempt) }
    end
  end
  return lines
end
