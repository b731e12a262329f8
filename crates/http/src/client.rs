//! An HTTP client: requests, answers, and timeouts.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{HeaderValue, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::fault::{FaultKind, HttpFault};
use crate::route::{Route, SecureRoute, usual_proxies};
use crate::trust::{HttpTrust, usual_config};

/// The most idle connections to one host.
const IDLE_CONNECTIONS: usize = 8;
/// How long an idle connection is kept.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// The `User-Agent`.
const AGENT: &str = concat!("pantala/", env!("CARGO_PKG_VERSION"));

/// The limits of a client.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Whether addresses without TLS are allowed.
    pub may_be_plain: bool,
    /// The time limit for connecting.
    pub connect: Duration,
    /// The time limit for sending a request and receiving the head of its answer, and for each
    /// further part of the body.
    pub stall: Duration,
}

/// The body of a request: boxed, so that there is one type of client.
type RequestBody = BoxBody<Bytes, HttpFault>;

/// An answer whose body comes in parts.
pub type HttpAnswer = Response<Parts>;

/// An HTTP client with a connection pool; to be used within a Tokio runtime. Clones share the pool.
#[derive(Clone)]
pub struct Client {
    pool: Pool<SecureRoute, RequestBody>,
    stall: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("stall", &self.stall).finish_non_exhaustive()
    }
}

impl Client {
    /// A client with its own pool; opens no connection yet.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(limits: HttpLimits) -> Result<Client, HttpFault> {
        Client::through(usual_proxies(), usual_config()?, limits)
    }

    /// A client that trusts whom `trust` names, and has its certificate.
    ///
    /// # Errors
    /// TLS cannot be set up: a file is not there, or not what it should be.
    pub fn trusting(trust: &HttpTrust, limits: HttpLimits) -> Result<Client, HttpFault> {
        Client::through(usual_proxies(), trust.config()?, limits)
    }

    fn through(
        proxies: Arc<Matcher>,
        config: ClientConfig,
        limits: HttpLimits,
    ) -> Result<Client, HttpFault> {
        let route = Route::open(limits.may_be_plain, limits.connect, config, proxies);
        let pool = Pool::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIME)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_timer(TokioTimer::new())
            .build(route);
        Ok(Client { pool, stall: limits.stall })
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// No answer came.
    pub async fn send<B>(&self, request: Request<B>) -> Result<HttpAnswer, HttpFault>
    where
        B: Body<Data = Bytes> + Send + Sync + 'static,
        B::Error: std::error::Error + 'static,
    {
        let mut request = request
            .map(|body| body.map_err(|error| HttpFault::of(FaultKind::Other, &error)).boxed());
        request.headers_mut().entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
        let answer = match timeout(self.stall, self.pool.request(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                let kind = if error.is_connect() { FaultKind::Connect } else { FaultKind::Other };
                return Err(HttpFault::of(kind, &error));
            }
            Err(_) => return Err(late(self.stall)),
        };
        let stall = self.stall;
        Ok(answer.map(|body| Parts { body, stall, until: Box::pin(sleep(stall)) }))
    }

    /// Sends a request whose body is at hand, and returns the status of the answer.
    ///
    /// # Errors
    /// No answer came.
    pub async fn post(&self, request: Request<Vec<u8>>) -> Result<hyper::StatusCode, HttpFault> {
        let request = request.map(|body| Full::new(Bytes::from(body)));
        Ok(self.send(request).await?.status())
    }
}

/// The body of an answer: each part must come within the client's time limit.
pub struct Parts {
    body: Incoming,
    stall: Duration,
    until: Pin<Box<Sleep>>,
}

