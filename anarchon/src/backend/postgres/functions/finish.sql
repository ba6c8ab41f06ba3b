-- Ends of attempts, each of another run. The rows are locked in one order, so that two of these calls never wait for each
-- other in a circle, and the clock is read once a row is locked.
CREATE FUNCTION @name@(
  p_jobs text[], p_ids text[], p_slots bigint[], p_tokens text[], p_statuses text[], p_errors text[], p_last bigint[]
) RETURNS TABLE (o_n bigint, o_now bigint, o_status text, o_until bigint, o_ended text) @plpgsql@ @joining@ AS $body$
DECLARE
  ended bigint;  -- how many were still open
BEGIN
  RETURN QUERY
    WITH k AS (
      SELECT c.n, r.job, r.id, r.slot, r.token, r.attempt, r.fence, r.reason, r.instance_id, r.claimed_at, r.failures,
        r.max_attempts, r.retry_ms
      FROM unnest(p_jobs, p_ids, p_slots, p_tokens) WITH ORDINALITY c (job, id, slot, token, n)
      JOIN @runs@ r ON @is r.slot c.slot@ AND r.job = c.job AND r.id = c.id
      WHERE r.token = c.token ORDER BY r.job, r.id, r.slot FOR UPDATE OF r
    ), d AS (
      SELECT k.*, @clock@ AS at, p_statuses[k.n] AS ending,
        p_statuses[k.n] <> 'done' AND p_last[k.n] = 0 AND k.retry_ms IS NOT NULL AND k.failures + 1 < k.max_attempts
          AS retries
      FROM k
    ), run AS (
      UPDATE @runs@ r SET last_ended = d.ending, token = NULL,
        status = CASE WHEN d.retries THEN 'waiting' ELSE d.ending END,
        until_ms = d.at + CASE WHEN d.retries
          THEN least(@max_wait@, d.retry_ms * (1::bigint << least(d.failures, 31)::integer)) ELSE 0 END,
        open_job = CASE WHEN d.retries THEN r.job END,
        failures = r.failures + CASE WHEN d.ending = 'done' THEN 0 ELSE 1 END
      FROM d WHERE @is r.slot d.slot@ AND r.job = d.job AND r.id = d.id
      RETURNING d.n - 1, d.at, r.status, r.until_ms, d.ending
    ), attempt AS (
      INSERT INTO @attempts@ (@open_attempt@, status, ended_at, error, note)
      SELECT d.job, d.id, d.slot, d.token, d.attempt, d.fence, d.reason, d.instance_id, d.claimed_at,
        d.ending, d.at, p_errors[d.n], CASE p_last[d.n] WHEN 1 THEN 'stopped' END
      FROM d
    )
    SELECT * FROM run;
  GET DIAGNOSTICS ended = ROW_COUNT;
  -- The others are told what has become of them, of which this statement sees the latest; all, as that is the same.
  IF ended < array_length(p_jobs, 1) THEN
    RETURN QUERY
      SELECT c.n - 1, @clock@, r.status, r.until_ms, a.status
      FROM unnest(p_jobs, p_ids, p_slots, p_tokens) WITH ORDINALITY c (job, id, slot, token, n)
      LEFT JOIN @runs@ r ON r.slot = c.slot AND r.job = c.job AND r.id = c.id
      LEFT JOIN @attempts@ a ON a.job = c.job AND a.id = c.id AND a.slot = c.slot AND a.token = c.token;
  END IF;
END $body$
