//! The console's files, which are part of the program: gzip-encoded where that is shorter.

mod inflate;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::admin::Admin;
use crate::answer::Refusal;
use inflate::gunzip;

/// One file.
pub(crate) struct Asset {
    /// Its path.
    path: &'static str,
    /// Its media type.
    kind: &'static str,
    /// Its content.
    bytes: &'static [u8],
    /// Whether the content is gzip-encoded.
    is_gzip: bool,
    /// Its entity tag.
    tag: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Serves `GET /` and the files that the page loads.
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
        let is_packed = self.is_gzip && says(ACCEPT_ENCODING, "gzip");
        let mut response = if says(IF_NONE_MATCH, self.tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else if self.is_gzip && !is_packed {
            // Decompressed each time: no browser asks for it.
            Response::new(Body::from(gunzip(self.bytes).unwrap_or_default()))
        } else {
            Response::new(Body::from(self.bytes))
        };
        let own = response.headers_mut();
        own.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        own.insert(ETAG, HeaderValue::from_static(self.tag));
        own.insert(VARY, HeaderValue::from_static("accept-encoding"));
        own.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if is_packed {
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
    fn every_file_is_also_there_for_clients_without_gzip() {
        for asset in ASSETS.iter().filter(|asset| asset.is_gzip) {
            let plain = gunzip(asset.bytes).expect("ours are sound");
            let end = asset.bytes.last_chunk().expect("it ends with its length");
            assert_eq!(plain.len(), u32::from_le_bytes(*end) as usize, "{}", asset.path);
            let answer = asset.answer(&HeaderMap::new());
            assert_eq!(answer.status(), StatusCode::OK);
            assert!(!answer.headers().contains_key(CONTENT_ENCODING), "{}", asset.path);
        }
        let page = ASSETS.iter().find(|asset| asset.path == "/index.html");
        let page = page.and_then(|page| if page.is_gzip { gunzip(page.bytes) } else { None });
        assert!(page.is_none_or(|page| page.starts_with(b"<!")));
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
