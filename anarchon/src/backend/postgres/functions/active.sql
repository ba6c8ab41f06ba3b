-- Closes the manual runs of these jobs whose lease is over (of all jobs, when none are named), and reads what is
-- unfinished then.
CREATE FUNCTION @name@(p_jobs text[])
RETURNS TABLE (
  o_now bigint, o_job text, o_slot bigint, o_id text, o_status text, o_attempt bigint, o_until bigint, o_instance text
) @plpgsql@ @joining@ AS $body$
DECLARE
  x record;
BEGIN
  o_now := @clock@;
  FOR x IN
    SELECT r.slot, r.job, r.id, r.token FROM @runs@ r
    WHERE r.open_job IS NOT NULL AND (p_jobs IS NULL OR r.open_job = ANY (p_jobs)) AND r.id <> ''
      AND r.until_ms <= o_now
    FOR UPDATE SKIP LOCKED
  LOOP
    IF x.token IS NOT NULL THEN
      INSERT INTO @attempts@ (@open_attempt@, status, ended_at)
      SELECT @r.open_attempt@, 'lost', o_now FROM @runs@ r WHERE r.slot = x.slot AND r.job = x.job AND r.id = x.id;
    END IF;
    UPDATE @runs@ r SET status = 'dead', open_job = NULL, token = NULL,
      last_ended = CASE WHEN x.token IS NULL THEN r.last_ended ELSE 'lost' END
    WHERE r.slot = x.slot AND r.job = x.job AND r.id = x.id;
  END LOOP;
  RETURN QUERY SELECT o_now, r.job, r.slot, r.id, r.status, r.attempt, r.until_ms,
    r.instance_id
    FROM (SELECT 1) one LEFT JOIN @runs@ r
    ON r.open_job IS NOT NULL AND (p_jobs IS NULL OR r.open_job = ANY (p_jobs));
END $body$
