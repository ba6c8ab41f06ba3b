-- Drops what is beyond the retention of its job, oldest first and a few hundred at a time, and moves the trim mark.

local BATCH = 500

-- The slot below which attempts are beyond the newest `size`; nil if there are no more than that.
local function attempts_cut(job, size)
  local slots = {}
  local function add(slot, times)
    for _ = 1, times do
      slots[#slots + 1] = slot
    end
  end
  for _, run in ipairs(job.open) do
    add(tonumber(run[SLOT]), #record(job, run[ID])[R_ATTEMPTS])
  end
  local newest = call('ZREVRANGE', job.key .. ':h', 0, size, 'WITHSCORES')
  for at = 1, #newest, 2 do
    add(tonumber(newest[at + 1]), tonumber(string.match(newest[at], '%d+$')))
  end
  if #slots <= size then
    return nil
  end
  table.sort(slots, function(a, b) return a > b end)
  return slots[size] or math.huge
end

local function skips_cut(skips, size)
  if call('ZCARD', skips) <= size then
    return nil
  end
  return size == 0 and math.huge or tonumber(call('ZREVRANGE', skips, size - 1, size - 1, 'WITHSCORES')[2])
end

local function ended_at(kept)
  local ended
  for _, attempt in ipairs(kept[R_ATTEMPTS]) do
    if attempt[A_ENDED] then
      ended = math.max(ended or attempt[A_ENDED], attempt[A_ENDED])
    end
  end
  return ended or kept[R_UNTIL]
end

local function step(key, size, ttl, keep)
  local job, found = load(key, false, 'mark')
  if not job then
    return found
  end
  if job.new then
    return { 'trimmed' }
  end
  close_over(job, false)
  save(job)
  local history, skips = key .. ':h', key .. ':s'
  local kept_since, oldest = now - keep, ttl and now - ttl
  local before = '(' .. text(kept_since)
  local mark = found[4]
  local function over(slot)
    if not mark or tonumber(mark) < tonumber(slot) then
      mark = slot
    end
  end
  local fields, members = {}, {}
  local old = call('ZRANGEBYSCORE', history, '-inf', before, 'LIMIT', 0, BATCH)
  local cut = #old > 0 and attempts_cut(job, size)
  for _, member in ipairs(old) do
    local id = string.match(member, '^%S+')
    local kept = record(job, id)
    local ended = kept and ended_at(kept)
    local beyond = kept and ((cut and tonumber(kept[R_SLOT]) < cut) or (oldest and ended < oldest))
    -- One without a record is left from a hash that was evicted or removed, and says nothing.
    if not kept or (beyond and ended < kept_since) then
      fields[#fields + 1], members[#members + 1] = 'r:' .. id, member
      if string.byte(id) ~= 109 then
        over(id)
      end
    end
  end
  if #fields > 0 then
    call('HDEL', key, unpack(fields))
    call('ZREM', history, unpack(members))
  end
  cut = skips_cut(skips, size)
  if cut or oldest then
    for _, member in ipairs(call('ZRANGEBYSCORE', skips, '-inf', before, 'LIMIT', 0, BATCH)) do
      local last = string.match(member, '^%S+ (%S+)')
      if (cut and tonumber(last) < cut) or (oldest and tonumber(last) < oldest) then
        call('ZREM', skips, member)
        over(last)
      end
    end
  end
  if mark and mark ~= found[4] then
    decided(job, tonumber(mark))
    call('HSET', key, 'mark', mark, 'open', state(job))
  end
  -- Those two keys may have been made since the job was registered, which is when all three get their time to live; and
  -- without the hash they mean nothing.
  local left_ms = call('PTTL', key)
  for _, one in ipairs(left_ms > 0 and { history, skips } or {}) do
    local theirs = call('PTTL', one)
    if theirs == -1 or theirs > left_ms then
      call('PEXPIRE', one, left_ms)
    end
  end
  return { 'trimmed' }
end
