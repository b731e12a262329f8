//! Endpoints, logins, requests, and answers that come whole.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::{Request, StatusCode, Uri};
use pantala_http::{Client, FaultKind, HttpFault, HttpLimits, HttpTrust};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::error::{Complaint, EtcdError, NO_LEASE};
use crate::lines::Lines;
use crate::messages::{self, EtcdAnswer, KeyValue, Txn, TxnResult};
use crate::watch::Watch;

/// How many times `timeout` a call takes at most.
const WHOLE_TIMES: u32 = 3;
/// The part of `timeout` in which a connection must be there, so that time is left for others.
const CONNECT_PART: u32 = 4;
/// The most keys of a list: a thousand pages.
const LIST_KEYS: usize = 1_000 * messages::PAGE_KEYS;
/// The most bytes of a list's keys and values.
const LIST_BYTES: usize = 64 << 20;
/// How long a watch's connection may be silent. Members tell of their progress every ten minutes.
const WATCH_SILENCE: Duration = Duration::from_secs(11 * 60);

/// Where etcd is, and as whom it is asked.
#[derive(Clone)]
pub struct EtcdConfig {
    /// Addresses of members, as `http://host:port` or `https://host:port`.
    pub endpoints: Vec<String>,
    /// The user; empty for none.
    pub user: String,
    /// The user's password.
    pub password: String,
    /// Authorities in PEM; empty for the system's.
    pub ca_file: String,
    /// The client's certificate in PEM; empty for none.
    pub cert_file: String,
    /// Its key in PEM.
    pub key_file: String,
    /// How long one member may take for an answer.
    pub timeout: Duration,
}

impl fmt::Debug for EtcdConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("EtcdConfig");
        fields.field("endpoints", &self.endpoints).field("user", &self.user);
        fields.field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// A client of one cluster. Clones share connections and login.
#[derive(Clone)]
pub struct Etcd {
    shared: Arc<Shared>,
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.config.fmt(f)
    }
}

struct Shared {
    config: EtcdConfig,
    http: Client,
    /// Answers of watches stay open, and may be silent for long.
    watches: Client,
    /// The endpoint that is tried first.
    first: AtomicUsize,
    /// The login at hand.
    token: Mutex<Option<String>>,
}

/// Why one endpoint has not answered.
enum Attempt {
    /// The request was not sent.
    Unsent(String),
    /// It may have been done, or not.
    Unclear(String),
    /// etcd's word, which other members would repeat.
    Clear(EtcdError),
}

/// A request: its path, its body, and whether it may be sent again.
struct Call {
    path: &'static str,
    body: Value,
    may_repeat: bool,
    /// The answer is the first line of a stream.
    is_stream: bool,
    deadline: Instant,
}

impl Call {
    /// One that does no harm when it is done twice.
    fn repeating(self) -> Call {
        Call { may_repeat: true, ..self }
    }
}

impl Etcd {
    /// A client; opens no connection yet.
    ///
    /// # Errors
    /// An endpoint is no address, or a file for TLS cannot be used.
    pub fn new(config: EtcdConfig) -> Result<Etcd, EtcdError> {
        let refuse = |why: String| EtcdError::Refused(why);
        if config.endpoints.is_empty() || config.timeout.is_zero() {
            return Err(refuse("there must be an endpoint and a timeout".into()));
        }
        let mut config = config;
        for endpoint in &mut config.endpoints {
            *endpoint = checked(endpoint).ok_or_else(|| {
                refuse(format!("{endpoint:?} is no endpoint such as http://host:2379"))
            })?;
        }
        let trust = HttpTrust {
            ca_file: config.ca_file.clone(),
            cert_file: config.cert_file.clone(),
            key_file: config.key_file.clone(),
        };
        let connect = config.timeout / CONNECT_PART;
        let client = |stall| {
            let limits = HttpLimits { may_be_plain: true, connect, stall };
            Client::trusting(&trust, limits).map_err(|fault| refuse(fault.to_string()))
        };
        let (http, watches) = (client(config.timeout)?, client(WATCH_SILENCE)?);
        let (first, token) = (AtomicUsize::new(0), Mutex::new(None));
        Ok(Etcd { shared: Arc::new(Shared { config, http, watches, first, token }) })
    }

