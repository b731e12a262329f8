//! Connecting to another host: directly or through a proxy, with TLS or without.

use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower_service::Service;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Stream = TokioIo<TcpStream>;

/// Opens connections: direct TCP, or a tunnel through the configured proxy.
#[derive(Clone)]
pub(crate) struct Route {
    direct: HttpConnector,
    proxies: Arc<Matcher>,
}

/// A [`Route`] that speaks TLS to `https` addresses.
pub(crate) type SecureRoute = HttpsConnector<Route>;

impl Route {
    /// `may_be_plain`: addresses without TLS are allowed.
    pub(crate) fn open(
        may_be_plain: bool,
        connect_timeout: Duration,
        config: ClientConfig,
        proxies: Arc<Matcher>,
    ) -> SecureRoute {
        let mut direct = HttpConnector::new();
        direct.enforce_http(false);
        direct.set_connect_timeout(Some(connect_timeout));
        direct.set_nodelay(true);
        let builder = HttpsConnectorBuilder::new().with_tls_config(config);
        let builder = match may_be_plain {
            true => builder.https_or_http(),
            false => builder.https_only(),
        };
        builder.enable_http1().wrap_connector(Route { direct, proxies })
    }
}

impl Service<Uri> for Route {
    type Response = Stream;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Service::<Uri>::poll_ready(&mut self.direct, context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let is_sealed = to.scheme_str() == Some("https");
        let Some(proxy) = is_sealed.then(|| self.proxies.intercept(&to)).flatten() else {
            let connecting = self.direct.call(to);
            return Box::pin(async { Ok(connecting.await?) });
        };
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.direct.clone());
        if let Some(login) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(login.clone());
        }
        let connecting = tunnel.call(to);
        Box::pin(async { Ok(connecting.await?) })
    }
}

/// The proxies that the environment names.
pub(crate) fn usual_proxies() -> Arc<Matcher> {
    static USUAL: LazyLock<Arc<Matcher>> = LazyLock::new(|| Arc::new(Matcher::from_env()));
    Arc::clone(&USUAL)
}
