-- Ends of attempts, each of another run. The rows are locked in one order, so that two of these calls never wait for each
-- other in a circle.
CREATE FUNCTION @name@(
  p_jobs text[], p_ids text[], p_slots bigint[], p_tokens text[], p_statuses text[], p_errors text[], p_last bigint[]
) RETURNS TABLE (o_n bigint, o_now bigint, o_status text, o_until bigint, o_ended text) @plpgsql@ AS $body$
BEGIN
  PERFORM 1 FROM unnest(p_jobs, p_ids, p_slots, p_tokens) c (job, id, slot, token)
  JOIN @runs@ r ON r.slot = c.slot AND r.job = @text c.job@ AND r.id = c.id
  WHERE r.token = c.token ORDER BY r.job, r.id, r.slot FOR UPDATE OF r;
  o_now := @clock@;
  RETURN QUERY
    WITH c AS (
      SELECT u.n - 1 AS n, @text u.job@ AS job, u.id, u.slot, u.token, u.status, @text u.error@ AS error, u.last
      FROM unnest(p_jobs, p_ids, p_slots, p_tokens, p_statuses, p_errors, p_last) WITH ORDINALITY
        u (job, id, slot, token, status, error, last, n)
    ), d AS (
      SELECT c.*, c.status <> 'done' AND c.last = 0 AND r.retry_ms IS NOT NULL
        AND r.failures + 1 < r.max_attempts AS retries
      FROM c JOIN @runs@ r ON r.slot = c.slot AND r.job = c.job AND r.id = c.id WHERE r.token = c.token
    ), w AS (
      UPDATE @runs@ r SET
        status = CASE WHEN d.retries THEN 'waiting' ELSE d.status END,
        open_job = CASE WHEN d.retries THEN r.job END,
        until_ms = o_now + CASE WHEN d.retries
          THEN least(@max_wait@, r.retry_ms * (1::bigint << least(r.failures, 31)::integer)) ELSE 0 END,
        failures = r.failures + CASE WHEN d.status = 'done' THEN 0 ELSE 1 END,
        last_ended = d.status, token = NULL
      FROM d WHERE r.slot = d.slot AND r.job = d.job AND r.id = d.id AND r.token = d.token
      RETURNING d.n, d.token AS ended_token, d.status AS ended, d.error, d.last, r.*
    ), h AS (
      INSERT INTO @attempts@ (@open_attempt@, status, ended_at, error, note)
      SELECT w.job, w.id, w.slot, w.ended_token, w.attempt, w.fence, w.reason, w.instance_id, w.claimed_at,
        w.ended, o_now, w.error, CASE w.last WHEN 1 THEN 'stopped' END
      FROM w
    )
    SELECT c.n, o_now, coalesce(w.status, r.status), coalesce(w.until_ms, r.until_ms), coalesce(w.ended, a.status)
    FROM c LEFT JOIN w ON w.n = c.n
    LEFT JOIN @runs@ r ON r.slot = c.slot AND r.job = c.job AND r.id = c.id
    LEFT JOIN @attempts@ a ON a.job = c.job AND a.id = c.id AND a.slot = c.slot AND a.token = c.token;
END $body$
