//! Answers: JSON, and refusals with their reason.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// Why a request is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// As a number.
    pub status: StatusCode,
    /// In words, for the user.
    pub why: String,
}

impl Refusal {
    /// With this status.
    pub fn new(status: StatusCode, why: impl Into<String>) -> Refusal {
        Refusal { status, why: why.into() }
    }

    /// 400.
    pub fn wrong(why: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, why)
    }

    /// 401.
    pub fn unknown(why: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::UNAUTHORIZED, why)
    }

    /// 403.
    pub fn forbidden(why: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::FORBIDDEN, why)
    }

    /// 503.
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
