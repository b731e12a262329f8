//! The guard of every request: checks its origin, and adds security headers to every answer.
//!
//! A browser on a hostile page can be made to send requests here. The defence against each way:
//!
//! | attack | what is refused |
//! |---|---|
//! | the page's own name resolves to this address (DNS rebinding) | a name `AdminHost` has not |
//! | a form or script sends POST | an `Origin` other than this host; no `X-Pantala: 1`; no JSON |
//! | a WebSocket, which needs no permission from us | an `Origin` other than this host |
//! | a frame around the console | `frame-ancestors 'none'` |
//! | any other cross-site request to `/api` | a `Sec-Fetch-Site` that says so |
//!
//! Known names are IP addresses, `localhost` and those in `http_hosts`: no page can have them.
//! `/healthz` and `/readyz` reveal nothing, so probes may use any name there.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN, REFERRER_POLICY, UPGRADE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::admin::Admin;
use crate::answer::Refusal;
use crate::serve::HEAD_BYTES;

/// The console may load resources only from this server.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      connect-src 'self'; frame-ancestors 'none'";
/// The header that the console sends with each request; a form of another site cannot.
const OWN_HEADER: &str = "x-pantala";
/// The header by which a browser reports the origin of a request.
const FETCH_SITE: &str = "sec-fetch-site";

/// Lets a request through, or refuses it.
pub(crate) async fn check(
    State(admin): State<Arc<Admin>>,
    request: Request,
    next: Next,
) -> Response {
    let names = admin.host.engine().settings.current().http_hosts.clone();
    let judged =
        judge(request.method(), request.uri(), request.version(), request.headers(), &names);
    let mut response = match judged {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            tracing::debug!(why = refusal.why, "an HTTP request was refused");
            refusal.into_response()
        }
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn judge(
    method: &Method,
    uri: &Uri,
    version: Version,
    headers: &HeaderMap,
    names: &str,
) -> Result<(), Refusal> {
    if head_bytes(uri, headers) > HEAD_BYTES {
        let why = "the head of a request is 32 KB at most";
        return Err(Refusal::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, why));
    }
    let is_probe = matches!(uri.path(), "/healthz" | "/readyz");
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    if uri.authority().is_some() || !(is_read || method == Method::POST) {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "only GET, HEAD and POST"));
    }
    if is_probe && is_read {
        return Ok(());
    }
    let host = one(headers, &HOST)?;
    match host {
        Some(host) if is_known(host, names) => {}
        None if version == Version::HTTP_10 => {}
        Some(_) => {
            let why = "this name is not known here: use an IP address, or name it in http_hosts";
            return Err(Refusal::forbidden(why));
        }
        None => return Err(Refusal::new(StatusCode::BAD_REQUEST, "the header Host is missing")),
    }
    let is_api = uri.path().starts_with("/api/");
    if is_api && one(headers, &HeaderName::from_static(FETCH_SITE))?.is_some_and(is_elsewhere) {
        return Err(Refusal::forbidden("this request comes from another site"));
    }
    if is_read && !headers.contains_key(UPGRADE) {
        return Ok(());
    }
    if let Some(origin) = one(headers, &ORIGIN)?
        && !host.is_some_and(|host| is_same(origin, host))
    {
        return Err(Refusal::forbidden("this request comes from another site"));
    }
    if is_read { Ok(()) } else { is_deliberate(headers) }
}

/// The approximate size of the header lines.
fn head_bytes(uri: &Uri, headers: &HeaderMap) -> usize {
    let query = uri.query().map_or(0, str::len);
    let line = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
    uri.path().len() + query + headers.iter().map(line).sum::<usize>()
}

/// Whether a POST has the headers that only the console or a deliberate client sends.
fn is_deliberate(headers: &HeaderMap) -> Result<(), Refusal> {
    let own = one(headers, &HeaderName::from_static(OWN_HEADER))?;
    if own != Some("1") {
        return Err(Refusal::forbidden("POST needs the header X-Pantala: 1"));
    }
    let kind = one(headers, &CONTENT_TYPE)?.unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let why = "POST needs Content-Type: application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    Ok(())
}

