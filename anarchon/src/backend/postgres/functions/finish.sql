-- Ends of attempts, each of another run. The rows are locked in one order, so that two of these calls never wait for each
-- other in a circle.
CREATE FUNCTION @name@(
  p_jobs text[], p_ids text[], p_slots bigint[], p_tokens text[], p_statuses text[], p_errors text[], p_last bigint[]
) RETURNS TABLE (o_n bigint, o_now bigint, o_status text, o_until bigint, o_ended text) @plpgsql@ AS $body$
BEGIN
  PERFORM 1 FROM unnest(p_jobs, p_ids, p_slots, p_tokens) c (job, id, slot, token)
  JOIN @runs@ r ON r.slot = c.slot AND r.job = c.job AND r.id = c.id
  WHERE r.token = c.token ORDER BY r.job, r.id, r.slot FOR UPDATE OF r;
  o_now := @clock@;
  RETURN QUERY
    WITH c AS (
      SELECT u.*, r.token = u.token AS mine, r.status AS run_status, r.until_ms, a.status AS ended,
        r.attempt, r.fence, r.reason, r.instance_id, r.claimed_at, r.failures, r.retry_ms,
        u.status <> 'done' AND u.last = 0 AND r.retry_ms IS NOT NULL AND r.failures + 1 < r.max_attempts AS retries
      FROM unnest(p_jobs, p_ids, p_slots, p_tokens, p_statuses, p_errors, p_last) WITH ORDINALITY
        u (job, id, slot, token, status, error, last, n)
      LEFT JOIN @runs@ r ON r.slot = u.slot AND r.job = u.job AND r.id = u.id
      LEFT JOIN @attempts@ a ON a.job = u.job AND a.id = u.id AND a.slot = u.slot AND a.token = u.token
    ), d AS (
      SELECT c.*, CASE WHEN c.retries THEN 'waiting' ELSE c.status END AS new_status,
        o_now + CASE WHEN c.retries
          THEN least(@max_wait@, c.retry_ms * (1::bigint << least(c.failures, 31)::integer)) ELSE 0 END AS new_until
      FROM c
    ), run AS (
      UPDATE @runs@ r SET status = d.new_status, until_ms = d.new_until, last_ended = d.status, token = NULL,
        open_job = CASE WHEN d.retries THEN r.job END,
        failures = r.failures + CASE WHEN d.status = 'done' THEN 0 ELSE 1 END
      FROM d WHERE d.mine AND r.slot = d.slot AND r.job = d.job AND r.id = d.id
    ), attempt AS (
      INSERT INTO @attempts@ (@open_attempt@, status, ended_at, error, note)
      SELECT d.job, d.id, d.slot, d.token, d.attempt, d.fence, d.reason, d.instance_id, d.claimed_at,
        d.status, o_now, d.error, CASE d.last WHEN 1 THEN 'stopped' END
      FROM d WHERE d.mine
    )
    SELECT d.n - 1, o_now, CASE WHEN d.mine THEN d.new_status ELSE d.run_status END,
      CASE WHEN d.mine THEN d.new_until ELSE d.until_ms END, CASE WHEN d.mine THEN d.status ELSE d.ended END
    FROM d;
END $body$
