//! `/metrics`: figures as Prometheus reads them.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::access::Asker;
use crate::answer::{Refusal, plain};
use crate::api::Basic;
use crate::serve::{Admin, Peer};

/// Whoever has not said who it is learns how.
const CHALLENGE: &str = "Basic realm=\"pantala\"";

/// `GET /metrics`.
pub(crate) async fn page(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Arc<Peer>>,
    headers: HeaderMap,
) -> Response {
    match Basic::asker(&admin, &peer, &headers).await.and_then(|asker| text(&admin, &asker)) {
        Ok(text) => plain(StatusCode::OK, text),
        Err(refusal) => {
            let is_unknown = refusal.status == StatusCode::UNAUTHORIZED;
            let mut response = refusal.into_response();
            if is_unknown {
                let challenge = HeaderValue::from_static(CHALLENGE);
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            response
        }
    }
}

fn text(admin: &Admin, asker: &Asker) -> Result<String, Refusal> {
    asker.must_run(admin.host.engine(), "info")?;
    let uptime_s = admin.host.facts().uptime_s;
    Ok(format!(
        "# HELP pantala_uptime_seconds Time since the server started.\n\
         # TYPE pantala_uptime_seconds gauge\n\
         pantala_uptime_seconds {uptime_s}\n"
    ))
}
