//! Reading history, and trimming it.

use super::Sql;
use super::answer::{fence, key, reason, small};
use super::client::{Row, SqlError, Statement, Value};
use super::dialect::{Among, SqlDialect};
use super::locks::RUN_KEY;
use super::schema::SKIP_ID;
use super::stage::{millis, one_of};
use crate::error::BackendErrorKind;
use crate::run::{AttemptRecord, AttemptStatus, Record, SkipReason, SkipRecord, Status, Trim};
use crate::slot::{JobName, Slot, Token};

/// How many attempts' worth of runs one trim of a job removes at most.
pub(in crate::backend) const TRIM_AT_ONCE: i64 = 1000;

impl<D: SqlDialect> Sql<'_, D> {
    /// Reads the newest attempts and the newest records of skipped slots, `limit` of each.
    pub(super) fn history(&self, job: &JobName, limit: u32) -> Statement {
        let t = self.tables;
        let order = "ORDER BY h.slot DESC, h.fence DESC LIMIT ?";
        let sql = format!(
            "SELECT a.slot, a.id, a.token, a.attempt, a.fence, a.reason, a.instance_id, a.status, a.claimed_at, \
             a.ended_at, a.error, CASE WHEN a.fence = r.fence THEN coalesce(r.note, a.note) ELSE a.note END, r.status \
             FROM (SELECT * FROM {attempts} h WHERE h.job = ? AND h.id <> '{SKIP_ID}' {order}) a \
             LEFT JOIN {runs} r ON r.job = a.job AND r.id = a.id AND r.slot = a.slot \
             UNION ALL SELECT o.slot, o.id, o.token, o.attempt, o.fence, o.reason, o.instance_id, 'running', o.claimed_at, \
             NULL, NULL, o.note, o.status \
             FROM (SELECT * FROM {runs} h WHERE h.open_job = ? AND h.token IS NOT NULL {order}) o \
             UNION ALL SELECT s.slot, s.id, s.token, s.skip_count, s.fence, s.reason, s.instance_id, s.status, s.last_slot, \
             NULL, NULL, NULL, NULL FROM (SELECT * FROM {attempts} h WHERE h.job = ? AND h.id = '{SKIP_ID}' \
             ORDER BY h.last_slot DESC LIMIT ?) s",
            attempts = t.attempts,
            runs = t.runs,
        );
        let (job, limit) = (Value::from(job.as_str()), Value::from(limit));
        Statement::new(sql, vec![job.clone(), limit.clone(), job.clone(), limit.clone(), job, limit])
    }

    /// Drops what is beyond the retention that all of these trims share; each names another job. The rows that go are
    /// marked first, so that all three tables lose the same ones.
    pub(super) fn trim(&self, trims: &[Trim], mark: i64) -> Vec<Statement> {
        let (t, d) = (self.tables, self.dialect);
        let Some(first) = trims.first() else { return Vec::new() };
        let size = super::padded(trims.len());
        let mut names: Vec<Value> = trims.iter().map(|trim| trim.job.as_str().into()).collect();
        names.resize(size, Value::Null);
        let named = if self.apart { Vec::new() } else { names.clone() };
        let with = |before: Vec<Value>, names: &[Value]| before.into_iter().chain(names.iter().cloned()).collect();
        let ttl = first.retention.ttl.map(millis);
        let keep = i64::from(first.retention.size);
        // The oldest slot that is kept, of the newest `size` records: none when there are no more than that, and above
        // everything when none is kept.
        let bound = |slots: &str| {
            format!(
                "(CASE WHEN ({slots} DESC LIMIT 1 OFFSET ?) IS NULL THEN NULL WHEN ? = 0 THEN {max} \
                 ELSE ({slots} DESC LIMIT 1 OFFSET ?) END)",
                max = i64::MAX
            )
        };
        let attempts = format!(
            "SELECT a.slot FROM {} a WHERE a.job = j.job AND a.id <> '{SKIP_ID}' \
             UNION ALL SELECT r.slot FROM {} r WHERE r.open_job = j.job AND r.token IS NOT NULL ORDER BY 1",
            t.attempts, t.runs
        );
        let skips =
            format!("SELECT s.last_slot FROM {} s WHERE s.job = j.job AND s.id = '{SKIP_ID}' ORDER BY 1", t.attempts);
        let values = [
            ("c_now", d.clock().to_owned()),
            ("c_do", "'trim'".to_owned()),
            ("c_token", "''".to_owned()),
            ("c_skip", "0".to_owned()),
            ("c_limit", "?".to_owned()),
            ("c_within", "?".to_owned()),
            ("c_floor", bound(&attempts)),
            ("c_previous", bound(&skips)),
            ("c_slot", format!("({attempts} LIMIT 1 OFFSET {TRIM_AT_ONCE})")),
        ];
        let lock = format!("j.ident = '' AND j.job {}", one_of(size));
        let stage = if self.apart {
            let (into, from): (Vec<&str>, Vec<&str>) =
                values.iter().map(|(name, value)| (*name, value.as_str())).unzip();
            format!(
                "INSERT INTO {} (job, {}) SELECT j.job, {} FROM {} j WHERE {lock}",
                self.stage(),
                into.join(", "),
                from.join(", "),
                t.jobs
            )
        } else {
            let set: Vec<String> = values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            format!("UPDATE {} AS j SET {} WHERE {lock}", t.jobs, set.join(", "))
        };
        let below = (keep - 1).max(0);
        let retention = vec![
            millis(first.keep).into(),
            ttl.into(),
            keep.into(),
            keep.into(),
            below.into(),
            keep.into(),
            keep.into(),
            below.into(),
        ];
        let ended = format!(
            "coalesce((SELECT max(a.ended_at) FROM {} a WHERE a.job = r.job AND a.id = r.id AND a.slot = r.slot), r.until_ms)",
            t.attempts
        );
        // Every finished run has a record in the history, which leads to it by its job.
        let (of_run, locked) = if self.locks_rows() {
            let runs = format!(
                " {} WHERE f.slot = h.slot AND f.job = h.job AND f.id = h.id AND f.open_job IS NULL AND",
                d.look_up(&t.runs, "f", false)
            );
            (runs, self.lock_free("f"))
        } else {
            (" WHERE".to_owned(), String::new())
        };
        let led_to = format!(
            "SELECT h.slot, h.job, h.id FROM {stage} j {attempts}{of_run} \
               {staged} AND h.job = j.job AND h.id <> '{SKIP_ID}' AND h.slot < j.c_now - j.c_limit \
               AND (j.c_slot IS NULL OR h.slot <= j.c_slot)",
            stage = self.stage(),
            attempts = d.look_up(&t.attempts, "h", false),
            staged = self.staged(size),
        );
        let of_job = self.there_is(&format!(
            "{stage} j WHERE {of} AND {ended} < j.c_now - j.c_limit \
               AND (r.slot < j.c_floor OR {ended} < j.c_now - j.c_within)",
            stage = self.stage(),
            of = self.stage_of("r"),
        ));
        let beyond = format!("r.open_job IS NULL AND {of_job}");
        let marked = d.update_among(
            Among { lock: locked, ..Among::new(&t.runs, RUN_KEY, Statement::new(led_to, named.clone())) },
            Statement::new("mark = ?", vec![mark.into()]),
            Statement::new(beyond, Vec::new()),
        );
        let skip_beyond = |skip: &str, by: &str| {
            format!(
                "{skip}last_slot < {by}.c_now - {by}.c_limit \
                 AND ({skip}last_slot < {by}.c_previous OR {skip}last_slot < {by}.c_now - {by}.c_within)"
            )
        };
        let newest_run = format!(
            "(SELECT max(r.slot) FROM {} a {} WHERE a.job = l.job AND a.id = '' \
             AND r.slot = a.slot AND r.job = a.job AND r.id = a.id AND r.mark = ?)",
            t.attempts,
            d.look_up(&t.runs, "r", false)
        );
        // Where the stage is the very row that is updated, it needs no looking up.
        let (stage_in, by) =
            if self.apart { (format!("{} j CROSS JOIN ", self.stage()), "j") } else { (String::new(), "l") };
        let newest_skip = format!(
            "(SELECT max(s.last_slot) FROM {stage_in}{attempts} s WHERE {by}.job = l.job AND s.job = l.job \
             AND s.id = '{SKIP_ID}' AND {})",
            skip_beyond("s.", by),
            attempts = t.attempts,
        );
        let none = -i64::MAX;
        let trim_mark = format!(
            "UPDATE {jobs} AS l SET trim_mark = {later} WHERE l.ident = '' AND l.job {named} \
             AND ({newest_run} IS NOT NULL OR {newest_skip} IS NOT NULL)",
            jobs = t.jobs,
            named = one_of(size),
            later = d.greatest(
                &format!("coalesce(l.trim_mark, {none})"),
                &d.greatest(&format!("coalesce({newest_run}, {none})"), &format!("coalesce({newest_skip}, {none})"))
            ),
        );
        let attempts_of = Statement::new(self.among_staged("a.job", size), named.clone());
        let gone_marked = d.delete_marked(t, &attempts_of, mark);
        let gone_runs = format!(
            "DELETE FROM {runs} WHERE mark = ? AND (slot, job, id) IN \
             (SELECT a.slot, a.job, a.id FROM {attempts} a WHERE {among} AND a.id <> '{SKIP_ID}')",
            runs = t.runs,
            attempts = t.attempts,
            among = self.among_staged("a.job", size),
        );
        let old_skip = format!(
            "EXISTS (SELECT 1 FROM {stage} j WHERE {of} AND {skip})",
            stage = self.stage(),
            of = self.stage_of(&t.attempts),
            skip = skip_beyond(&format!("{}.", t.attempts), "j"),
        );
        // Attempts go with their runs. Where they have gone, only records of skips are looked at, so that no other row
        // is waited for.
        let which = if gone_marked.is_some() {
            format!("id = '{SKIP_ID}' AND {old_skip}")
        } else {
            format!(
                "CASE WHEN id = '{SKIP_ID}' THEN {old_skip} ELSE NOT EXISTS (SELECT 1 FROM {} r \
                 WHERE r.slot = {attempts}.slot AND r.job = {attempts}.job AND r.id = {attempts}.id) END",
                t.runs,
                attempts = t.attempts
            )
        };
        let gone_attempts = format!("DELETE FROM {} WHERE {} AND {which}", t.attempts, self.among_staged("job", size));
        let marks = |count: usize| vec![Value::from(mark); count];
        let mut statements = Vec::new();
        if self.apart {
            statements.push(Statement::new(self.empty_stage(), Vec::new()));
        }
        statements.extend([
            Statement::new(stage, with(retention, &names)),
            Statement::new(self.end_attempts(size), named.clone()),
            Statement::new(self.close_runs(size), named.clone()),
            marked,
            Statement::new(trim_mark, [marks(1), names.clone(), marks(1)].concat()),
            gone_marked.unwrap_or_else(|| Statement::new(gone_runs, with(marks(1), &named))),
            Statement::new(gone_attempts, named),
        ]);
        statements
    }
}

