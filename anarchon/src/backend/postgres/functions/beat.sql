-- Heartbeats: each moves the end of a lease that is not over, never back. A row that somebody has locked is left alone,
-- and that is said: one slow transaction must not cost the other leases of the instance.
CREATE FUNCTION @name@(p_jobs text[], p_ids text[], p_slots bigint[], p_tokens text[], p_leases bigint[])
RETURNS TABLE (o_n bigint, o_now bigint, o_renewed bigint) @plpgsql@ AS $body$
BEGIN
  o_now := @clock@;
  RETURN QUERY
    WITH c AS (
      SELECT u.n - 1 AS n, @text u.job@ AS job, u.id, u.slot, u.token, u.lease
      FROM unnest(p_jobs, p_ids, p_slots, p_tokens, p_leases) WITH ORDINALITY u (job, id, slot, token, lease, n)
    ), k AS (
      SELECT c.n, c.lease, r.slot, r.job, r.id
      FROM c JOIN @runs@ r ON r.slot = c.slot AND r.job = c.job AND r.id = c.id
      WHERE r.token = c.token FOR UPDATE OF r SKIP LOCKED
    ), w AS (
      UPDATE @runs@ r SET until_ms = greatest(r.until_ms, o_now + k.lease) FROM k
      WHERE r.slot = k.slot AND r.job = k.job AND r.id = k.id AND r.until_ms > o_now RETURNING k.n
    )
    SELECT c.n, o_now, CASE WHEN w.n IS NOT NULL THEN 1 WHEN k.n IS NULL AND r.token = c.token THEN 2 ELSE 0 END::bigint
    FROM c LEFT JOIN k ON k.n = c.n LEFT JOIN w ON w.n = c.n
    LEFT JOIN @runs@ r ON r.slot = c.slot AND r.job = c.job AND r.id = c.id;
END $body$
