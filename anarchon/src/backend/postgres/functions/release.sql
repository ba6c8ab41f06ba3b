-- Hand-overs and returns, each of another run: the run stays `running`, with its lease ended now.
CREATE FUNCTION @name@(p_jobs text[], p_ids text[], p_slots bigint[], p_tokens text[], p_returned bigint[])
RETURNS TABLE (o_n bigint, o_now bigint, o_status text, o_until bigint, o_ended text) @plpgsql@ AS $body$
BEGIN
  PERFORM 1 FROM unnest(p_jobs, p_ids, p_slots, p_tokens) c (job, id, slot, token)
  JOIN @runs@ r ON r.slot = c.slot AND r.job = @text c.job@ AND r.id = c.id
  WHERE r.token = c.token ORDER BY r.job, r.id, r.slot FOR UPDATE OF r;
  o_now := @clock@;
  RETURN QUERY
    WITH c AS (
      SELECT u.n - 1 AS n, @text u.job@ AS job, u.id, u.slot, u.token, u.returned,
        CASE u.returned WHEN 1 THEN 'returned' ELSE 'handed_over' END AS status
      FROM unnest(p_jobs, p_ids, p_slots, p_tokens, p_returned) WITH ORDINALITY u (job, id, slot, token, returned, n)
    ), w AS (
      UPDATE @runs@ r SET attempt = r.attempt - c.returned, releases = r.releases + 1, until_ms = o_now,
        last_ended = c.status, token = NULL
      FROM c WHERE r.slot = c.slot AND r.job = c.job AND r.id = c.id AND r.token = c.token
      RETURNING c.n, c.token AS ended_token, c.status AS ended, c.returned, r.*
    ), h AS (
      INSERT INTO @attempts@ (@open_attempt@, status, ended_at)
      SELECT w.job, w.id, w.slot, w.ended_token, w.attempt + w.returned, w.fence, w.reason, w.instance_id,
        w.claimed_at, w.ended, o_now
      FROM w
    )
    SELECT c.n, o_now, coalesce(w.status, r.status), coalesce(w.until_ms, r.until_ms), coalesce(w.ended, a.status)
    FROM c LEFT JOIN w ON w.n = c.n
    LEFT JOIN @runs@ r ON r.slot = c.slot AND r.job = c.job AND r.id = c.id
    LEFT JOIN @attempts@ a ON a.job = c.job AND a.id = c.id AND a.slot = c.slot AND a.token = c.token;
END $body$