    /// What is stored at a key, as a majority knows it.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub async fn get(&self, key: &[u8]) -> Result<EtcdAnswer<Option<KeyValue>>, EtcdError> {
        let call = self.call("/v3/kv/range", messages::get_request(key)).repeating();
        let answer = self.ask(&call).await?;
        let value = messages::range_answer(&answer)?.0.into_iter().next();
        Ok(EtcdAnswer { header: messages::header(&answer)?, value })
    }

    /// All keys that begin so, in order, as a majority knew them at one revision: the header's.
    ///
    /// # Errors
    /// See [`EtcdError`]; more than 64 MB or 512,000 keys are not listed.
    pub async fn list(&self, prefix: &[u8]) -> Result<EtcdAnswer<Vec<KeyValue>>, EtcdError> {
        let mut call = self.call("/v3/kv/range", Value::Null).repeating();
        call.body = messages::page_request(prefix, None, 0);
        let answer = self.ask(&call).await?;
        let header = messages::header(&answer)?;
        let (mut keys, mut has_more) = messages::range_answer(&answer)?;
        let mut size: usize = keys.iter().map(size_of).sum();
        while has_more {
            let Some(last) = keys.last() else {
                return Err(EtcdError::NoAnswer("a page without keys promises more".into()));
            };
            if size > LIST_BYTES || keys.len() > LIST_KEYS {
                return Err(EtcdError::NoAnswer("there is too much to list".into()));
            }
            let from = [&last.key[..], &[0]].concat();
            call.body = messages::page_request(prefix, Some(&from), header.revision);
            let answer = self.ask(&call).await?;
            if messages::header(&answer)?.cluster_id != header.cluster_id {
                return Err(EtcdError::NoAnswer("the pages are of two clusters".into()));
            }
            let (page, more) = messages::range_answer(&answer)?;
            if page.first().is_none_or(|next| next.key < from) {
                return Err(EtcdError::NoAnswer("a page does not follow the one before".into()));
            }
            size += page.iter().map(size_of).sum::<usize>();
            has_more = more;
            keys.extend(page);
        }
        Ok(EtcdAnswer { header, value: keys })
    }

    /// Does a transaction. It is sent once: after [`EtcdError::NoAnswer`] it may have been done.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub async fn transact(&self, txn: Txn) -> Result<EtcdAnswer<TxnResult>, EtcdError> {
        let answer = self.ask(&self.call("/v3/kv/txn", messages::txn_request(&txn))).await?;
        let header = messages::header(&answer)?;
        Ok(EtcdAnswer { header, value: messages::txn_answer(&txn, &answer)? })
    }

    /// A new lease: its number and its seconds, which may be more than were asked for.
    ///
    /// # Errors
    /// See [`EtcdError`]; after [`EtcdError::NoAnswer`] there may be one, which ends by itself.
    pub async fn grant(&self, ttl_s: u64) -> Result<EtcdAnswer<(i64, u64)>, EtcdError> {
        let body = json!({ "TTL": ttl_s.to_string() });
        let answer = self.ask(&self.call("/v3/lease/grant", body)).await?;
        let header = messages::header(&answer)?;
        Ok(EtcdAnswer { header, value: messages::grant_answer(&answer)? })
    }

    /// Gives a lease its whole time again, in seconds; `None` if there is no such lease.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub async fn keep_alive(&self, lease: i64) -> Result<EtcdAnswer<Option<u64>>, EtcdError> {
        let body = json!({ "ID": lease.to_string() });
        let mut call = self.call("/v3/lease/keepalive", body).repeating();
        call.is_stream = true;
        let answer = self.ask(&call).await?;
        let answer = answer.get("result").unwrap_or(&Value::Null);
        let header = messages::header(answer)?;
        Ok(EtcdAnswer { header, value: messages::keep_alive_answer(lease, answer)? })
    }

    /// Ends a lease and removes its keys. No lease of this number is no error.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub async fn revoke(&self, lease: i64) -> Result<(), EtcdError> {
        let body = json!({ "ID": lease.to_string() });
        let call = self.call("/v3/lease/revoke", body).repeating();
        match self.ask(&call).await {
            Ok(answer) => messages::header(&answer).map(drop),
            Err(EtcdError::Refused(text)) if text.contains(NO_LEASE) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// All changes below a prefix from a revision on; 0 for what comes from now on. The first
    /// [`Watch::next`] opens it; to drop it ends it.
    pub fn watch(&self, prefix: &[u8], from_revision: u64) -> Watch {
        Watch::new(self.clone(), prefix.to_vec(), from_revision)
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.shared.config.timeout
    }

    fn call(&self, path: &'static str, body: Value) -> Call {
        let deadline = Instant::now() + self.timeout() * WHOLE_TIMES;
        Call { path, body, may_repeat: false, is_stream: false, deadline }
    }

    /// Asks the endpoints in turn.
    async fn ask(&self, call: &Call) -> Result<Value, EtcdError> {
        let count = self.shared.config.endpoints.len();
        let first = self.first_endpoint();
        let mut faults: Vec<String> = Vec::new();
        for turn in 0..count {
            if Instant::now() >= call.deadline {
                break;
            }
            let endpoint = (first + turn) % count;
            match self.attempt(endpoint, call).await {
                Ok(answer) => {
                    self.prefer(endpoint);
                    return Ok(answer);
                }
                Err(Attempt::Clear(error)) => {
                    self.prefer(endpoint);
                    return Err(error);
                }
                Err(Attempt::Unclear(text)) if !call.may_repeat => {
                    self.prefer(endpoint + 1);
                    faults.push(text);
                    break;
                }
                Err(Attempt::Unsent(text) | Attempt::Unclear(text)) => faults.push(text),
            }
        }
        Err(EtcdError::NoAnswer(faults.join("; ")))
    }

    /// The endpoint that is tried first.
    pub(crate) fn first_endpoint(&self) -> usize {
        self.shared.first.load(Ordering::Relaxed) % self.shared.config.endpoints.len()
    }

    fn prefer(&self, endpoint: usize) {
        self.shared.first.store(endpoint, Ordering::Relaxed);
    }

    /// Asks one endpoint; with a new login, if etcd wants one.
    async fn attempt(&self, endpoint: usize, call: &Call) -> Result<Value, Attempt> {
        let deadline = call.deadline.min(Instant::now() + self.timeout());
        let token = self.login(endpoint, deadline).await?;
        let answer = self.exchange(endpoint, call, token.as_deref(), deadline).await?;
        let complaint = match answer {
            Ok(answer) => return Ok(answer),
            Err(complaint) => complaint,
        };
        // Such a request was refused before anything was done: even a transaction may be repeated.
        let answer = match token {
            Some(token) if complaint.is_about_token() => {
                self.forget(&token);
                let token = self.login(endpoint, deadline).await?;
                self.exchange(endpoint, call, token.as_deref(), deadline).await?
            }
            _ => Err(complaint),
        };
        answer.map_err(|complaint| match complaint.into_error() {
            EtcdError::NoAnswer(text) => Attempt::Unclear(self.at(endpoint, &text)),
            error => Attempt::Clear(error),
        })
    }

    /// One request and its answer, or what etcd complains of.
    async fn exchange(
        &self,
        endpoint: usize,
        call: &Call,
        token: Option<&str>,
        deadline: Instant,
    ) -> Result<Result<Value, Complaint>, Attempt> {
        let request = self.request(endpoint, call.path, &call.body, token, false)?;
        let unclear = |text: &str| Attempt::Unclear(self.at(endpoint, text));
        let receiving = async {
            let answer =
                self.shared.http.send(request).await.map_err(|f| self.fault(endpoint, &f))?;
            let status = answer.status();
            let mut lines = Lines::new(answer.into_body());
            let body = match call.is_stream {
                true => lines.next().await,
                false => lines.rest().await,
            };
            Ok((status, body.map_err(|fault| unclear(&fault.to_string()))?))
        };
        let (status, body) =
            timeout_at(deadline, receiving).await.map_err(|_| unclear("it takes too long"))??;
        outcome(status, &body).map_err(|text| unclear(&text))
    }

    fn request(
        &self,
        endpoint: usize,
        path: &str,
        body: &Value,
        token: Option<&str>,
        wants_leader: bool,
    ) -> Result<Request<Full<Bytes>>, Attempt> {
        let address = format!("{}{path}", self.shared.config.endpoints[endpoint]);
        let mut request = Request::post(address).header(CONTENT_TYPE, "application/json");
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            request = request.header(AUTHORIZATION, token);
        }
        if wants_leader {
            request = request.header("Grpc-Metadata-hasleader", "true");
        }
        let body = Full::new(Bytes::from(body.to_string()));
        request.body(body).map_err(|error| Attempt::Unsent(self.at(endpoint, &error.to_string())))
    }

    /// The token of the user: none without a user, empty if etcd has no logins.
    async fn login(&self, endpoint: usize, deadline: Instant) -> Result<Option<String>, Attempt> {
        let config = &self.shared.config;
        if config.user.is_empty() {
            return Ok(None);
        }
        if let Some(token) = self.shared.token.lock().clone() {
            return Ok(Some(token));
        }
        let body = json!({ "name": config.user, "password": config.password });
        let path = "/v3/auth/authenticate";
        let call = Call { path, body, may_repeat: false, is_stream: false, deadline };
        // Whatever happens to a login, the request itself was not sent.
        let unsent = |attempt| match attempt {
            Attempt::Unclear(text) => Attempt::Unsent(text),
            other => other,
        };
        let token = match self.exchange(endpoint, &call, None, deadline).await.map_err(unsent)? {
            Ok(answer) => messages::token(&answer).map_err(Attempt::Clear)?,
            Err(complaint) if complaint.is_without_logins() => String::new(),
            Err(complaint) => {
                return Err(match complaint.into_error() {
                    EtcdError::NoAnswer(text) => Attempt::Unsent(self.at(endpoint, &text)),
                    error => Attempt::Clear(error),
                });
            }
        };
        *self.shared.token.lock() = Some(token.clone());
        Ok(Some(token))
    }

    /// Forgets a token that etcd does not take, unless there is another already.
    fn forget(&self, token: &str) {
        let mut held = self.shared.token.lock();
        if held.as_deref() == Some(token) {
            *held = None;
        }
    }

    fn at(&self, endpoint: usize, text: &str) -> String {
        format!("{}: {text}", self.shared.config.endpoints[endpoint])
    }

    fn fault(&self, endpoint: usize, fault: &HttpFault) -> Attempt {
        let text = self.at(endpoint, &fault.to_string());
        match fault.kind {
            FaultKind::Connect => Attempt::Unsent(text),
            _ => Attempt::Unclear(text),
        }
    }

    /// The endpoint after `endpoint`.
    pub(crate) fn endpoint_after(&self, endpoint: usize) -> usize {
        (endpoint + 1) % self.shared.config.endpoints.len()
    }

    /// Opens a watch at one endpoint, and returns its lines. A watch ends when the member has lost
    /// its leader.
    pub(crate) async fn open_watch(
        &self,
        endpoint: usize,
        body: &Value,
    ) -> Result<Lines, EtcdError> {
        let opening = async {
            let deadline = Instant::now() + self.timeout();
            let token = self.login(endpoint, deadline).await?;
            let request = self.request(endpoint, "/v3/watch", body, token.as_deref(), true)?;
            let answer = self.shared.watches.send(request).await;
            let answer = answer.map_err(|fault| self.fault(endpoint, &fault))?;
            if answer.status() == StatusCode::OK {
                return Ok(Lines::new(answer.into_body()));
            }
            let unclear = |text: &str| Attempt::Unclear(self.at(endpoint, text));
            let status = answer.status();
            let body = Lines::new(answer.into_body()).rest().await;
            let body = body.map_err(|fault| unclear(&fault.to_string()))?;
            match outcome(status, &body) {
                Ok(Err(complaint)) => {
                    if let Some(token) = token.filter(|_| complaint.is_about_token()) {
                        self.forget(&token);
                    }
                    Err(Attempt::Clear(complaint.into_error()))
                }
                _ => Err(unclear(&format!("status {status}"))),
            }
        };
        let whole = Instant::now() + self.timeout() * 2;
        match timeout_at(whole, opening).await {
            Ok(Ok(lines)) => Ok(lines),
            Ok(Err(Attempt::Clear(error))) => Err(error),
            Ok(Err(Attempt::Unsent(text) | Attempt::Unclear(text))) => {
                Err(EtcdError::NoAnswer(text))
            }
            Err(_) => Err(EtcdError::NoAnswer(self.at(endpoint, "it takes too long"))),
        }
    }

    /// Forgets the login: a watch was refused with it after it was open.
    pub(crate) fn log_out(&self) {
        *self.shared.token.lock() = None;
    }

    /// Asks one endpoint, with the word of a majority: the store's revision, and whether anything
    /// below `prefix` was put from `revision` on.
    pub(crate) async fn probe(
        &self,
        endpoint: usize,
        prefix: &[u8],
        revision: u64,
    ) -> Result<(u64, bool), EtcdError> {
        let call = self.call("/v3/kv/range", messages::probe_request(prefix, revision));
        let answer = self.attempt(endpoint, &call).await.map_err(|attempt| match attempt {
            Attempt::Clear(error) => error,
            Attempt::Unsent(text) | Attempt::Unclear(text) => EtcdError::NoAnswer(text),
        })?;
        let (found, _) = messages::range_answer(&answer)?;
        Ok((messages::header(&answer)?.revision, !found.is_empty()))
    }
}

