-- Many claims, each of another job. What is commonest is decided and carried out for all of them by one statement: a
-- slot that is free, of a job that does nothing else, and a slot that another has. The rest goes one by one.
CREATE FUNCTION @name@(
  p_jobs text[], p_slots bigint[], p_kinds text[], p_tokens text[], p_instances text[], p_idents text[],
  p_floors bigint[], p_previous bigint[], p_limits bigint[], p_leases bigint[], p_skips bigint[], p_max bigint[],
  p_retries bigint[], p_within bigint[], p_valid bigint[]
) RETURNS TABLE (
  o_job text, o_did text, o_now bigint, o_status text, o_until bigint, o_max bigint,
  o_attempt bigint, o_fence bigint, o_reason text, o_slot bigint, o_ended text,
  o_other_slot bigint, o_other_id text, o_other_until bigint
) @plpgsql@ AS $body$
DECLARE
  x record;
  now_ms bigint;
  n integer;
BEGIN
  FOR n IN 1 .. array_length(p_jobs, 1) LOOP
    p_jobs[n] := @text p_jobs[n]@;
    p_instances[n] := @text p_instances[n]@;
    p_idents[n] := @text p_idents[n]@;
  END LOOP;
  -- A row that is there is locked without being written.
  now_ms := @clock@;
  INSERT INTO @jobs@ AS l (job, ident, touched)
  SELECT c.job, '', now_ms FROM unnest(p_jobs, p_valid) c (job, valid) WHERE c.valid >= now_ms
  ORDER BY c.job COLLATE "C"
  ON CONFLICT (job, ident) DO UPDATE SET touched = l.touched WHERE false;
  now_ms := @clock@;
  o_now := now_ms;
  FOR x IN
    WITH c AS (
      SELECT * FROM unnest(p_jobs, p_slots, p_kinds, p_tokens, p_instances, p_idents, p_floors, p_limits, p_leases,
        p_max, p_retries, p_within, p_valid) WITH ORDINALITY
        u (job, slot, kind, token, instance, ident, floor, max_late, lease, max_attempts, retry, within, valid, n)
    ), d AS (
      SELECT c.*, f.job IS NULL AS fresh, r.status, r.until_ms, a.status AS ended, greatest(l.fence + 1, now_ms) AS fence,
        CASE
          WHEN l.job IS NULL OR c.valid < now_ms OR c.slot > now_ms OR l.touched < now_ms - @touch@
            OR (SELECT m.v FROM @meta@ m WHERE m.k = 'format') > @newest@
            OR EXISTS (SELECT 1 FROM @runs@ o WHERE o.open_job = c.job AND (o.slot <> c.slot OR o.id <> ''))
            THEN 'apart'
          WHEN r.job IS NOT NULL THEN CASE
            WHEN r.open_job IS NOT NULL AND (r.until_ms <= now_ms OR r.token = c.token) THEN 'apart'
            WHEN a.status IS NOT NULL THEN 'ended'
            WHEN r.open_job IS NULL THEN 'done'
            ELSE 'running' END
          WHEN c.kind <> 'takeover' AND l.paused_at IS NULL AND c.slot > coalesce(l.trim_mark, c.slot - 1)
            AND c.slot > coalesce(f.floor, c.floor) AND c.slot >= now_ms - c.max_late
            AND coalesce((SELECT s.last_slot FROM @attempts@ s WHERE s.job = c.job AND s.id = '@skip@'
              AND s.slot <= c.slot ORDER BY s.slot DESC LIMIT 1) < c.slot, true)
            THEN 'start'
          ELSE 'apart' END AS did
      FROM c
      LEFT JOIN @jobs@ l ON l.job = c.job AND l.ident = ''
      LEFT JOIN @jobs@ f ON f.job = c.job AND f.ident = c.ident
      LEFT JOIN @runs@ r ON r.slot = c.slot AND r.job = c.job AND r.id = ''
      LEFT JOIN @attempts@ a ON a.job = c.job AND a.id = '' AND a.slot = c.slot AND a.token = c.token
    ), floors AS (
      INSERT INTO @jobs@ (job, ident, touched, floor)
      SELECT d.job, d.ident, now_ms, d.floor FROM d WHERE d.fresh AND d.did <> 'apart'
      ON CONFLICT (job, ident) DO NOTHING
    ), started AS (
      INSERT INTO @runs@ (slot, job, id, status, open_job, attempt, token, last_token, fence, reason, instance_id,
        claimed_at, until_ms, max_attempts, retry_ms, within_ms, counts)
      SELECT d.slot, d.job, '', 'running', d.job, 1, d.token, d.token, d.fence,
        CASE d.kind WHEN 'catch-up' THEN 'catch-up' ELSE 'scheduled' END, d.instance,
        now_ms, now_ms + d.lease, d.max_attempts, d.retry, d.within, 1
      FROM d WHERE d.did = 'start'
    ), fenced AS (
      UPDATE @jobs@ l SET fence = d.fence, touched = greatest(l.touched, now_ms)
      FROM d WHERE d.did = 'start' AND l.job = d.job AND l.ident = ''
    )
    SELECT d.n, d.job, d.did, d.kind, d.status, d.until_ms, d.ended, d.fence, d.max_attempts FROM d
  LOOP
    IF x.did = 'apart' THEN
      n := x.n;
      RETURN QUERY SELECT * FROM @claim@(p_jobs[n], p_slots[n], p_kinds[n], p_tokens[n], p_instances[n], p_idents[n],
        p_floors[n], p_previous[n], p_limits[n], p_leases[n], p_skips[n], p_max[n], p_retries[n], p_within[n],
        p_valid[n]);
      CONTINUE;
    END IF;
    o_job := x.job;
    o_did := x.did;
    o_status := x.status;
    o_until := x.until_ms;
    o_ended := x.ended;
    o_attempt := 1;
    o_max := x.max_attempts;
    o_fence := x.fence;
    o_reason := CASE x.kind WHEN 'catch-up' THEN 'catch-up' ELSE 'scheduled' END;
    RETURN NEXT;
  END LOOP;
END $body$
