-- Many claims, each of another job, in the order of the jobs. An array of one value says it of all of them. What is
-- commonest is carried out, or answered, for all of them by one statement: a slot that is free, of a job that does nothing
-- else, and a slot that another has. The rest goes one by one.
-- Open runs are looked for entry by entry of their index, which leaves out from then on what has ended; a bitmap would not.
-- The answer is one text, of rows. Those that were started are one, the first: their fences, with nothing between commas for
-- each of the others.
CREATE FUNCTION @name@(
  p_jobs text[], p_slots bigint[], p_kinds text[], p_tokens text[], p_instances text[], p_idents text[],
  p_floors bigint[], p_previous bigint[], p_limits bigint[], p_leases bigint[], p_skips bigint[], p_max bigint[],
  p_retries bigint[], p_within bigint[], p_valid bigint[]
) RETURNS text @plpgsql@ @joining@ SET enable_bitmapscan = off AS $body$
DECLARE
  now_ms bigint;
  until bigint;
  won bigint := 0;
  said text;
  -- What all of them have in common, or NULL.
  s_slots bigint := @one slots@; s_kinds text := @one kinds@; s_instances text := @one instances@;
  s_idents text := @one idents@; s_floors bigint := @one floors@; s_previous bigint := @one previous@;
  s_limits bigint := @one limits@; s_leases bigint := @one leases@; s_skips bigint := @one skips@;
  s_max bigint := @one max@; s_retries bigint := @one retries@; s_within bigint := @one within@;
  s_valid bigint := @one valid@;
  -- What each job's row says once it is locked: the fence of its next attempt, and a slot up to which none is free, or the
  -- least number, if the claim's is after all that there has been. And whether any has an open run.
  v_fences bigint[];
  v_bars bigint[];
  v_open boolean;
  -- What was found, and said, for each claim that is lost.
  v_did text[];
  v_status text[];
  v_until bigint[];
  v_ended text[];
