//! `POST /api/run`: runs one command as a client of its own.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json;
use tokio::time::timeout;

use crate::access::Requester;
use crate::admin::{Admin, Peer};
use crate::answer::{Refusal, json_answer, json_text};
use crate::link::{Link, LinkEvent, Request};

use super::{body, is_announced_too_long, most_bytes, parse};

/// The time limit of a command; longer waits need the socket.
const PATIENCE: Duration = Duration::from_secs(60);

/// `POST /api/run`.
pub(super) async fn run(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Arc<Peer>>,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Refusal> {
    let asker = Requester::needed(&admin, &peer, &headers)?;
    let most_bytes = most_bytes(&asker);
    if is_announced_too_long(&headers, most_bytes) {
        let why = format!("the body is longer than {most_bytes} bytes");
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    let content = body(content, most_bytes).await?;
    let value =
        serde_json::from_slice(&content).map_err(|_| Refusal::wrong("the body is no JSON"))?;
    drop(content);
    let parse::Command { args, db } = parse::command(&value).map_err(Refusal::wrong)?;
    drop(value);
    let name = match asker.admit(admin.host.engine(), &args) {
        Ok(name) => name,
        Err(error) => return Ok(json_answer(&json!({ "reply": { "error": error } }))),
    };
    let login = Some(asker.login);
    let mut link = Link::open(&*admin.host, &peer, login, None).map_err(Refusal::busy)?;
    link.ask(Request { id: String::new(), args, db, name });
    let answer = timeout(PATIENCE, reply(&mut link)).await;
    let answer = answer.map_err(|_| {
        let why = format!("no answer within {} seconds", PATIENCE.as_secs());
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, why)
    })?;
    let reply = answer.ok_or_else(|| Refusal::busy("the server has ended the connection"))?;
    Ok(json_text(format!("{{\"reply\":{reply}}}")))
}

/// The reply to the only request.
async fn reply(link: &mut Link) -> Option<String> {
    loop {
        match link.next().await {
            Ok(Some(LinkEvent::Reply(_, reply))) => return Some(reply),
            Ok(Some(LinkEvent::Push(_))) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}