/// A header's only value; two are an error.
fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let wrong = || Refusal::new(StatusCode::BAD_REQUEST, "a header is there twice, or is no text");
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(wrong());
    }
    value.to_str().map(Some).map_err(|_| wrong())
}

fn is_elsewhere(site: &str) -> bool {
    !matches!(site, "same-origin" | "none")
}

/// Whether an origin, `scheme://host[:port]`, is this host.
fn is_same(origin: &str, host: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}

/// Whether a name, with or without a port, can only mean this server.
fn is_known(host: &str, names: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) if port.is_empty() || port.starts_with(':') => address,
        Some(_) => return false,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let mut known = names.split([' ', ',']).filter(|known| !known.is_empty());
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || known.any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, path: &str, lines: &[(&str, &str)], expected: u16) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let uri: Uri = path.parse().expect("a path");
        let judged = judge(&method, &uri, Version::HTTP_11, &headers, "db.example, cache");
        let status = judged.map_or_else(|refusal| refusal.status.as_u16(), |()| 200);
        assert_eq!(status, expected, "{method} {path} {lines:?}");
    }

    #[test]
    fn a_head_has_a_most() {
        let (short, long) = ("x".repeat(HEAD_BYTES - 100), "x".repeat(HEAD_BYTES));
        check("GET", "/", &[("host", "[::1]"), ("x-y", &short)], 200);
        check("GET", "/", &[("host", "[::1]"), ("x-y", &long)], 431);
        check("GET", "/healthz", &[("x-y", &short), ("x-z", &short)], 431);
    }

    #[test]
    fn only_addresses_and_known_names_are_this_server() {
        for host in ["127.0.0.1", "10.1.2.3:6379", "[::1]", "[::1]:80", "localhost:1", "LOCALHOST"]
        {
            check("GET", "/", &[("host", host)], 200);
        }
        for host in ["db.example:6379", "CACHE"] {
            check("GET", "/", &[("host", host)], 200);
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "[::1]evil", "localhost.evil", ""] {
            check("GET", "/", &[("host", host)], 403);
        }
        check("GET", "/", &[], 400);
        check("GET", "/", &[("host", "127.0.0.1"), ("host", "evil.example")], 400);
        check("GET", "/healthz", &[("host", "anything.example")], 200);
        check("GET", "http://evil.example/", &[("host", "127.0.0.1")], 405);
    }

    #[test]
    fn a_post_says_that_it_is_meant() {
        let good = [("host", "[::1]:1"), ("x-pantala", "1"), ("content-type", "application/json")];
        check("POST", "/api/run", &good, 200);
        for left_out in 0..good.len() {
            let mut lines = good.to_vec();
            lines.remove(left_out);
            check("POST", "/api/run", &lines, [400, 403, 415][left_out]);
        }
        let with = |line| [good.as_slice(), &[line]].concat();
        check("POST", "/api/run", &with(("origin", "http://[::1]:1")), 200);
        check("POST", "/api/run", &with(("origin", "http://[::1]:2")), 403);
        check("POST", "/api/run", &with(("origin", "null")), 403);
        check("POST", "/api/run", &with(("sec-fetch-site", "cross-site")), 403);
        check("PUT", "/api/run", &good, 405);
        check("TRACE", "/", &good, 405);
    }

    #[test]
    fn a_socket_of_another_site_is_refused() {
        let socket = [("host", "localhost"), ("upgrade", "websocket")];
        check("GET", "/api/socket", &socket, 200);
        let with = |line| [socket.as_slice(), &[line]].concat();
        check("GET", "/api/socket", &with(("origin", "http://localhost")), 200);
        check("GET", "/api/socket", &with(("origin", "http://evil.example")), 403);
        check("GET", "/api/socket", &with(("sec-fetch-site", "same-site")), 403);
    }
}
