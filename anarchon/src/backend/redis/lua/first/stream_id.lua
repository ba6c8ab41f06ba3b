-- By the ids of a stream, <job>:ids: the slot is the id, and a server takes none that is not greater than the last one.
-- So a slot whose entry was dropped can never be won again, and neither can one older than the last: it is late. The last
-- id goes with the key, so nothing here ever expires.

local function winner_of(key, slot)
  local entry = call('XRANGE', key .. ':ids', slot .. '-0', slot .. '-0')[1]
  return entry and entry[2][2]
end

local function enter(key, slot, token)
  local id = redis.pcall('XADD', key .. ':ids', slot .. '-0', 't', token)
  if type(id) == 'table' and id.err then
    if string.find(id.err, 'equal or smaller', 1, true) then
      return 'late'
    end
    -- Raised by the server in its own words, whose code says what to do about it.
    call('XADD', key .. ':ids', slot .. '-0', 't', token)
  end
  return 'won'
end

local function forget(key, slot)
  call('XDEL', key .. ':ids', slot .. '-0')
end