fn size_of(row: &KeyValue) -> usize {
    row.key.len() + row.value.len()
}

/// An endpoint without a slash at its end, if it is an address and nothing more.
fn checked(endpoint: &str) -> Option<String> {
    let endpoint = endpoint.trim_end_matches('/');
    let uri: Uri = endpoint.parse().ok()?;
    let is_known = matches!(uri.scheme_str(), Some("http" | "https"));
    let has_host = uri.host().is_some_and(|host| !host.is_empty());
    (is_known && has_host && matches!(uri.path(), "" | "/") && uri.query().is_none())
        .then(|| endpoint.to_string())
}

/// What came: an answer, a complaint of etcd, or text for the log about something unclear.
fn outcome(status: StatusCode, body: &[u8]) -> Result<Result<Value, Complaint>, String> {
    let Ok(message) = messages::parse(body) else {
        return Err(format!("status {status}, and no JSON"));
    };
    match messages::complaint(&message) {
        Some(complaint) if status.is_server_error() => Err(complaint.text),
        Some(complaint) => Ok(Err(complaint)),
        None if status.is_success() => Ok(Ok(message)),
        None => Err(format!("status {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, HEADER, Reply, config, run};
    use crate::messages::{Compare, TxnOp};

    fn etcd(fakes: &[&Fake]) -> Etcd {
        Etcd::new(config(fakes)).expect("it is a client")
    }

    fn ok(rest: &str) -> Reply {
        Reply::json(200, &format!("{{{HEADER}{rest}}}"))
    }

    fn txn() -> Txn {
        let then = vec![TxnOp::Put { key: b"k".to_vec(), value: b"v".to_vec(), lease: 0 }];
        Txn { compares: vec![(b"k".to_vec(), Compare::Absent)], then, ..Txn::default() }
    }

    #[test]
    fn endpoints_are_addresses() {
        assert_eq!(checked("http://h:1/").as_deref(), Some("http://h:1"));
        assert_eq!(checked("https://[::1]:2").as_deref(), Some("https://[::1]:2"));
        for wrong in ["", "h:1", "ftp://h", "http://h/x", "http://", "http://h?x", "http://a b"] {
            assert_eq!(checked(wrong), None, "{wrong}");
        }
        assert!(Etcd::new(EtcdConfig { endpoints: Vec::new(), ..config(&[]) }).is_err());
    }

    #[test]
    fn a_transaction_that_may_have_been_done_is_not_sent_again() {
        let unclear = [
            Reply::Cut,
            Reply::Raw("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"header\":".into()),
            Reply::json(503, r#"{"error":"no leader","message":"no leader","code":14}"#),
            Reply::json(500, "oops"),
            Reply::json(200, "{}"),
            Reply::json(200, &"[".repeat(9_999)),
            Reply::json(404, "Not Found"),
            Reply::json(400, r#"{"error":"etcdserver: request timed out","code":14}"#),
            Reply::Silence,
        ];
        for reply in unclear {
            let text = format!("{reply:?}");
            let (one, other) = (Fake::new(vec![reply]), Fake::new(vec![]));
            let result = run(async { etcd(&[&one, &other]).transact(txn()).await });
            assert!(matches!(result, Err(EtcdError::NoAnswer(_))), "{text}: {result:?}");
            assert_eq!((one.asked().len(), other.asked().len()), (1, 0), "{text}");
        }
    }

    #[test]
    fn what_was_not_sent_goes_to_the_next_endpoint() {
        let gone = Fake::gone();
        let here = Fake::new(vec![ok(r#","succeeded":true,"responses":[{"response_put":{}}]"#)]);
        let done = run(async { etcd(&[&gone, &here]).transact(txn()).await });
        assert!(done.expect("it is done").value.succeeded);
    }

    #[test]
    fn a_read_goes_on_and_the_endpoint_that_worked_is_kept() {
        let broken = Fake::new(vec![Reply::Cut]);
        let good = Fake::new(vec![ok(""), ok("")]);
        run(async {
            let etcd = etcd(&[&broken, &good]);
            for _ in 0..2 {
                assert_eq!(etcd.get(b"k").await.expect("an answer").value, None);
            }
        });
        assert_eq!((broken.asked().len(), good.asked().len()), (1, 2));
    }

    #[test]
    fn a_clear_no_is_a_refusal() {
        let no = r#"{"error":"etcdserver: permission denied","code":7}"#;
        let fake = Fake::new(vec![Reply::json(403, no)]);
        let result = run(async { etcd(&[&fake]).transact(txn()).await });
        assert!(matches!(result, Err(EtcdError::Refused(_))), "{result:?}");
    }

    #[test]
    fn a_lease_that_is_absent_is_revoked_already() {
        let no = r#"{"code":5,"message":"etcdserver: requested lease not found"}"#;
        let stream = format!("{{\"result\":{{{HEADER},\"ID\":\"5\"}}}}\n");
        let fake = Fake::new(vec![Reply::json(404, no), Reply::json(200, &stream)]);
        run(async {
            let etcd = etcd(&[&fake]);
            assert_eq!(etcd.revoke(5).await, Ok(()));
            assert_eq!(etcd.keep_alive(5).await.expect("an answer").value, None);
        });
    }

    #[test]
    fn a_list_has_pages_of_one_revision() {
        let page = |key: &str, more: bool| {
            ok(&format!(r#","more":{more},"kvs":[{{"key":"{key}","mod_revision":"3"}}]"#))
        };
        // "a", then "b".
        let fake = Fake::new(vec![page("YQ==", true), page("Yg==", false)]);
        let keys = run(async { etcd(&[&fake]).list(b"").await }).expect("a list").value;
        assert_eq!(keys.len(), 2);
        let asked = fake.asked();
        assert!(asked[1].contains(r#""revision":"9""#) && asked[1].contains(r#""key":"YQA=""#));
        // A page that comes again would never end.
        let fake = Fake::new(vec![page("YQ==", true), page("YQ==", true)]);
        let result = run(async { etcd(&[&fake]).list(b"").await });
        assert!(matches!(result, Err(EtcdError::NoAnswer(_))));
    }

    #[test]
    fn a_login_is_renewed_when_etcd_forgets_it() {
        let token = |text: &str| ok(&format!(r#","token":"{text}""#));
        let old = r#"{"error":"etcdserver: invalid auth token","code":16}"#;
        let fake = Fake::new(vec![token("one"), Reply::json(401, old), token("two"), ok("")]);
        let config = EtcdConfig { user: "u".into(), password: "p".into(), ..config(&[&fake]) };
        run(async { Etcd::new(config).expect("a client").get(b"k").await }).expect("an answer");
        let asked = fake.asked();
        assert!(asked[1].contains("authorization: one") && asked[3].contains("authorization: two"));
    }

    #[test]
    fn an_answer_that_is_too_long_is_not_read() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n";
        let fake = Fake::new(vec![Reply::Raw(format!("{head}{}", " ".repeat(17 << 20)))]);
        let result = run(async { etcd(&[&fake]).get(b"k").await });
        assert!(matches!(&result, Err(EtcdError::NoAnswer(why)) if why.contains("longer")));
    }
}
