-- By a field for each slot, s<slot>, of the hash: older slots than the window are late, so what is older may go.

local function winner_of(key, slot)
  return call('HGET', key .. ':c', 's' .. slot)
end

local function enter(key, slot, token)
  call('HSET', key .. ':c', 's' .. slot, token)
  return 'won'
end

local function forget(key, slot)
  call('HDEL', key .. ':c', 's' .. slot)
end
