local answers = { now }
for at = 2, #ARGV do
  answers[at] = step(KEYS[at - 1], unpacked(ARGV[at]))
end
return answers
