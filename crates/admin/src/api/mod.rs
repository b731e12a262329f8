//! `/api`: the console's requests, as JSON. docs/http.md describes each.

mod batch;
mod catalogue;
mod figures;
pub(crate) mod history;
mod hot_keys;
mod login;
mod parse;
mod run;
mod runs;
mod socket;
mod traffic;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::{get, post};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::access::Requester;
use crate::admin::Admin;
use crate::answer::Refusal;

pub(crate) use login::Basic;

/// The time limit for receiving a body.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
/// The limit for the body of a caller that may only read.
const BODY_BYTES: usize = 1 << 20;
/// The limit for the body of a command from an authenticated caller.
const COMMAND_BYTES: usize = 64 << 20;

/// The routes below `/api`.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/login", post(login::log_in))
        .route("/logout", post(login::log_out))
        .route("/session", get(login::session))
        .route("/run", post(run::run))
        .route("/socket", get(socket::open))
        .route("/commands", get(catalogue::commands))
        .route("/settings", get(catalogue::settings))
        .route("/figures", get(figures::page))
        .route("/history", get(history::page))
        .route("/persistence/runs", get(runs::page))
        .route("/hotkeys", get(hot_keys::page))
        .fallback(|| async { Refusal::new(StatusCode::NOT_FOUND, "there is no such page") })
}

/// Receives the whole body, within a size and time limit.
///
/// # Errors
/// 413, 408 or 400.
async fn body(body: Body, most_bytes: usize) -> Result<Bytes, Refusal> {
    let collected = tokio::time::timeout(BODY_PATIENCE, Limited::new(body, most_bytes).collect());
    match collected.await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let why = format!("the body is longer than {most_bytes} bytes");
            Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why))
        }
        Ok(Err(_)) => Err(Refusal::wrong("the body can not be read")),
        Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body takes too long")),
    }
}

/// The limit for a body or message of this caller.
fn most_bytes(asker: &Requester) -> usize {
    if asker.may_write { COMMAND_BYTES } else { BODY_BYTES }
}

/// Whether the announced length of the body is above the limit.
fn is_announced_too_long(headers: &HeaderMap, most_bytes: usize) -> bool {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).is_some_and(|length: usize| length > most_bytes)
}
