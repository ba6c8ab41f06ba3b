-- Drops what is beyond the retention that these jobs share, a part of it at a time, and remembers the newest slot that
-- went. What somebody has locked stays.
CREATE FUNCTION @name@(p_jobs text[], p_size bigint, p_ttl bigint, p_keep bigint)
RETURNS void @plpgsql@ @joining@ AS $body$
DECLARE
  x record;
  now_ms bigint;
  kept_since bigint;
  oldest bigint;     -- what ended before is too old
  part bigint;       -- the newest slot of those that go at once
  cut bigint;        -- runs of an older slot are too many
  skip_cut bigint;
  newest_run bigint;
  newest_skip bigint;
BEGIN
  PERFORM 1 FROM (SELECT u.job, ''::text AS ident FROM unnest(p_jobs) u (job) OFFSET 0) c
  JOIN @jobs@ l ON @is l.job c.job@ AND l.ident = c.ident ORDER BY l.job FOR UPDATE OF l;
  now_ms := @clock@;
  kept_since := now_ms - p_keep;
  oldest := now_ms - p_ttl;
  FOR x IN
    SELECT c.job FROM (SELECT u.job, ''::text AS ident FROM unnest(p_jobs) u (job) OFFSET 0) c
    JOIN @jobs@ l ON @is l.job c.job@ AND l.ident = c.ident
  LOOP
    PERFORM @close@(x.job, now_ms, '');
    WITH slots AS (
      SELECT a.slot FROM @attempts@ a WHERE a.job = x.job AND a.id <> '@skip@'
      UNION ALL SELECT r.slot FROM @runs@ r WHERE r.open_job = x.job AND r.token IS NOT NULL
    )
    SELECT
      CASE WHEN (SELECT count(*) FROM slots) <= p_size THEN NULL WHEN p_size = 0 THEN @max@
        ELSE (SELECT s.slot FROM slots s ORDER BY s.slot DESC LIMIT 1 OFFSET greatest(p_size - 1, 0)) END,
      (SELECT s.slot FROM slots s ORDER BY s.slot LIMIT 1 OFFSET @trim@)
    INTO cut, part;
    WITH slots AS (SELECT s.last_slot FROM @attempts@ s WHERE s.job = x.job AND s.id = '@skip@')
    SELECT CASE WHEN (SELECT count(*) FROM slots) <= p_size THEN NULL WHEN p_size = 0 THEN @max@
      ELSE (SELECT s.last_slot FROM slots s ORDER BY s.last_slot DESC LIMIT 1 OFFSET greatest(p_size - 1, 0)) END
    INTO skip_cut;
    WITH ends AS (
      SELECT a.job, a.slot, a.id, max(a.ended_at) AS at FROM @attempts@ a
      WHERE a.job = x.job AND a.id <> '@skip@' AND a.slot < kept_since AND (part IS NULL OR a.slot <= part)
      GROUP BY a.job, a.slot, a.id
    ), beyond AS (
      SELECT r.slot, r.job, r.id FROM ends e JOIN @runs@ r ON @is r.slot e.slot@ AND r.job = e.job AND r.id = e.id
      WHERE r.open_job IS NULL AND coalesce(e.at, r.until_ms) < kept_since
        AND (r.slot < cut OR coalesce(e.at, r.until_ms) < oldest)
      FOR UPDATE OF r SKIP LOCKED
    ), runs AS (
      DELETE FROM @runs@ r USING beyond b WHERE @is r.slot b.slot@ AND r.job = b.job AND r.id = b.id
      RETURNING r.slot, r.id
    ), attempts AS (
      DELETE FROM @attempts@ a USING beyond b WHERE @is a.job b.job@ AND a.id = b.id AND a.slot = b.slot
    )
    SELECT max(g.slot) INTO newest_run FROM runs g WHERE g.id = '';
    WITH skips AS (
      DELETE FROM @attempts@ s WHERE s.job = x.job AND s.id = '@skip@' AND s.last_slot < kept_since
        AND (s.last_slot < skip_cut OR s.last_slot < oldest)
      RETURNING s.last_slot
    )
    SELECT max(g.last_slot) INTO newest_skip FROM skips g;
    IF newest_run IS NOT NULL OR newest_skip IS NOT NULL THEN
      UPDATE @jobs@ l SET trim_mark = greatest(l.trim_mark, newest_run, newest_skip)
      WHERE l.job = x.job AND l.ident = '';
    END IF;
  END LOOP;
END $body$
