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
  now_ms bigint;
  until bigint;
  -- What was found, and done, for each claim.
  v_did text[];
  v_status text[];
  v_until bigint[];
  v_ended text[];
  v_fence bigint[];
BEGIN
  now_ms := @clock@;
  -- Where another has the first slot, it is likely to have all of them. What is lost then is answered without a lock,
  -- which would have to be written and synced.
  IF EXISTS (SELECT 1 FROM @runs@ r WHERE r.slot = p_slots[1] AND r.job = p_jobs[1] AND r.id = '') THEN
    @decide@
    )
    SELECT array_agg(o.did), array_agg(o.status), array_agg(o.until_ms), array_agg(o.ended),
      min(CASE o.did WHEN 'running' THEN least(o.until_ms, o.valid) ELSE o.valid END)
    INTO v_did, v_status, v_until, v_ended, until FROM (SELECT * FROM d ORDER BY d.n) o WHERE NOT o.fresh;
    -- The clock is read again after the state, so that nothing is called alive that is over.
    now_ms := @clock@;
    IF v_did <@ ARRAY['ended', 'done', 'running'] AND array_length(v_did, 1) = array_length(p_jobs, 1)
      AND until > now_ms
    THEN
      RETURN QUERY
        SELECT u.job, u.did, now_ms, u.status, u.until_ms, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text,
          NULL::bigint, u.ended, NULL::bigint, NULL::text, NULL::bigint
        FROM unnest(p_jobs, v_did, v_status, v_until, v_ended) u (job, did, status, until_ms, ended);
      RETURN;
    END IF;
  END IF;
  -- A row that is there is locked without being written.
  INSERT INTO @jobs@ AS l (job, ident, touched)
  SELECT c.job, '', now_ms FROM unnest(p_jobs, p_valid) c (job, valid) WHERE c.valid >= now_ms
  ORDER BY c.job COLLATE "C"
  ON CONFLICT (job, ident) DO UPDATE SET touched = l.touched WHERE false;
  now_ms := @clock@;
  @decide@
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
    FROM d WHERE d.did = 'start' AND l.job = d.job AND l.ident = d.lock
  )
  SELECT array_agg(o.did), array_agg(o.status), array_agg(o.until_ms), array_agg(o.ended), array_agg(o.fence)
  INTO v_did, v_status, v_until, v_ended, v_fence FROM (SELECT * FROM d ORDER BY d.n) o;
  RETURN QUERY
    SELECT u.job, u.did, now_ms, u.status, u.until_ms, u.max_attempts, 1::bigint, u.fence,
      CASE u.kind WHEN 'catch-up' THEN 'catch-up' ELSE 'scheduled' END, NULL::bigint, u.ended,
      NULL::bigint, NULL::text, NULL::bigint
    FROM unnest(p_jobs, p_kinds, p_max, v_did, v_status, v_until, v_ended, v_fence)
      u (job, kind, max_attempts, did, status, until_ms, ended, fence)
    WHERE u.did <> 'apart';
  IF 'apart' = ANY (v_did) THEN
    FOR n IN 1 .. array_length(p_jobs, 1) LOOP
      IF v_did[n] = 'apart' THEN
        RETURN QUERY SELECT * FROM @claim@(p_jobs[n], p_slots[n], p_kinds[n], p_tokens[n], p_instances[n], p_idents[n],
          p_floors[n], p_previous[n], p_limits[n], p_leases[n], p_skips[n], p_max[n], p_retries[n], p_within[n],
          p_valid[n]);
      END IF;
    END LOOP;
  END IF;
END $body$