impl Body for Parts {
    type Data = Bytes;
    type Error = HttpFault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpFault>>> {
        let this = &mut *self;
        if let Poll::Ready(part) = Pin::new(&mut this.body).poll_frame(context) {
            let next = Instant::now() + this.stall;
            this.until.as_mut().reset(next);
            let read = |error| HttpFault::of(FaultKind::Other, &error);
            return Poll::Ready(part.map(|part| part.map_err(read)));
        }
        ready!(this.until.as_mut().poll(context));
        Poll::Ready(Some(Err(late(this.stall))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn late(stall: Duration) -> HttpFault {
    HttpFault::new(
        FaultKind::Timeout,
        format!("there is no answer within {} s", stall.as_secs_f32()),
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread::JoinHandle;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn limits(stall: Duration) -> HttpLimits {
        HttpLimits { may_be_plain: true, connect: LONG, stall }
    }

    fn get(address: &str) -> Request<Full<Bytes>> {
        Request::get(address).body(Full::default()).expect("it is a request")
    }

    /// A server that accepts one connection, reads a request's head, and continues with `then`.
    fn serving(then: fn(TcpStream)) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = listener.local_addr().expect("it has an address").to_string();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("there is more");
                head.push(byte[0]);
            }
            then(stream);
            String::from_utf8_lossy(&head).into_owned()
        });
        (address, serving)
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().expect("there is a runtime").block_on(work)
    }

    fn fault_of(limits: HttpLimits, address: &str) -> HttpFault {
        run(async {
            let client = Client::new(limits).expect("it is made");
            let body = match client.send(get(address)).await {
                Ok(answer) => answer.into_body(),
                Err(fault) => return fault,
            };
            body.collect().await.expect_err("the body is not whole")
        })
    }

    #[test]
    fn an_answer_comes_in_parts_that_make_a_whole() {
        let (address, serving) = serving(|mut stream| {
            let answer = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n\
                           3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
            stream.write_all(answer).expect("it is read");
        });
        let (status, body) = run(async {
            let client = Client::new(limits(LONG)).expect("it is made");
            let answer = client.send(get(&format!("http://{address}/x"))).await.expect("an answer");
            (answer.status(), answer.into_body().collect().await.expect("whole").to_bytes())
        });
        assert_eq!((status.as_u16(), &body[..]), (404, &b"abcde"[..]));
        let head = serving.join().expect("it has served");
        assert!(head.contains("user-agent: pantala/"), "{head}");
    }

    #[test]
    fn what_takes_too_long_ends() {
        const SHORT: Duration = Duration::from_millis(50);
        // Each is held open until the client has given up.
        let say_nothing = |mut stream: TcpStream| {
            stream.read_to_end(&mut Vec::new()).map(drop).unwrap_or_default();
        };
        let say_half = |mut stream: TcpStream| {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
                .expect("it is read");
            stream.read_to_end(&mut Vec::new()).map(drop).unwrap_or_default();
        };
        for then in [say_nothing as fn(TcpStream), say_half] {
            let (address, serving) = serving(then);
            let fault = fault_of(limits(SHORT), &format!("http://{address}/"));
            assert_eq!(fault.kind, FaultKind::Timeout, "{fault}");
            serving.join().expect("it has served");
        }
    }

    #[test]
    fn what_is_cut_off_is_no_whole_answer() {
        for sent in ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"] {
            let (address, serving) = match sent {
                "" => serving(drop),
                _ => serving(|mut stream| {
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
                        .expect("it is read");
                }),
            };
            let fault = fault_of(limits(LONG), &format!("http://{address}/"));
            assert_eq!(fault.kind, FaultKind::Interrupted, "{fault}");
            serving.join().expect("it has served");
        }
    }

    #[test]
    fn nobody_there_and_no_tls_are_told_apart() {
        let gone = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = gone.local_addr().expect("it has an address");
        // Nobody accepts a connection to it: the kernel answers for the port.
        let never = HttpLimits { may_be_plain: false, ..limits(LONG) };
        let fault = fault_of(never, &format!("http://{address}/"));
        assert!(fault.kind == FaultKind::Connect && fault.to_string().contains("http"), "{fault}");
        drop(gone);
        let fault = fault_of(limits(LONG), "http://127.0.0.1:0/");
        assert_eq!(fault.kind, FaultKind::Connect, "{fault}");
    }

    #[test]
    fn a_proxy_is_asked_for_a_tunnel() {
        let (address, serving) = serving(|mut stream| {
            stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").expect("it is read");
        });
        let proxies = Arc::new(Matcher::builder().https(format!("http://u:p@{address}")).build());
        let fault = run(async {
            let client = Client::through(proxies, usual_config().expect("TLS"), limits(LONG))
                .expect("it is made");
            client.send(get("https://far.invalid/x")).await.map(|_| ())
        });
        assert_eq!(fault.map_err(|fault| fault.kind), Err(FaultKind::Connect));
        let head = serving.join().expect("it has served");
        assert!(head.starts_with("CONNECT far.invalid:443 HTTP/1.1\r\n"), "{head}");
        assert!(head.to_lowercase().contains("proxy-authorization: basic dtpw"), "{head}");
    }
}
