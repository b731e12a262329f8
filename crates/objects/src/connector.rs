//! The HTTP connector for the crate `object_store`: requests go through `pantala_http`.
//!
//! Without this the crate brings its own client, with HTTP/2 and a megabyte of code.

use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use pantala_http::{Client, FaultKind, HttpFault, HttpLimits};

use crate::STALL_TIME;

/// Makes clients for the crate.
#[derive(Debug)]
pub(crate) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let generic = |source: HttpFault| object_store::Error::Generic {
            store: "HTTP",
            source: Box::new(source),
        };
        Ok(HttpClient::new(Service(Client::new(limits(options)).map_err(generic)?)))
    }
}

/// The limits in the options: those of the code that opens a location, or shorter ones, where the
/// crate asks the machine itself for credentials.
fn limits(options: &ClientOptions) -> HttpLimits {
    use object_store::ClientConfigKey::{AllowHttp, ConnectTimeout};
    let connect = options.get_config_value(&ConnectTimeout).and_then(|text| seconds(&text));
    HttpLimits {
        may_be_plain: options.get_config_value(&AllowHttp).as_deref() == Some("true"),
        connect: connect.unwrap_or(STALL_TIME),
        stall: STALL_TIME,
    }
}

/// Parses a duration as the crate writes it: `30s`.
fn seconds(text: &str) -> Option<Duration> {
    text.strip_suffix('s')?.parse().ok().map(Duration::from_secs)
}

/// One client, in the crate's form.
#[derive(Debug)]
struct Service(Client);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = self.0.send(request).await.map_err(error)?;
        Ok(answer.map(|body| HttpResponseBody::new(body.map_err(error))))
    }
}

/// The error in the crate's form; its kind decides whether to retry.
fn error(fault: HttpFault) -> HttpError {
    let kind = match fault.kind {
        FaultKind::Connect => HttpErrorKind::Connect,
        FaultKind::Timeout => HttpErrorKind::Timeout,
        FaultKind::Interrupted => HttpErrorKind::Interrupted,
        FaultKind::Other => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crates_options_become_limits() {
        let second = Duration::from_secs(1);
        let options = ClientOptions::new().with_allow_http(true).with_connect_timeout(second);
        let told = limits(&options);
        assert!(told.may_be_plain && told.connect == second, "{told:?}");
        let told = limits(&ClientOptions::new().with_connect_timeout(STALL_TIME));
        assert!(!told.may_be_plain && told.connect == STALL_TIME, "{told:?}");
    }
}
