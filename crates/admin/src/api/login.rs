//! Login, logout and the current session.
//!
//! A login sends AUTH as a client of the server, so a wrong password is answered late, counted and
//! logged like any other. A successful login gets a cookie.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::header::{AUTHORIZATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pantala_acl::User;
use pantala_commands::Login;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::access::{Requester, cookie, cookie_name};
use crate::admin::{Admin, Peer};
use crate::answer::{Refusal, json_answer};
use crate::link::{Link, LinkEvent};

use super::body;

/// The limit for the body of a login, which is read before the caller is authenticated.
const LOGIN_BYTES: usize = 16 << 10;
/// The time limit for AUTH, including a wrong password.
const PATIENCE: Duration = Duration::from_secs(15);

/// `POST /api/login`.
pub(super) async fn log_in(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Arc<Peer>>,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Refusal> {
    let (user, password) = told(&body(content, LOGIN_BYTES).await?)?;
    let user = authenticate(&admin, &peer, &user, &password).await?;
    let cookie =
        admin.sessions.begin(user).ok_or_else(|| Refusal::busy("there is no randomness"))?;
    let secure = if peer.is_tls { "; Secure" } else { "" };
    let name = cookie_name(&headers);
    Ok(with_cookie(&format!("{name}={cookie}; Path=/; HttpOnly; SameSite=Strict{secure}")))
}

/// Parses a name and a password.
fn told(content: &[u8]) -> Result<(String, String), Refusal> {
    let value: Value =
        serde_json::from_slice(content).map_err(|_| Refusal::wrong("the body is no JSON"))?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    text("user")
        .zip(text("password"))
        .ok_or_else(|| Refusal::wrong("the body is to be {\"user\":\"...\",\"password\":\"...\"}"))
}

/// `POST /api/logout`.
pub(super) async fn log_out(State(admin): State<Arc<Admin>>, headers: HeaderMap) -> Response {
    if let Some(cookie) = cookie(&headers) {
        admin.sessions.end(cookie);
    }
    let name = cookie_name(&headers);
    with_cookie(&format!("{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"))
}

fn with_cookie(line: &str) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    // It contains only characters that a header allows.
    if let Ok(line) = HeaderValue::from_str(line) {
        response.headers_mut().insert(SET_COOKIE, line);
    }
    response
}

/// `GET /api/session`.
pub(super) async fn session(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Arc<Peer>>,
    headers: HeaderMap,
) -> Response {
    let facts = admin.host.facts();
    let Some(asker) = Requester::of(&admin, &peer, &headers) else {
        let version = facts.version;
        return json_answer(&json!({
            "user": null, "needsLogin": true, "mayWrite": false, "version": version,
        }));
    };
    let engine = admin.host.engine();
    json_answer(&json!({
        "user": asker.name(),
        "needsLogin": false,
        "mayWrite": asker.may_write,
        "version": facts.version,
        "server": {
            "port": facts.port,
            "engine": facts.event_loop,
            "workers": engine.settings.current().worker_count(),
            "startedMs": facts.started_unix_ms,
        },
    }))
}

/// The user with this name, if the server accepts the password.
///
/// # Errors
/// 401 with the server's answer to AUTH.
async fn authenticate(
    admin: &Admin,
    peer: &Peer,
    name: &str,
    password: &str,
) -> Result<Arc<User>, Refusal> {
    let mut link =
        Link::open(&*admin.host, peer, None, Some((name, password))).map_err(Refusal::busy)?;
    let answered = timeout(PATIENCE, link.next()).await;
    let Ok(Ok(Some(LinkEvent::Reply(_, reply)))) = answered else {
        return Err(Refusal::busy("the server does not answer"));
    };
    let reply: Value = serde_json::from_str(&reply).unwrap_or_default();
    if let Some(error) = reply.get("error").and_then(Value::as_str) {
        return Err(Refusal::unknown(error));
    }
    let users = admin.host.engine().acl.users();
    let user = users.find(name.as_bytes()).filter(|user| user.is_on());
    user.map(Arc::clone).ok_or_else(|| Refusal::unknown("this user has gone"))
}

/// A caller without a browser: HTTP Basic authentication.
pub(crate) struct Basic;

impl Basic {
    /// The caller by the request's credentials, or else by its connection.
    ///
    /// # Errors
    /// 401.
    pub(crate) async fn asker(
        admin: &Admin,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<Requester, Refusal> {
        let Some(line) = headers.get(AUTHORIZATION) else {
            return Requester::needed(admin, peer, headers);
        };
        let wrong = || Refusal::unknown("Authorization is to be Basic");
        let (name, password) = credentials(line).ok_or_else(wrong)?;
        let user = authenticate(admin, peer, &name, &password).await?;
        let version = admin.host.engine().acl.version();
        Ok(Requester { login: Login::of_user(user, version), may_write: true })
    }
}

fn credentials(line: &HeaderValue) -> Option<(String, String)> {
    let (scheme, code) = line.to_str().ok()?.split_once(' ')?;
    let text = String::from_utf8(STANDARD.decode(code.trim()).ok()?).ok()?;
    let (name, password) = text.split_once(':')?;
    scheme.eq_ignore_ascii_case("basic").then(|| (name.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_a_name_and_a_password() {
        let of = |line| credentials(&HeaderValue::from_static(line));
        let expected = Some(("user".to_owned(), "pass:word".to_owned()));
        assert_eq!(of("Basic dXNlcjpwYXNzOndvcmQ="), expected);
        assert_eq!(of("basic dXNlcjpwYXNzOndvcmQ="), expected);
        for line in ["", "Basic", "Basic ?", "Basic dXNlcg==", "Bearer dXNlcjpwYXNzOndvcmQ="] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
