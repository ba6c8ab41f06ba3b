//! What is published: JSON, which the tools for streams show.

use serde_json::{Value, json};

use crate::backend::jetstream::Message;
use crate::lease::attempt_as_run;
use crate::run::{AttemptRecord, AttemptStatus, Finish, Reason, RunKey};
use crate::slot::{InstanceId, Token};

/// A claim that was first.
pub(super) fn claim(token: Token, instance: &InstanceId) -> Vec<u8> {
    json!({ "token": token.to_string(), "instance": instance.as_str() }).to_string().into_bytes()
}

/// The end of a run.
pub(super) fn end(finish: &Finish) -> Vec<u8> {
    let mut end = json!({ "token": finish.token.to_string(), "status": finish.ending.status().as_str() });
    if let Some(error) = finish.ending.error() {
        end["error"] = json!(error);
    }
    if finish.last {
        end["note"] = json!("stopped");
    }
    end.to_string().into_bytes()
}

/// Whose claim it is; `None` if it is no claim of ours.
pub(super) fn token(message: &Message) -> Option<Token> {
    token_of(&read(message))
}

fn read(message: &Message) -> Value {
    serde_json::from_slice(&message.payload).unwrap_or_default()
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

fn token_of(value: &Value) -> Option<Token> {
    Token::parse(text(value, "token")?)
}

/// What history shows of a run; nothing of a message that is no claim of ours.
pub(super) fn attempt(run: RunKey, claim: &Message, end: Option<&Message>) -> Option<AttemptRecord> {
    let claimed = read(claim);
    let token = token_of(&claimed)?;
    let reason = if run.manual.is_some() { Reason::Manual } else { Reason::Scheduled };
    let instance = text(&claimed, "instance").unwrap_or_default();
    let mut attempt = AttemptRecord { reason, ..AttemptRecord::new(run, 1, token, instance, claim.at) };
    if let Some(message) = end {
        let end = read(message);
        let status = text(&end, "status").and_then(AttemptStatus::parse);
        if token_of(&end) == Some(token) && status.is_some() {
            attempt.status = status;
            attempt.run_status = status.map(attempt_as_run);
            attempt.ended_at = Some(message.at);
            attempt.error = text(&end, "error").map(str::to_owned);
            attempt.note = text(&end, "note").map(str::to_owned);
        }
    }
    Some(attempt)
}
