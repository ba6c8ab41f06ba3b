-- One claim, of any kind. The job's row is locked first and the clock is read after it; each statement after that sees all
-- that the one who had the lock before has done. A run's row is never waited for: one that is locked counts as alive.
--
-- Whatever has to do with whether a later slot may start changes the fence, since `one` goes by it: a start, a takeover and
-- a record of a skipped slot. A start and a record also note their slot, if it is the newest, and the schedule, which begins
-- before it: what comes after them has neither a run nor a record to look for.
CREATE FUNCTION @name@(
  p_job text, p_slot bigint, p_kind text, p_token text, p_instance text, p_ident text, p_floor bigint,
  p_previous bigint, p_limit bigint, p_lease bigint, p_skip bigint, p_max bigint, p_retry bigint, p_within bigint,
  p_valid bigint,
  OUT o_job text, OUT o_did text, OUT o_now bigint, OUT o_status text, OUT o_until bigint, OUT o_max bigint,
  OUT o_attempt bigint, OUT o_fence bigint, OUT o_reason text, OUT o_slot bigint, OUT o_ended text,
  OUT o_other_slot bigint, OUT o_other_id text, OUT o_other_until bigint
) @plpgsql@ AS $body$
DECLARE
  j record;       -- the job's row, as it was when it was locked
  own record;     -- the run of the slot
  x record;
  has_run boolean;
  is_live boolean;
  live boolean;   -- whether the run in the way is live; NULL when none is in the way
  waits boolean;  -- whether another run waits for its retry
  closed boolean := false;
  since bigint;