BEGIN
  now_ms := @clock@;
  -- Where another has the first slot, it is likely to have all of them. What is lost then is answered without a lock,
  -- which would have to be written and synced.
  IF EXISTS (SELECT 1 FROM @runs@ r WHERE r.slot = p_slots[1] AND r.job = p_jobs[1] AND r.id = '') THEN
    @lost@;
    -- The clock is read again after the state, so that nothing is called alive that is over.
    now_ms := @clock@;
    IF v_did <@ ARRAY['ended', 'done', 'running'] AND until > now_ms THEN
      RETURN (SELECT string_agg(@lost_answer@, E'\x1e')
        FROM unnest(v_did, v_status, v_until, v_ended) WITH ORDINALITY u (did, status, until_ms, ended, n));
    END IF;
  END IF;

  -- Claims that come too late leave no trace.
  IF now_ms <= ALL (p_valid) THEN
    FOR round IN 1 .. 2 LOOP
      -- The write is the lock, so each claim uses up a fence, a lost one too.
      WITH l AS (
        UPDATE @jobs@ l SET fence = greatest(l.fence + 1, now_ms), touched = greatest(l.touched, now_ms),
          was_newest = l.newest, newest = greatest(l.newest, c.slot),
          newest_ident = CASE WHEN l.newest_ident = c.schedule
            OR c.slot > (SELECT f.floor FROM @jobs@ f WHERE f.job = c.job AND f.ident = c.schedule)
            THEN c.schedule ELSE l.newest_ident END
        FROM (SELECT c.job, c.n, ''::text AS ident, @of slots c.n@ AS slot, @of idents c.n@ AS schedule
          FROM unnest(p_jobs) WITH ORDINALITY c (job, n) OFFSET 0) c
        WHERE @is l.job c.job@ AND l.ident = c.ident
          AND (SELECT m.v FROM @meta@ m WHERE m.k = 'format') <= @newest@
        RETURNING c.n, l.fence, CASE WHEN l.paused_at IS NOT NULL THEN @max@
          WHEN c.slot > l.was_newest AND l.newest_ident = c.schedule THEN -@max@
          ELSE coalesce(l.trim_mark, 1 - @max@) END AS bar
      ) SELECT array_agg(l.fence), array_agg(l.bar) INTO v_fences, v_bars FROM (SELECT * FROM l ORDER BY l.n) l;
      EXIT WHEN array_length(v_fences, 1) = array_length(p_jobs, 1);
      IF ((SELECT m.v FROM @meta@ m WHERE m.k = 'format') <= @newest@) IS NOT TRUE THEN
        v_fences := NULL;
        EXIT;
      END IF;
      -- Some jobs have no row yet. It would have to be made out of the order in which rows are locked, beside those of the
      -- others, so those are answered first, by themselves.
      IF v_fences IS NOT NULL THEN
        FOR n IN 1 .. array_length(p_jobs, 1) LOOP
          IF EXISTS (SELECT 1 FROM @jobs@ l WHERE l.job = p_jobs[n] AND l.ident = ''
            AND l.xmin = (txid_current() & 4294967295)::text::xid)
          THEN
            said := concat_ws(E'\x1e', said, @claim n@);
          ELSE
            said := concat_ws(E'\x1e', said, format(E'%s\x1fnew\x1f%s', n - 1, now_ms));
          END IF;
        END LOOP;
        RETURN said;
      END IF;
      INSERT INTO @jobs@ AS l (job, ident, touched)
      SELECT c.job, '', now_ms FROM unnest(p_jobs) c (job)
      WHERE (SELECT m.v FROM @meta@ m WHERE m.k = 'format') <= @newest@
      ON CONFLICT (job, ident) DO UPDATE SET touched = l.touched WHERE false;
    END LOOP;
    now_ms := @clock@;
    v_open := EXISTS (SELECT 1 FROM @runs@ o WHERE o.open_job = ANY (p_jobs) AND o.open_job IS NOT NULL);
    INSERT INTO @runs@ (@new_run@)
    SELECT c.slot, c.job, '', 'running', c.job, 1, c.token, c.fence,
      CASE c.kind WHEN 'catch-up' THEN 'catch-up' ELSE 'scheduled' END, @of instances c.n@,
      now_ms, now_ms + @of leases c.n@, @of max c.n@, @of retries c.n@, @of within c.n@, 1
    FROM (SELECT c.*, @of slots c.n@ AS slot, @of kinds c.n@ AS kind
      FROM unnest(p_jobs, p_tokens, v_fences, v_bars) WITH ORDINALITY c (job, token, fence, bar, n) OFFSET 0) c
    WHERE c.kind <> 'takeover' AND @of valid c.n@ >= now_ms AND c.slot BETWEEN now_ms - @of limits c.n@ AND now_ms
      AND c.slot > c.bar AND (SELECT m.v FROM @meta@ m WHERE m.k = 'format') <= @newest@
      AND (c.bar = -@max@ OR (
        c.slot > (SELECT f.floor FROM @jobs@ f WHERE f.job = c.job AND f.ident = @of idents c.n@)
        AND NOT EXISTS (SELECT 1 FROM @runs@ r WHERE r.slot = c.slot AND r.job = c.job AND r.id = '' OFFSET 0)
        AND coalesce((SELECT s.last_slot FROM @attempts@ s WHERE s.job = c.job AND s.id = '@skip@'
          AND s.slot <= c.slot ORDER BY s.slot DESC LIMIT 1) < c.slot, true)))
      AND NOT (v_open AND EXISTS (SELECT 1 FROM @runs@ o WHERE o.open_job = c.job OFFSET 0));
    GET DIAGNOSTICS won = ROW_COUNT;
  END IF;
  IF won = array_length(p_jobs, 1) THEN
    RETURN format(E'%s\x1fstarted\x1f%s', array_to_string(v_fences, ','), now_ms);
  END IF;

  @lost@;
  IF won > 0 THEN
    SELECT format(E'%s\x1fstarted\x1f%s',
      string_agg(CASE u.did WHEN 'won' THEN u.fence::text ELSE '' END, ',' ORDER BY u.n), now_ms) INTO said
    FROM unnest(v_did, v_fences) WITH ORDINALITY u (did, fence, n);
  END IF;
  said := nullif(concat_ws(E'\x1e', said, (SELECT string_agg(@lost_answer@, E'\x1e')
    FROM unnest(v_did, v_status, v_until, v_ended) WITH ORDINALITY u (did, status, until_ms, ended, n)
    WHERE u.did NOT IN ('won', 'apart'))), '');
  FOR n IN 1 .. array_length(p_jobs, 1) LOOP
    IF v_did[n] = 'apart' THEN
      said := concat_ws(E'\x1e', said, @claim n@);
    END IF;
  END LOOP;
  RETURN said;
END $body$
