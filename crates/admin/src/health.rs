//! Health checks without authentication, for probes: alive, and ready.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::admin::Admin;
use crate::answer::plain;

/// `ok`, as long as the process serves anything at all.
pub(crate) async fn alive() -> Response {
    plain(StatusCode::OK, "ok\n")
}

/// `ok`, or why commands are not served, with 503.
pub(crate) async fn ready(State(admin): State<Arc<Admin>>) -> Response {
    match admin.host.readiness() {
        Ok(()) => plain(StatusCode::OK, "ok\n"),
        Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", why.text())),
    }
}
