//! Answers: JSON, and refusals with a reason.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// The reason in words, for the user.
    pub why: String,
}

impl Refusal {
    /// A refusal with this status.
    pub fn new(status: StatusCode, why: impl Into<String>) -> Refusal {
        Refusal { status, why: why.into() }
    }

    /// A refusal with status 400, Bad Request.
    pub fn wrong(why: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, why)
    }

    /// A refusal with status 401, Unauthorized.
    pub fn unknown(why: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::UNAUTHORIZED, why)
    }

    /// A refusal with status 403, Forbidden.
    pub fn forbidden(why: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::FORBIDDEN, why)
    }

    /// A refusal with status 503, Service Unavailable.
    pub fn busy(why: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = json_answer(&json!({ "error": self.why }));
        *response.status_mut() = self.status;
        response
    }
}

/// An answer with a JSON value.
pub(crate) fn json_answer(value: &Value) -> Response {
    json_text(value.to_string())
}

/// An answer with a text that is JSON already.
pub(crate) fn json_text(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// An answer of plain text.
pub(crate) fn plain(status: StatusCode, text: impl Into<String>) -> Response {
    let mut response = Response::new(Body::from(text.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
