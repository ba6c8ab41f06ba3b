SELECT array_agg(o.did), array_agg(o.status), array_agg(o.until_ms), array_agg(o.ended),
      min(CASE o.did WHEN 'running' THEN least(o.until_ms, o.valid) ELSE o.valid END)
    INTO v_did, v_status, v_until, v_ended, until FROM (
      SELECT d.*, CASE
          WHEN d.fence = v_fences[d.n] THEN 'won'
          WHEN d.apart OR d.valid < now_ms OR d.slot > now_ms THEN 'apart'
          WHEN d.open_job IS NOT NULL AND (d.until_ms <= now_ms OR d.mine) THEN 'apart'
          WHEN d.ended IS NOT NULL THEN 'ended'
          WHEN d.open_job IS NULL THEN 'done'
          ELSE 'running' END AS did
      FROM (
        SELECT c.n, c.slot, c.valid, r.status, r.until_ms, r.open_job, r.fence, r.token = c.token AS mine,
          r.job IS NULL OR f.job IS NULL OR coalesce(l.touched < now_ms - @touch@, true)
            OR (SELECT m.v FROM @meta@ m WHERE m.k = 'format') > @newest@
            OR EXISTS (SELECT 1 FROM @runs@ o WHERE o.open_job = c.job AND (o.slot <> c.slot OR o.id <> '')) AS apart,
          -- An attempt that has ended, of a run that was begun again or is over.
          CASE WHEN r.open_job IS NULL OR r.failures + r.releases > 0 THEN (SELECT a.status FROM @attempts@ a
            WHERE a.job = c.job AND a.id = '' AND a.slot = c.slot AND a.token = c.token) END AS ended
        FROM (SELECT c.*, @of slots c.n@ AS slot, @of idents c.n@ AS ident, @of valid c.n@ AS valid
          FROM unnest(p_jobs, p_tokens) WITH ORDINALITY c (job, token, n) OFFSET 0) c
        LEFT JOIN @runs@ r ON r.slot = c.slot AND r.job = c.job AND r.id = ''
        LEFT JOIN @jobs@ l ON l.job = c.job AND l.ident = ''
        LEFT JOIN @jobs@ f ON f.job = c.job AND f.ident = c.ident
        OFFSET 0
      ) d ORDER BY d.n
    ) o
