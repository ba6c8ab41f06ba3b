-- Makes each job's stream with this window, or tells which other one it has.

local function step(key, seconds)
  make(key, seconds)
  local info, found = call('XINFO', 'STREAM', key .. ':im'), {}
  for at = 1, #info, 2 do
    found[info[at]] = info[at + 1]
  end
  return { 'window', found['idmp-duration'] }
end
