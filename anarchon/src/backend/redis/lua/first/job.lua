-- What is kept of a job by the strategies that only say who was first. The text of each script is this file, then how the
-- strategy decides (for claims and trims), its own file, and `each.lua`. KEYS and ARGV are as in `../start.lua`.
--
--   <job>:c   a hash: v, the format; r<token>, one attempt, packed as below; and what the strategy decides by
--   <job>:ch  a sorted set: the tokens by slot
--
-- Needs Redis 5, for streams, or any Valkey.

local FORMAT, NEWEST = '1', 2
local R_SLOT, R_MANUAL, R_INSTANCE, R_CLAIMED, R_STATUS, R_ENDED, R_ERROR, R_NOTE = 1, 2, 3, 4, 5, 6, 7, 8

local call, pack, unpacked, format = redis.call, cmsgpack.pack, cmsgpack.unpack, string.format

local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local function text(number)
  return format('%.0f', number)
end

-- The answer that the data is newer, if it is; and a field besides.
local function newer(key, field)
  local found = call('HMGET', key .. ':c', 'v', field)
  if found[1] and found[1] ~= FORMAT and tonumber(found[1]) > NEWEST then
    return { 'newer', found[1] }
  end
  return nil, found[2]
end

-- Notes an attempt, unless it is known.
local function note(key, token, slot, manual, instance)
  local attempt = pack({ slot, manual, instance, now, false, false, false, false })
  if call('HSETNX', key .. ':c', 'r' .. token, attempt) == 1 then
    call('HSET', key .. ':c', 'v', FORMAT)
    call('ZADD', key .. ':ch', slot, token)
  end
end
