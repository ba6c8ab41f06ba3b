-- What is kept of a job, and what every script begins with. The text of a script is this file, `job.lua` with the steps
-- that all share, its own, and `each.lua`, which runs `step` for every request on one reading of the clock; claims have
-- `fresh.lua` before the steps.
--
--   KEYS      the job of each request, and then the index of all jobs
--   ARGV[1]   '' for the server's clock; a test gives the time itself, in ms
--   ARGV[2..] the requests, each some values without holes, packed by the client: `false` stands for nothing
--
-- A job has three keys under one hash tag. <job> is a hash:
--   v        the format of all that is here
--   open     packed one after the other: its unfinished runs, by slot and id (the positions below), the last fence, the
--            newest slot that was claimed, skipped or trimmed (0: none since 1970), and `true` if it is paused
--   r:<id>   one run's record: slot, status and end of the run once it is over, and its attempts, packed; a run whose
--            first attempt is open has none yet
--   f:<schedule identity>  the floor
--   mark (newest trimmed slot), touched, ttl
--   pause    who, when and a note, packed;  reg: who registered which schedule, packed
-- <job>:h is a sorted set of the runs that are over ("<id> <number of attempts>") by slot, <job>:s one of the skip
-- records ("<first> <last> <count> <reason>") by their last slot. The id of a run is its slot, or `m` and the token of a
-- manual one. Tokens are 32 hex digits: they are compared by the server's locale.
--
-- Needs Redis 5, or any Valkey, since when a script's effects are replicated in place of its text, so that it may read
-- the clock and write. HSET of several fields and UNLINK came with 4.0, PEXPIRE, PTTL, TIME, cmsgpack and struct with
-- 2.6 to 2.8, the rest is older.

local FORMAT, NEWEST = '1', 2
local HOUR, DAY = 3600000, 86400000
local CHUNK = 4000

-- An unfinished run; TOKEN, REASON, INSTANCE, CLAIMED and FENCE are those of its latest attempt. Of a claim that wins, the
-- client sends all but the last three, packed as they are stored; from STATUS to INSTANCE they are alike for many claims.
local ID, SLOT, TOKEN, STATUS, ATTEMPT, FAILURES, RELEASES, ENDED = 1, 2, 3, 4, 5, 6, 7, 8
local MAX, RETRY, WITHIN, COUNTS, REASON, INSTANCE, UNTIL, CLAIMED, FENCE = 9, 10, 11, 12, 13, 14, 15, 16, 17
-- A record; and an attempt in it.
local R_SLOT, R_STATUS, R_UNTIL, R_ATTEMPTS = 1, 2, 3, 4
local A_NUMBER, A_TOKEN, A_FENCE, A_REASON, A_INSTANCE, A_STATUS = 1, 2, 3, 4, 5, 6
local A_CLAIMED, A_ENDED, A_ERROR, A_NOTE = 7, 8, 9, 10

local call, pack, unpacked, format = redis.call, cmsgpack.pack, cmsgpack.unpack, string.format
-- Packs times at half of what cmsgpack takes, as doubles, each after the byte 203: `struct` has integers no longer than the C
-- compiler's `long`, which on some servers are 32 bits.
local times = struct.pack
local INDEX = KEYS[#ARGV]

local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