BEGIN
  o_job := p_job;
  LOOP
    SELECT l.fence, l.trim_mark, l.paused_at, l.touched,
      (SELECT f.floor FROM @jobs@ f WHERE f.job = p_job AND f.ident = p_ident) AS floor,
      (SELECT m.v FROM @meta@ m WHERE m.k = 'format') AS format
    INTO j FROM @jobs@ l WHERE l.job = p_job AND l.ident = '' FOR UPDATE;
    EXIT WHEN FOUND;
    o_now := @clock@;
    IF o_now > p_valid THEN
      o_did := 'stale';
      RETURN;
    END IF;
    INSERT INTO @jobs@ (job, ident, touched) VALUES (p_job, '', o_now) ON CONFLICT (job, ident) DO NOTHING;
  END LOOP;
  o_now := @clock@;
  IF j.format > @newest@ THEN
    o_did := 'newer';
    RETURN;
  ELSIF o_now > p_valid THEN
    o_did := 'stale';
    RETURN;
  END IF;
  IF j.floor IS NULL THEN
    INSERT INTO @jobs@ (job, ident, touched, floor) VALUES (p_job, p_ident, o_now, p_floor)
    ON CONFLICT (job, ident) DO NOTHING;
    -- It may be that of a call that had the lock before.
    SELECT f.floor INTO j.floor FROM @jobs@ f WHERE f.job = p_job AND f.ident = p_ident;
  END IF;

  LOOP
    has_run := false;
    waits := false;
    live := NULL;
    FOR x IN
      SELECT q.*, @closes q o_now@ AND (q.token IS NULL OR q.id <> '' OR q.token <> p_token) AS closes
      FROM @runs@ q WHERE q.open_job = p_job
    LOOP
      IF x.closes AND NOT closed THEN
        PERFORM @close@(p_job, o_now, p_token);
        closed := true;
        EXIT;
      END IF;
      IF x.id = '' AND x.slot = p_slot THEN
        own := x;
        has_run := true;
      ELSIF x.status = 'waiting' THEN
        waits := true;
      ELSIF x.counts = 1 THEN
        -- What should have been closed, and was not, is locked.
        is_live := x.until_ms > o_now OR x.closes;
        -- So is what seems over, but is locked or was renewed since it was read.
        IF NOT is_live THEN
          PERFORM 1 FROM @runs@ q WHERE q.slot = x.slot AND q.job = p_job AND q.id = x.id
            AND q.until_ms = x.until_ms FOR UPDATE SKIP LOCKED;
          is_live := NOT FOUND;
        END IF;
        IF (is_live OR x.id = '') AND (live IS NULL OR is_live > live OR (is_live = live
          AND (x.slot < o_other_slot OR (x.slot = o_other_slot AND x.id COLLATE "C" < o_other_id))))
        THEN
          live := is_live;
          o_other_slot := x.slot;
          o_other_id := x.id;
          o_other_until := x.until_ms;
        END IF;
      END IF;
    END LOOP;
    -- When something was closed, what is left is read again, once.
    EXIT WHEN NOT coalesce(closed, false);
    closed := NULL;
  END LOOP;
  IF NOT has_run THEN
    SELECT q.*, false AS closes INTO own FROM @runs@ q WHERE q.slot = p_slot AND q.job = p_job AND q.id = '';
    has_run := FOUND;
  END IF;

  IF p_slot > o_now THEN
    o_did := 'early';
  ELSIF has_run THEN
    IF own.token IS NOT DISTINCT FROM p_token THEN
      o_did := CASE WHEN p_skip = 1 AND own.until_ms <= o_now AND live THEN 'overlap' ELSE 'again' END;
    ELSE
      IF own.open_job IS NULL OR own.failures + own.releases > 0 THEN
        SELECT a.status INTO o_ended FROM @attempts@ a
        WHERE a.job = p_job AND a.id = '' AND a.slot = p_slot AND a.token = p_token;
      END IF;
      o_did := CASE
        WHEN o_ended IS NOT NULL THEN 'ended'
        WHEN own.open_job IS NULL THEN 'done'
        WHEN own.until_ms > o_now THEN 'running'
        WHEN own.closes THEN 'locked'
        WHEN j.paused_at IS NOT NULL THEN 'paused'
        WHEN p_skip = 1 AND live THEN 'overlap'
        ELSE 'take' END;
    END IF;
  ELSE
    SELECT s.last_slot INTO since FROM @attempts@ s
    WHERE s.job = p_job AND s.id = '@skip@' AND s.slot <= p_slot ORDER BY s.slot DESC LIMIT 1;
    o_did := CASE
      WHEN since >= p_slot THEN 'skipped'
      WHEN p_kind = 'takeover' THEN 'gone'
      WHEN p_slot <= j.trim_mark THEN 'trimmed'
      WHEN p_slot <= j.floor THEN 'floor'
      WHEN p_slot < o_now - p_limit THEN 'old'
      WHEN j.paused_at IS NOT NULL THEN CASE p_kind WHEN 'scheduled' THEN 'skip paused' ELSE 'paused' END
      WHEN p_skip = 1 AND live IS NOT NULL THEN CASE p_kind WHEN 'scheduled' THEN 'skip overlap' ELSE 'overlap' END
      ELSE 'start' END;
  END IF;

  -- A heartbeat may have been at it since it was read.
  IF o_did IN ('again', 'take') THEN
    PERFORM 1 FROM @runs@ q WHERE q.slot = p_slot AND q.job = p_job AND q.id = ''
      AND q.token IS NOT DISTINCT FROM own.token AND q.status = own.status
      AND (o_did = 'again' OR q.until_ms = own.until_ms) FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      o_did := 'locked';
    END IF;
  END IF;
  IF o_did IN ('start', 'take') THEN
    o_fence := greatest(j.fence + 1, o_now);
    o_until := o_now + p_lease;
    UPDATE @jobs@ l SET fence = o_fence, touched = greatest(l.touched, o_now), newest = greatest(l.newest, p_slot),
      newest_ident = CASE o_did WHEN 'start' THEN p_ident ELSE l.newest_ident END
    WHERE l.job = p_job AND l.ident = '';
  ELSIF j.touched < o_now - @touch@ THEN
    UPDATE @jobs@ l SET touched = o_now WHERE l.job = p_job AND l.ident = '';
  END IF;
  IF o_did = 'start' THEN
    o_attempt := 1;
    o_max := p_max;
    o_reason := CASE p_kind WHEN 'catch-up' THEN 'catch-up' ELSE 'scheduled' END;
    INSERT INTO @runs@ (@new_run@)
    VALUES (p_slot, p_job, '', 'running', p_job, 1, p_token, o_fence, o_reason, p_instance,
      o_now, o_until, p_max, p_retry, p_within, 1);
    IF waits AND p_skip = 1 THEN
      FOR x IN
        SELECT w.slot, w.id FROM @runs@ w
        WHERE w.open_job = p_job AND w.status = 'waiting' AND w.slot < p_slot FOR UPDATE SKIP LOCKED
      LOOP
        UPDATE @runs@ q SET note = 'superseded', token = NULL, open_job = NULL,
          status = CASE WHEN q.last_ended = 'timed_out' THEN 'timed_out' ELSE 'failed' END
        WHERE q.slot = x.slot AND q.job = p_job AND q.id = x.id;
      END LOOP;
    END IF;
  ELSIF o_did = 'take' THEN
    IF own.token IS NOT NULL THEN
      INSERT INTO @attempts@ (@open_attempt@, status, ended_at)
      SELECT @r.open_attempt@, 'lost', o_now FROM @runs@ r WHERE r.slot = p_slot AND r.job = p_job AND r.id = '';
    END IF;
    o_attempt := own.attempt + 1;
    o_max := own.max_attempts;
    o_reason := CASE WHEN own.status = 'waiting' THEN 'retry' WHEN own.token IS NULL THEN 'hand-over'
      ELSE 'takeover' END;
    UPDATE @runs@ q SET status = 'running', attempt = o_attempt, token = p_token,
      fence = o_fence, reason = o_reason, instance_id = p_instance, claimed_at = o_now, until_ms = o_until,
      failures = q.failures + CASE WHEN own.token IS NULL THEN 0 ELSE 1 END,
      last_ended = CASE WHEN own.token IS NULL THEN q.last_ended ELSE 'lost' END
    WHERE q.slot = p_slot AND q.job = p_job AND q.id = '';
  ELSIF o_did = 'again' THEN
    UPDATE @runs@ q SET until_ms = greatest(q.until_ms, o_now + p_lease)
    WHERE q.slot = p_slot AND q.job = p_job AND q.id = ''
    RETURNING q.until_ms, q.attempt, q.max_attempts, q.fence, q.reason
    INTO o_until, o_attempt, o_max, o_fence, o_reason;
  ELSIF o_did IN ('skip paused', 'skip overlap') THEN
    o_reason := CASE o_did WHEN 'skip paused' THEN 'paused' ELSE 'overlap' END;
    -- A record that ends at the slot before ours by our own schedule, for the same reason, and with no run and no other
    -- record since, is extended.
    SELECT s.slot INTO since FROM @attempts@ s
    WHERE s.job = p_job AND s.id = '@skip@' AND s.slot <= p_previous AND s.last_slot = p_previous
      AND s.last_slot < p_slot AND s.reason = o_reason
      AND NOT EXISTS (SELECT 1 FROM @attempts@ n WHERE n.job = p_job AND n.id = '@skip@' AND n.slot > s.slot
        AND n.last_slot < p_slot)
      AND NOT EXISTS (SELECT 1 FROM @attempts@ n WHERE n.job = p_job AND n.id = '' AND n.slot > s.last_slot
        AND n.slot < p_slot)
      AND NOT EXISTS (SELECT 1 FROM @runs@ n WHERE n.open_job = p_job AND n.id = '' AND n.slot > s.last_slot
        AND n.slot < p_slot)
    ORDER BY s.slot DESC LIMIT 1;
    UPDATE @jobs@ l SET fence = l.fence + 1, newest = greatest(l.newest, p_slot), newest_ident = p_ident
    WHERE l.job = p_job AND l.ident = '';
    INSERT INTO @attempts@ AS s (@open_attempt@, status, last_slot, skip_count)
    VALUES (p_job, '@skip@', coalesce(since, p_slot), '', 0, 0, o_reason, p_instance, o_now, 'skipped', p_slot, 1)
    ON CONFLICT (job, id, slot, token) DO UPDATE SET last_slot = excluded.last_slot, skip_count = s.skip_count + 1;
  ELSIF has_run THEN
    o_status := own.status;
    o_until := own.until_ms;
  END IF;
END $body$
