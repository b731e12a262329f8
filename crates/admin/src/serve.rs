//! Serves one HTTP connection, from the bytes that identified it to its end.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tower_service::Service;

use crate::admin::{Admin, Peer};
use crate::stream::{ByteStream, TimedStream};
use crate::{api, assets, guard, health, metrics};

/// The time limit for the head of a request, including the next one of a kept-alive connection: how
/// long that may be idle.
const HEAD_MOST: Duration = Duration::from_secs(15);
/// The limit of all header lines together. (A head that arrives in one piece is read whole before
/// that is noticed: [`guard`] checks, too.)
pub(crate) const HEAD_BYTES: usize = 32 << 10;
/// The most header lines.
const HEAD_LINES: usize = 64;

/// An accepted connection that speaks HTTP.
pub struct Incoming {
    /// Its stream.
    pub stream: Box<dyn ByteStream>,
    /// Bytes that were read from it already.
    pub received: Vec<u8>,
    /// Its peer.
    pub peer: Peer,
    /// Dropped when the connection has ended in any way.
    pub seat: Box<dyn Send>,
}

impl Admin {
    /// Serves a connection to its end, or until `stops` says so. Within a Tokio runtime.
    pub async fn serve(self: Arc<Self>, incoming: Incoming, mut stops: watch::Receiver<bool>) {
        let Incoming { stream, received, peer, seat } = incoming;
        let (router, peer) = (router(&self), Arc::new(peer));
        let of_requests = stops.clone();
        let service = service_fn(move |mut request: Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(Arc::clone(&peer));
            request.extensions_mut().insert(of_requests.clone());
            router.clone().call(request)
        });
        let io = TokioIo::new(TimedStream::new(stream, received, seat));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_MOST)
            .max_buf_size(HEAD_BYTES)
            .max_headers(HEAD_LINES)
            .serve_connection(io, service)
            .with_upgrades();
        tokio::pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "an HTTP connection ended");
                }
            }
            _ = stops.wait_for(|stops| *stops) => {}
        }
    }
}

/// The routes.
fn router(admin: &Arc<Admin>) -> Router {
    static ROUTES: LazyLock<Router<Arc<Admin>>> = LazyLock::new(|| {
        Router::new()
            .route("/healthz", get(health::alive))
            .route("/readyz", get(health::ready))
            .route("/metrics", get(metrics::page))
            .nest("/api", api::routes())
            .fallback(assets::file)
    });
    let guarded = ROUTES.clone().layer(from_fn_with_state(Arc::clone(admin), guard::check));
    guarded.with_state(Arc::clone(admin))
}
