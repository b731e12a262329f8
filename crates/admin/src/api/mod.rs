//! `/api`: what the console asks for, as JSON. docs/http.md says what each is.

mod batch;
mod catalogue;
mod figures;
mod login;
mod parse;
mod run;
mod socket;
mod traffic;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::{get, post};
use http_bodies::{BodyExt, LengthLimitError, Limited};

use crate::access::Asker;
use crate::admin::Admin;
use crate::answer::Refusal;

pub(crate) use login::Basic;

/// A body may take so long to come.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
/// The body of who may only read is not longer than this.
const BODY_BYTES: usize = 1 << 20;
/// Nor that of a command from who has logged in than this.
const COMMAND_BYTES: usize = 64 << 20;

/// What is served below `/api`.
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
        .fallback(|| async { Refusal::new(StatusCode::NOT_FOUND, "there is no such page") })
}

/// The whole body, if it is short enough and comes in time.
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

/// How long a body, or a message, of this asker may be.
fn most_bytes(asker: &Asker) -> usize {
    if asker.may_write { COMMAND_BYTES } else { BODY_BYTES }
}

/// Whether the client says beforehand that its body is too long.
fn is_announced_too_long(headers: &HeaderMap, most_bytes: usize) -> bool {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).is_some_and(|length: usize| length > most_bytes)
}
