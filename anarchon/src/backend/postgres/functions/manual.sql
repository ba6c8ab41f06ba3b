-- A manual run, now: its slot is the time at which the job's row is locked.
CREATE FUNCTION @name@(
  p_job text, p_exclusive bigint, p_token text, p_instance text, p_lease bigint, p_valid bigint,
  OUT o_job text, OUT o_did text, OUT o_now bigint, OUT o_status text, OUT o_until bigint, OUT o_max bigint,
  OUT o_attempt bigint, OUT o_fence bigint, OUT o_reason text, OUT o_slot bigint, OUT o_ended text,
  OUT o_other_slot bigint, OUT o_other_id text, OUT o_other_until bigint
) @plpgsql@ @joining@ AS $body$
DECLARE
  j record;
  own record;     -- the run that a copy of this claim has made
  has_run boolean;
  x record;
  is_live boolean := false;
BEGIN
  o_job := p_job;
  LOOP
    SELECT l.fence, l.touched, (SELECT m.v FROM @meta@ m WHERE m.k = 'format') AS format
    INTO j FROM @jobs@ l WHERE l.job = p_job AND l.ident = '' FOR UPDATE;
    EXIT WHEN FOUND;
    o_now := @clock@;
    IF o_now > p_valid THEN
      o_did := 'stale';
      RETURN;
    END IF;
    INSERT INTO @jobs@ (job, ident, touched) VALUES (p_job, '', o_now) ON CONFLICT (job, ident) DO NOTHING;
  END LOOP;
  -- The clock is read once all is locked that it decides about: another could be told that the lease is over.
  SELECT r.slot, r.id, r.fence, r.token, r.until_ms INTO own FROM @runs@ r
  WHERE r.open_job = p_job AND r.id = p_token FOR UPDATE;
  has_run := FOUND;
  o_now := @clock@;
  IF j.format > @newest@ THEN
    o_did := 'newer';
    RETURN;
  ELSIF o_now > p_valid THEN
    o_did := 'stale';
    RETURN;
  END IF;
  PERFORM @close@(p_job, o_now, p_token);
  IF p_exclusive = 1 AND NOT has_run THEN
    FOR x IN
      SELECT q.slot, q.id, q.until_ms, @closes q o_now@ AS closes FROM @runs@ q
      WHERE q.open_job = p_job AND q.counts = 1 AND q.status = 'running'
    LOOP
      -- What should have been closed, and was not, is locked; what is locked, or was renewed since, is alive.
      is_live := x.until_ms > o_now OR x.closes;
      IF NOT is_live THEN
        PERFORM 1 FROM @runs@ q WHERE q.slot = x.slot AND q.job = p_job AND q.id = x.id
          AND q.until_ms = x.until_ms FOR UPDATE SKIP LOCKED;
        is_live := NOT FOUND;
      END IF;
      EXIT WHEN is_live;
    END LOOP;
  END IF;
  IF has_run AND own.token = p_token AND own.until_ms > o_now THEN
    -- The same packet again renews.
    UPDATE @runs@ q SET until_ms = greatest(q.until_ms, o_now + p_lease)
    WHERE q.slot = own.slot AND q.job = p_job AND q.id = p_token;
    o_did := 'again manual';
    o_slot := own.slot;
    o_fence := own.fence;
  ELSIF has_run OR EXISTS (SELECT 1 FROM @attempts@ a WHERE a.job = p_job AND a.id = p_token)
  THEN
    o_did := 'ended manual';
  ELSIF is_live THEN
    o_did := 'manual overlap';
  ELSE
    o_did := 'manual';
    o_slot := o_now;
    o_fence := greatest(j.fence + 1, o_now);
    UPDATE @jobs@ l SET fence = o_fence, touched = greatest(l.touched, o_now) WHERE l.job = p_job AND l.ident = '';
    INSERT INTO @runs@ (@new_run@)
    VALUES (o_now, p_job, p_token, 'running', p_job, 1, p_token, o_fence, 'manual', p_instance,
      o_now, o_now + p_lease, 1, NULL, 0, p_exclusive);
  END IF;
END $body$
