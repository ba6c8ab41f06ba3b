  WITH c AS (
    SELECT * FROM unnest(p_jobs, p_slots, p_kinds, p_tokens, p_instances, p_idents, p_floors, p_limits, p_leases,
      p_max, p_retries, p_within, p_valid) WITH ORDINALITY
      u (job, slot, kind, token, instance, ident, floor, max_late, lease, max_attempts, retry, within, valid, n)
  ), d AS (
    SELECT c.*, ''::text AS lock, f.job IS NULL AS fresh, r.status, r.until_ms, a.status AS ended, greatest(l.fence + 1, now_ms) AS fence,
      CASE
        WHEN l.job IS NULL OR c.valid < now_ms OR c.slot > now_ms OR l.touched < now_ms - @touch@
          OR (SELECT m.v FROM @meta@ m WHERE m.k = 'format') > @newest@
          OR EXISTS (SELECT 1 FROM @runs@ o WHERE o.open_job = c.job AND (o.slot <> c.slot OR o.id <> ''))
          THEN 'apart'
        WHEN r.job IS NOT NULL THEN CASE
          WHEN r.open_job IS NOT NULL AND (r.until_ms <= now_ms OR r.token = c.token) THEN 'apart'
          WHEN a.status IS NOT NULL THEN 'ended'
          WHEN r.open_job IS NULL THEN 'done'
          ELSE 'running' END
        WHEN c.kind <> 'takeover' AND l.paused_at IS NULL AND c.slot > coalesce(l.trim_mark, c.slot - 1)
          AND c.slot > coalesce(f.floor, c.floor) AND c.slot >= now_ms - c.max_late
          AND coalesce((SELECT s.last_slot FROM @attempts@ s WHERE s.job = c.job AND s.id = '@skip@'
            AND s.slot <= c.slot ORDER BY s.slot DESC LIMIT 1) < c.slot, true)
          THEN 'start'
        ELSE 'apart' END AS did
    FROM c
    LEFT JOIN @jobs@ l ON l.job = c.job AND l.ident = ''
    LEFT JOIN @jobs@ f ON f.job = c.job AND f.ident = c.ident
    LEFT JOIN @runs@ r ON r.slot = c.slot AND r.job = c.job AND r.id = ''
    LEFT JOIN @attempts@ a ON a.job = c.job AND a.id = '' AND a.slot = c.slot AND a.token = c.token
