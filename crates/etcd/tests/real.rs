//! Against real members, if the program `etcd` is on PATH. Each test starts its own on free ports.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pantala_etcd::{Compare, Etcd, EtcdConfig, EtcdError, Txn, TxnOp, WatchEvent};

const DEADLINE: Duration = Duration::from_secs(60);

/// Members of one cluster.
struct Members {
    ports: Vec<(u16, u16)>,
    processes: Vec<Child>,
    folder: PathBuf,
}

fn free_port() -> u16 {
    let probe = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    probe.local_addr().expect("it has an address").port()
}

impl Members {
    /// None if there is no etcd here.
    fn start(name: &str, count: usize) -> Option<Members> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: there is no program etcd on PATH");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("pantala-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is a folder");
        let ports: Vec<_> = (0..count).map(|_| (free_port(), free_port())).collect();
        let all = ports.iter().enumerate();
        let all: Vec<_> = all.map(|(n, at)| format!("m{n}=http://127.0.0.1:{}", at.1)).collect();
        let all = all.join(",");
        let spawn = |(number, (port, peer)): (usize, &(u16, u16))| {
            let (client, peer) =
                (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
            Command::new("etcd")
                .args(["--name", &format!("m{number}"), "--initial-cluster", &all])
                .arg("--data-dir")
                .arg(folder.join(format!("m{number}")))
                .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("etcd starts")
        };
        let processes = ports.iter().enumerate().map(spawn).collect();
        Some(Members { ports, processes, folder })
    }

    fn config(&self) -> EtcdConfig {
        EtcdConfig {
            endpoints: self.ports.iter().map(|at| format!("http://127.0.0.1:{}", at.0)).collect(),
            user: String::new(),
            password: String::new(),
            ca_file: String::new(),
            cert_file: String::new(),
            key_file: String::new(),
            timeout: Duration::from_secs(2),
        }
    }

    fn etcd(&self) -> Etcd {
        Etcd::new(self.config()).expect("it is a client")
    }

    /// A request without our client; the body of its answer.
    fn post(&self, member: usize, path: &str, body: &str) -> String {
        let mut stream =
            TcpStream::connect(("127.0.0.1", self.ports[member].0)).expect("it listens");
        let length = body.len();
        write!(stream, "POST {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}")
            .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_string()).unwrap_or_default()
    }

    /// The member that leads.
    fn leader(&self) -> usize {
        let is_leader = |member: &usize| {
            let status = self.post(*member, "/v3/maintenance/status", "{}");
            let id = |name: &str| {
                let rest = status.split(&format!("\"{name}\":\"")).nth(1)?;
                rest.split('"').next().map(str::to_string)
            };
            id("leader").is_some() && id("leader") == id("member_id")
        };
        (0..self.ports.len()).find(is_leader).expect("somebody leads")
    }

    fn kill(&mut self, member: usize) {
        self.processes[member].kill().expect("it runs");
        self.processes[member].wait().expect("it ends");
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.kill().unwrap_or_default();
            process.wait().map(drop).unwrap_or_default();
        }
        std::fs::remove_dir_all(&self.folder).unwrap_or_default();
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("there is a runtime").block_on(work)
}

/// Waits until a majority answers.
async fn serving(etcd: &Etcd) {
    let end = Instant::now() + DEADLINE;
    while let Err(error) = etcd.get(b"x").await {
        assert!(Instant::now() < end, "{error}");
        tokio::task::yield_now().await;
    }
}

fn put(key: &[u8], value: &[u8], lease: i64) -> Txn {
    let then = vec![TxnOp::Put { key: key.to_vec(), value: value.to_vec(), lease }];
    Txn { then, ..Txn::default() }
}

/// The next event for which `wanted` holds.
async fn event(watch: &mut pantala_etcd::Watch, wanted: fn(&WatchEvent) -> bool) -> WatchEvent {
    let search = async {
        loop {
            let event = watch.next().await;
            if wanted(&event) {
                return event;
            }
        }
    };
    tokio::time::timeout(DEADLINE, search).await.expect("it comes")
}

fn is_change(event: &WatchEvent) -> bool {
    matches!(event, WatchEvent::Changes { .. })
}

#[test]
fn one_member_keeps_lists_compares_and_watches() {
    let Some(members) = Members::start("one", 1) else { return };
    run(async {
        let etcd = members.etcd();
        serving(&etcd).await;
        let before = etcd.get(b"x").await.expect("an answer").header.revision;
        let first =
            Txn { compares: vec![(b"k/".to_vec(), Compare::Absent)], ..put(b"k/", b"\0", 0) };
        let done = etcd.transact(first.clone()).await.expect("an answer");
        assert!(done.value.succeeded && done.header.revision == before + 1);
        let get = TxnOp::Get { key: b"k/".to_vec() };
        let again = etcd.transact(Txn { otherwise: vec![get], ..first }).await.expect("an answer");
        assert!(!again.value.succeeded && again.value.found[0].value == b"\0");
        for compare in [
            Compare::Present,
            Compare::Version(1),
            Compare::ModRevision(before + 1),
            Compare::CreateRevision(before + 1),
            Compare::Value(b"\0".to_vec()),
        ] {
            let txn = Txn { compares: vec![(b"k/".to_vec(), compare.clone())], ..Txn::default() };
            let held = etcd.transact(txn).await.expect("an answer").value.succeeded;
            assert!(held, "{compare:?}");
        }
        // More than two pages, in transactions of a hundred.
        for part in 0..11 {
            let key = |n: usize| format!("k/{n:04}").into_bytes();
            let op = |n| TxnOp::Put { key: key(n), value: vec![7], lease: 0 };
            let then = (part * 100..part * 100 + 100).map(op).collect();
            etcd.transact(Txn { then, ..Txn::default() }).await.expect("an answer");
        }
        assert_eq!(etcd.list(b"k/").await.expect("a list").value.len(), 1_101);
        assert_eq!(etcd.list(b"").await.expect("a list").value.len(), 1_101);
        let mut watch = etcd.watch(b"k/", before + 1);
        let mut seen = 0;
        while seen < 1_101 {
            let WatchEvent::Changes { changes, .. } = event(&mut watch, is_change).await else {
                return;
            };
            seen += changes.len();
        }
        let delete = TxnOp::DeletePrefix { prefix: b"k/".to_vec() };
        etcd.transact(Txn { then: vec![delete], ..Txn::default() }).await.expect("an answer");
        let WatchEvent::Changes { changes, .. } = event(&mut watch, is_change).await else {
            return;
        };
        assert_eq!((changes.len(), changes[0].1), (1_101, false), "a revision is not split");
    });
}

