-- By idempotent XADD on a stream, <job>:im, of Redis 8.6. Its answer is the id of the first entry, whoever added that, so
-- the entry is read back; if it was dropped, somebody has won. Each slot is a producer of its own: how many ids are
-- remembered is counted per producer, and newer slots push none out.
--
-- Setting the window empties what is remembered, so it is set once, when the stream is made and before anything is added.

local function make(key, seconds)
  local stream = key .. ':im'
  if call('EXISTS', stream) == 0 then
    call('XDEL', stream, call('XADD', stream, '*', 't', ''))
    call('XCFGSET', stream, 'IDMP-DURATION', seconds)
  end
end

local function winner_of(key, slot)
  local id = call('HGET', key .. ':c', 'e' .. slot)
  local entry = id and call('XRANGE', key .. ':im', id, id)[1]
  return entry and entry[2][2]
end

local function enter(key, slot, token, seconds)
  make(key, seconds)
  local id = call('XADD', key .. ':im', 'IDMP', slot, slot, '*', 't', token)
  local entry = call('XRANGE', key .. ':im', id, id)[1]
  if not entry or entry[2][2] ~= token then
    return 'taken'
  end
  call('HSETNX', key .. ':c', 'e' .. slot, id)
  return 'won'
end

local function forget(key, slot)
  local id = call('HGET', key .. ':c', 'e' .. slot)
  if id then
    call('XDEL', key .. ':im', id)
    call('HDEL', key .. ':c', 'e' .. slot)
  end
end
