//! The console's files, which are part of the program: gzip-encoded where that is shorter, as they
//! were built.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::admin::Admin;
use crate::answer::{Refusal, plain};

/// One file.
pub(crate) struct Asset {
    /// Its path.
    path: &'static str,
    /// What it is.
    kind: &'static str,
    /// Its bytes.
    bytes: &'static [u8],
    /// Whether they are compressed.
    is_gzip: bool,
    /// Names its contents.
    tag: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The page for whoever can not read gzip: there is no browser that can not.
const NEEDS_GZIP: &str = "the console is only there for clients that accept gzip\n";

/// `GET /` and what the page asks for.
pub(crate) async fn file(
    State(admin): State<Arc<Admin>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let is_served = admin.host.engine().settings.current().http_admin_console;
    let path = if uri.path() == "/" { "/index.html" } else { uri.path() };
    let found = ASSETS.iter().find(|asset| asset.path == path).filter(|_| is_served);
    let Some(asset) = found else {
        return Refusal::new(StatusCode::NOT_FOUND, "there is no such page").into_response();
    };
    if !matches!(method, Method::GET | Method::HEAD) {
        return Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD").into_response();
    }
    asset.answer(&headers)
}

impl Asset {
    fn answer(&self, headers: &HeaderMap) -> Response {
        let says = |name, text: &str| {
            let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|value| value.split(',')).any(|one| one.trim().starts_with(text))
        };
        let mut response = if says(IF_NONE_MATCH, self.tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else if self.is_gzip && !says(ACCEPT_ENCODING, "gzip") {
            return plain(StatusCode::NOT_ACCEPTABLE, NEEDS_GZIP);
        } else {
            Response::new(Body::from(self.bytes))
        };
        let own = response.headers_mut();
        own.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        own.insert(ETAG, HeaderValue::from_static(self.tag));
        own.insert(VARY, HeaderValue::from_static("accept-encoding"));
        own.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if self.is_gzip {
            own.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_first_page_and_each_file_is_named_once() {
        assert!(ASSETS.iter().any(|asset| asset.path == "/index.html"));
        for asset in ASSETS {
            assert_eq!(ASSETS.iter().filter(|other| other.path == asset.path).count(), 1);
            assert_eq!(asset.is_gzip, asset.bytes.starts_with(&[0x1f, 0x8b]), "{}", asset.path);
        }
    }

    #[test]
    fn what_a_browser_has_it_is_not_sent_again() {
        let asset = &ASSETS[0];
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("deflate, gzip, br"));
        assert_eq!(asset.answer(&headers).status(), StatusCode::OK);
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static(asset.tag));
        assert_eq!(asset.answer(&headers).status(), StatusCode::NOT_MODIFIED);
    }
}
