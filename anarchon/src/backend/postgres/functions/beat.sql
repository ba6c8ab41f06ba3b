-- Heartbeats: each moves the end of a lease that is not over, never back. A row that somebody has locked is left alone,
-- and that is said: one slow transaction must not cost the other leases of the instance.
CREATE FUNCTION @name@(p_jobs text[], p_ids text[], p_slots bigint[], p_tokens text[], p_leases bigint[])
RETURNS TABLE (o_n bigint, o_now bigint, o_renewed bigint) @plpgsql@ AS $body$
BEGIN
  o_now := @clock@;
  RETURN QUERY
    WITH d AS (
      SELECT c.*, CASE
        WHEN k.until_ms > o_now THEN 1
        WHEN k.until_ms IS NULL AND EXISTS (SELECT 1 FROM @runs@ r
          WHERE r.slot = c.slot AND r.job = c.job AND r.id = c.id AND r.token = c.token) THEN 2
        ELSE 0 END::bigint AS renewed
      FROM unnest(p_jobs, p_ids, p_slots, p_tokens, p_leases) WITH ORDINALITY c (job, id, slot, token, lease, n)
      LEFT JOIN LATERAL (SELECT r.until_ms FROM @runs@ r
        WHERE r.slot = c.slot AND r.job = c.job AND r.id = c.id AND r.token = c.token
        FOR UPDATE SKIP LOCKED) k ON true
    ), renewed AS (
      UPDATE @runs@ r SET until_ms = greatest(r.until_ms, o_now + d.lease) FROM d
      WHERE d.renewed = 1 AND r.slot = d.slot AND r.job = d.job AND r.id = d.id
    )
    SELECT d.n - 1, o_now, d.renewed FROM d;
END $body$
