-- Registrations, each of another job; the removal of jobs that nobody has registered for long, looked for once a minute;
-- and all that is known of the registered ones.
CREATE FUNCTION @name@(p_jobs text[], p_idents text[], p_fingerprints text[], p_instances text[], p_forget bigint)
RETURNS TABLE (
  o_job text, o_ident text, o_touched bigint, o_floor bigint, o_fingerprint text, o_instance text,
  o_was_fingerprint text, o_was_instance text, o_was_touched bigint
) @plpgsql@ @joining@ AS $body$
DECLARE
  x record;
  now_ms bigint;
  swept bigint;
BEGIN
  now_ms := @clock@;
  INSERT INTO @jobs@ AS l (job, ident, touched)
  SELECT c.job, '', now_ms FROM unnest(p_jobs) c (job) ORDER BY c.job COLLATE "C"
  ON CONFLICT (job, ident) DO UPDATE SET touched = l.touched WHERE false;
  now_ms := @clock@;
  UPDATE @jobs@ l SET touched = now_ms 
  FROM (SELECT u.job, ''::text AS ident FROM unnest(p_jobs) u (job) OFFSET 0) c
  WHERE @is l.job c.job@ AND l.ident = c.ident;
  -- The floor is only ever inserted; what is replaced is kept beside it, to be read back.
  INSERT INTO @jobs@ AS l (job, ident, touched, floor, fingerprint, instance_id)
  SELECT c.job, c.ident, now_ms, now_ms, c.fingerprint, c.instance
  FROM unnest(p_jobs, p_idents, p_fingerprints, p_instances) c (job, ident, fingerprint, instance)
  ON CONFLICT (job, ident) DO UPDATE SET was_fingerprint = l.fingerprint, was_instance = l.instance_id,
    was_touched = l.touched, fingerprint = excluded.fingerprint, instance_id = excluded.instance_id,
    touched = excluded.touched;

  SELECT m.v INTO swept FROM @meta@ m WHERE m.k = 'swept';
  IF abs(now_ms - coalesce(swept, 0)) >= least(@sweep@, p_forget) THEN
    FOR x IN
      SELECT l.job FROM @jobs@ l WHERE l.ident = '' AND l.paused_at IS NULL AND l.touched < now_ms - p_forget
      ORDER BY l.touched, l.job LIMIT @forget@ FOR UPDATE SKIP LOCKED
    LOOP
      -- Not while somebody has one of its runs.
      CONTINUE WHEN (SELECT count(*) FROM @runs@ r WHERE r.open_job = x.job)
        <> (SELECT count(*) FROM (SELECT 1 FROM @runs@ r WHERE r.open_job = x.job FOR UPDATE SKIP LOCKED) r);
      DELETE FROM @runs@ r WHERE r.open_job = x.job;
      -- The others have ended attempts, which lead to them.
      DELETE FROM @runs@ r USING (SELECT a.slot, a.job, a.id FROM @attempts@ a WHERE a.job = x.job OFFSET 0) a
      WHERE @is r.slot a.slot@ AND r.job = a.job AND r.id = a.id;
      DELETE FROM @attempts@ a WHERE a.job = x.job;
      DELETE FROM @jobs@ l WHERE l.job = x.job;
    END LOOP;
    INSERT INTO @meta@ (k, v) VALUES ('swept', now_ms) ON CONFLICT (k) DO UPDATE SET v = excluded.v;
  END IF;

  RETURN QUERY SELECT l.job, l.ident, l.touched, l.floor, l.fingerprint, l.instance_id,
    l.was_fingerprint, l.was_instance, l.was_touched
    FROM unnest(p_jobs) c (job) JOIN @jobs@ l ON @is l.job c.job@;
END $body$