#[test]
fn leases_end_and_compaction_is_told() {
    let Some(members) = Members::start("lease", 1) else { return };
    run(async {
        let etcd = members.etcd();
        serving(&etcd).await;
        let (lease, ttl) = etcd.grant(2).await.expect("a lease").value;
        let done = etcd.transact(put(b"k", b"v", lease)).await.expect("an answer");
        assert_eq!(etcd.keep_alive(lease).await.expect("an answer").value, Some(ttl));
        let mut watch = etcd.watch(b"k", done.header.revision + 1);
        let WatchEvent::Changes { changes, revision } = event(&mut watch, is_change).await else {
            return;
        };
        assert!(!changes[0].1, "the lease ends by itself");
        assert_eq!(etcd.keep_alive(lease).await.expect("an answer").value, None);
        let refused = etcd.transact(put(b"k", b"v", lease)).await;
        assert!(matches!(refused, Err(EtcdError::Refused(_))), "{refused:?}");
        let (lease, _) = etcd.grant(60).await.expect("a lease").value;
        assert_eq!((etcd.revoke(lease).await, etcd.revoke(lease).await), (Ok(()), Ok(())));
        let body = format!("{{\"revision\":\"{revision}\"}}");
        members.post(0, "/v3/kv/compaction", &body);
        let told = etcd.watch(b"k", 1).next().await;
        assert!(matches!(told, WatchEvent::Compacted { .. }), "{told:?}");
    });
}

#[test]
fn a_leader_may_go_and_a_watch_without_one_ends() {
    let Some(mut members) = Members::start("three", 3) else { return };
    run(async {
        let etcd = members.etcd();
        serving(&etcd).await;
        let done = etcd.transact(put(b"k", b"1", 0)).await.expect("an answer");
        let mut watch = etcd.watch(b"k", done.header.revision);
        event(&mut watch, is_change).await;
        let leader = members.leader();
        members.kill(leader);
        serving(&etcd).await;
        etcd.transact(put(b"k", b"2", 0)).await.expect("an answer");
        let told = event(&mut watch, is_change).await;
        let WatchEvent::Changes { changes, .. } = told else { return };
        assert_eq!(changes[0].0.value, b"2", "nothing is told twice");
        // Of two, one stays: it has no majority. Only its own watch may say so.
        let left: Vec<_> = (0..3).filter(|member| *member != leader).collect();
        let mut config = members.config();
        config.endpoints = vec![config.endpoints[left[0]].clone()];
        let alone = Etcd::new(config).expect("it is a client");
        let mut lonely = alone.watch(b"k", done.header.revision);
        event(&mut lonely, is_change).await;
        members.kill(left[1]);
        let told = event(&mut lonely, |event| !is_change(event)).await;
        let WatchEvent::Lost(error) = told else { panic!("{told:?}") };
        println!("without a majority: {error}");
        assert!(error.to_string().contains("no leader"), "{error}");
        assert!(matches!(alone.get(b"k").await, Err(EtcdError::NoAnswer(_))));
        let unknown = alone.transact(put(b"k", b"3", 0)).await;
        assert!(matches!(unknown, Err(EtcdError::NoAnswer(_))), "{unknown:?}");
    });
}

#[test]
fn a_user_needs_a_password() {
    let Some(members) = Members::start("auth", 1) else { return };
    run(async {
        serving(&members.etcd()).await;
        for (path, body) in [
            ("/v3/auth/user/add", r#"{"name":"root","password":"secret"}"#),
            ("/v3/auth/role/add", r#"{"name":"root"}"#),
            ("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#),
            ("/v3/auth/enable", "{}"),
        ] {
            let answer = members.post(0, path, body);
            assert!(answer.contains("header"), "{path}: {answer}");
        }
        let user = |password: &str| {
            let config =
                EtcdConfig { user: "root".into(), password: password.into(), ..members.config() };
            Etcd::new(config).expect("it is a client")
        };
        let etcd = user("secret");
        let done = etcd.transact(put(b"k", b"v", 0)).await.expect("an answer");
        let mut watch = etcd.watch(b"k", done.header.revision);
        event(&mut watch, is_change).await;
        for wrong in [members.etcd(), user("wrong")] {
            let refused = wrong.transact(put(b"k", b"v", 0)).await;
            assert!(matches!(refused, Err(EtcdError::Refused(_))), "{refused:?}");
        }
    });
}
