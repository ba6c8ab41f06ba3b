-- Closes what is expired or used up of a job whose row the caller has locked: all but the run of a slot that the token
-- still holds. What somebody else has locked stays as it is.
CREATE FUNCTION @name@(p_job text, p_now bigint, p_token text) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
  x record;
BEGIN
  FOR x IN
    SELECT r.slot, r.id, r.status, r.token, r.last_ended FROM @runs@ r
    WHERE r.open_job = p_job AND @closes r p_now@ AND (r.token IS NULL OR r.id <> '' OR r.token <> p_token)
    FOR UPDATE SKIP LOCKED
  LOOP
    IF x.token IS NOT NULL THEN
      INSERT INTO @attempts@ (@open_attempt@, status, ended_at)
      SELECT @r.open_attempt@, 'lost', p_now FROM @runs@ r WHERE r.slot = x.slot AND r.job = p_job AND r.id = x.id;
    END IF;
    UPDATE @runs@ r SET
      status = CASE WHEN x.status = 'running' THEN 'dead' WHEN x.last_ended = 'timed_out' THEN 'timed_out'
        ELSE 'failed' END,
      last_ended = CASE WHEN x.token IS NULL THEN x.last_ended ELSE 'lost' END,
      token = NULL, open_job = NULL
    WHERE r.slot = x.slot AND r.job = p_job AND r.id = x.id;
  END LOOP;
END $body$
