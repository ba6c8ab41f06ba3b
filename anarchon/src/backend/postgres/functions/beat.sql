-- Heartbeats: each moves the end of a lease that is not over, never back. The clock is read once a row is locked: between
-- the two another could have been told that the lease is over. A row that somebody else has locked is left alone, and that
-- is said: one slow transaction must not cost the other leases of the instance.
CREATE FUNCTION @name@(p_jobs text[], p_ids text[], p_slots bigint[], p_tokens text[], p_leases bigint[])
RETURNS TABLE (o_n bigint, o_now bigint, o_renewed bigint) @plpgsql@ @joining@ AS $body$
BEGIN
  RETURN QUERY
    WITH k AS (
      SELECT c.*, k.until_ms, @clock@ AS at
      FROM unnest(p_jobs, p_ids, p_slots, p_tokens, p_leases) WITH ORDINALITY c (job, id, slot, token, lease, n)
      LEFT JOIN LATERAL (SELECT r.until_ms FROM @runs@ r
        WHERE r.slot = c.slot AND r.job = c.job AND r.id = c.id AND r.token = c.token
        FOR UPDATE SKIP LOCKED) k ON true
    ), d AS (
      SELECT k.*, CASE
        WHEN k.until_ms > k.at THEN 1
        WHEN k.until_ms IS NULL AND EXISTS (SELECT 1 FROM @runs@ r
          WHERE r.slot = k.slot AND r.job = k.job AND r.id = k.id AND r.token = k.token) THEN 2
        ELSE 0 END::bigint AS renewed
      FROM k
    ), renewed AS (
      UPDATE @runs@ r SET until_ms = greatest(r.until_ms, d.at + d.lease) FROM d
      WHERE d.renewed = 1 AND @is r.slot d.slot@ AND r.job = d.job AND r.id = d.id
    )
    SELECT d.n - 1, d.at, d.renewed FROM d;
END $body$
