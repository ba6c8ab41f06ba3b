-- What is known of these jobs, or of all, beside their runs.

local answers = { now }
local keys = KEYS
if #ARGV == 1 then
  keys = call('ZRANGE', INDEX, 0, -1)
end
for at = 1, #ARGV == 1 and #keys or #ARGV - 1 do
  local job, found = load(keys[at], false, 'mark', 'pause', 'reg')
  if not job then
    return { now, found }
  end
  if not job.new then
    local pause = found[5] and unpacked(found[5]) or {}
    local line = { job.key, found[4], pause[1] or false, pause[2] or false, pause[3] or false }
    local registered = found[6] and unpacked(found[6]) or {}
    for _, field in ipairs(call('HKEYS', job.key)) do
      local identity = string.match(field, '^f:(.*)$')
      if identity then
        local by = registered[identity] or {}
        local floor, at = call('HGET', job.key, field), by[3] and text(by[3]) or false
        line[#line + 1] = { identity, floor, by[2] or false, by[1] or false, at }
      end
    end
    answers[#answers + 1] = line
  end
end
return answers
