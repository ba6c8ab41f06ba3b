-- One claim by itself, answered in one text. What is commonest is done, or answered, by one statement; the rest is for `claim`.
CREATE FUNCTION @name@(
  p_job text, p_slot bigint, p_kind text, p_token text, p_instance text, p_ident text, p_floor bigint,
  p_previous bigint, p_limit bigint, p_lease bigint, p_skip bigint, p_max bigint, p_retry bigint, p_within bigint,
  p_valid bigint
) RETURNS text @plpgsql@ AS $body$
DECLARE
  v_reason text := CASE p_kind WHEN 'catch-up' THEN 'catch-up' ELSE 'scheduled' END;
  now_ms bigint := @clock@;
  own record;     -- the run of the slot
  x record;
BEGIN
  -- A slot that is free, of a job that does nothing else. The write is the lock. If another had that before, the rest of
  -- what is looked at here is older than what the other did; but then the fence is another, too, and nothing is written.
  IF p_kind <> 'takeover' AND now_ms <= p_valid AND p_slot BETWEEN now_ms - p_limit AND now_ms THEN
    WITH l AS (
      UPDATE @jobs@ l SET fence = greatest(l.fence + 1, now_ms), touched = greatest(l.touched, now_ms),
        newest = greatest(l.newest, p_slot), newest_ident = p_ident
      WHERE l.job = p_job AND l.ident = '' AND l.paused_at IS NULL AND (p_slot > l.trim_mark) IS NOT FALSE
        AND l.fence = (SELECT s.fence FROM @jobs@ s WHERE s.job = p_job AND s.ident = '')
        AND (SELECT m.v FROM @meta@ m WHERE m.k = 'format') <= @newest@
        AND (p_slot > l.newest AND l.newest_ident = p_ident OR (
          p_slot > (SELECT f.floor FROM @jobs@ f WHERE f.job = p_job AND f.ident = p_ident)
          AND NOT EXISTS (SELECT 1 FROM @runs@ q WHERE q.slot = p_slot AND q.job = p_job AND q.id = '')
          AND coalesce((SELECT s.last_slot FROM @attempts@ s WHERE s.job = p_job AND s.id = '@skip@'
            AND s.slot <= p_slot ORDER BY s.slot DESC LIMIT 1) < p_slot, true)))
        AND NOT EXISTS (SELECT 1 FROM @runs@ o WHERE o.open_job = p_job)
      RETURNING l.fence
    )
    INSERT INTO @runs@ (@new_run@)
    SELECT p_slot, p_job, '', 'running', p_job, 1, p_token, l.fence, v_reason, p_instance,
      t.now_ms, t.now_ms + p_lease, p_max, p_retry, p_within, 1
    -- The clock, read again once the row is there, and so after the lock.
    FROM l CROSS JOIN LATERAL (SELECT greatest(@clock@, l.fence - l.fence) AS now_ms OFFSET 0) t
    WHERE t.now_ms <= p_valid AND p_slot BETWEEN t.now_ms - p_limit AND t.now_ms
    RETURNING fence, claimed_at INTO x;
    IF FOUND THEN
      RETURN format(E'0\x1fstart\x1f%s\x1f\x1f\x1f%s\x1f1\x1f%s\x1f%s', x.claimed_at, p_max, x.fence, v_reason);
    END IF;
  END IF;

  -- What is lost for certain is answered without a lock, which would have to be written and synced. The clock is read
  -- after the state, so that nothing is called alive that is over.
  SELECT q.status, q.open_job, q.until_ms, q.token,
    (SELECT a.status FROM @attempts@ a WHERE a.job = p_job AND a.id = '' AND a.slot = p_slot AND a.token = p_token) AS ended,
    (SELECT l.touched FROM @jobs@ l WHERE l.job = p_job AND l.ident = '') AS touched,
    (SELECT min(o.until_ms) FROM @runs@ o WHERE o.open_job = p_job) AS next_end,
    EXISTS (SELECT 1 FROM @jobs@ f WHERE f.job = p_job AND f.ident = p_ident)
      AND (SELECT m.v FROM @meta@ m WHERE m.k = 'format') <= @newest@ AS known
  INTO own FROM @runs@ q WHERE q.slot = p_slot AND q.job = p_job AND q.id = '';
  IF FOUND THEN
    now_ms := @clock@;
    IF own.known AND own.touched >= now_ms - @touch@ AND coalesce(own.next_end > now_ms, true)
      AND now_ms BETWEEN p_slot AND p_valid AND (own.open_job IS NULL OR own.token IS DISTINCT FROM p_token)
    THEN
      RETURN format(E'0\x1f%s\x1f%s\x1f%s\x1f%s\x1f\x1f\x1f\x1f\x1f\x1f%s',
        CASE WHEN own.ended IS NOT NULL THEN 'ended' WHEN own.open_job IS NULL THEN 'done' ELSE 'running' END,
        now_ms, own.status, own.until_ms, own.ended);
    END IF;
  END IF;

  SELECT c.* INTO x FROM @claim@(p_job, p_slot, p_kind, p_token, p_instance, p_ident, p_floor, p_previous, p_limit,
    p_lease, p_skip, p_max, p_retry, p_within, p_valid) c;
  RETURN array_to_string(ARRAY['0', @answer x@], E'\x1f', '');
END $body$
