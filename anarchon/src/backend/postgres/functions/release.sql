-- Hand-overs and returns, each of another run: the run stays `running`, with its lease ended now.
CREATE FUNCTION @name@(p_jobs text[], p_ids text[], p_slots bigint[], p_tokens text[], p_returned bigint[])
RETURNS TABLE (o_n bigint, o_now bigint, o_status text, o_until bigint, o_ended text) @plpgsql@ @joining@ AS $body$
BEGIN
  PERFORM 1 FROM unnest(p_jobs, p_ids, p_slots, p_tokens) c (job, id, slot, token)
  JOIN @runs@ r ON @is r.slot c.slot@ AND r.job = c.job AND r.id = c.id
  WHERE r.token = c.token ORDER BY r.job, r.id, r.slot FOR UPDATE OF r;
  o_now := @clock@;
  RETURN QUERY
    WITH d AS (
      SELECT u.*, r.token = u.token AS mine, r.status AS run_status, r.until_ms, a.status AS ended,
        r.attempt, r.fence, r.reason, r.instance_id, r.claimed_at,
        CASE u.returned WHEN 1 THEN 'returned' ELSE 'handed_over' END AS status
      FROM unnest(p_jobs, p_ids, p_slots, p_tokens, p_returned) WITH ORDINALITY u (job, id, slot, token, returned, n)
      LEFT JOIN @runs@ r ON r.slot = u.slot AND r.job = u.job AND r.id = u.id
      LEFT JOIN @attempts@ a ON a.job = u.job AND a.id = u.id AND a.slot = u.slot AND a.token = u.token
    ), run AS (
      UPDATE @runs@ r SET attempt = r.attempt - d.returned, releases = r.releases + 1, until_ms = o_now,
        last_ended = d.status, token = NULL
      FROM d WHERE d.mine AND @is r.slot d.slot@ AND r.job = d.job AND r.id = d.id
    ), attempt AS (
      INSERT INTO @attempts@ (@open_attempt@, status, ended_at)
      SELECT d.job, d.id, d.slot, d.token, d.attempt, d.fence, d.reason, d.instance_id, d.claimed_at, d.status, o_now
      FROM d WHERE d.mine
    )
    SELECT d.n - 1, o_now, d.run_status, CASE WHEN d.mine THEN o_now ELSE d.until_ms END,
      CASE WHEN d.mine THEN d.status ELSE d.ended END
    FROM d;
END $body$