fn unknown(what: &str) -> SqlError {
    SqlError::new(BackendErrorKind::Config, format!("the history holds a {what} that this release does not know"))
}

/// The records of [`Sql::history`], newest first.
pub(super) fn records(job: &JobName, rows: &[Row], limit: u32) -> Result<Vec<Record>, SqlError> {
    let mut records = Vec::with_capacity(rows.len());
    for row in rows {
        let (slot, id) = (row.int(0)?, row.text(1)?);
        if id == SKIP_ID {
            let count = u64::try_from(row.int(3)?).unwrap_or(0);
            let reason = SkipReason::parse(row.text(5)?).ok_or_else(|| unknown("reason of a skip"))?;
            let (first, last) = (Slot::from_ms(slot), Slot::from_ms(row.int(8)?));
            records.push(Record::Skipped(SkipRecord::new(job.clone(), first, last, count, reason)));
            continue;
        }
        let token = Token::parse(row.text(2)?).ok_or_else(|| unknown("token"))?;
        let status = AttemptStatus::parse(row.text(7)?).ok_or_else(|| unknown("status of an attempt"))?;
        let run = key(job.clone(), slot, id)?;
        let mut attempt = AttemptRecord::new(run, small(row, 3)?, token, row.text(6)?, row.int(8)?);
        attempt.fence = fence(row, 4)?;
        attempt.reason = reason(row, 5)?;
        attempt.status = Some(status);
        attempt.run_status = row.opt_text(12)?.and_then(Status::parse);
        attempt.ended_at = row.opt_int(9)?;
        attempt.error = row.opt_text(10)?.map(str::to_owned);
        attempt.note = row.opt_text(11)?.map(str::to_owned);
        records.push(Record::Attempt(attempt));
    }
    Ok(crate::history::newest(records, limit))
}
