//! Tests of things that concern the whole process (limits, descriptors) run in a child process:
//! this test binary again, with an environment variable that selects the one test.

use crate::on_every_engine;
use crate::world::World;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

const CHILD: &str = "REACTOR_TEST_CHILD";

/// Held while a child is started. A child has copies of all our descriptors until it executes the
/// program, so a test that watches a socket disappear prevents others from starting children
/// meanwhile.
static FORKING: RwLock<()> = RwLock::new(());

/// Prevents children from being started while the guard lives.
pub fn nobody_forks() -> RwLockReadGuard<'static, ()> {
    FORKING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `body` in a child process that runs only the test called `name`.
fn in_child(name: &str, body: impl FnOnce()) {
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        return body();
    }
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command
        .args([&format!("processes::{name}"), "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = {
        let _alone = FORKING.write().unwrap_or_else(PoisonError::into_inner);
        command.spawn().unwrap()
    };
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("1 passed"), "the child found no such test: {text}");
}

/// Sets this process's limit on open descriptors.
pub fn set_descriptor_limit(count: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls use a local.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = count.min(limit.rlim_max);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Opens every descriptor that is free, except `spare`.
fn hoard(spare: usize) -> Vec<std::fs::File> {
    let mut hoard = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        hoard.push(file);
    }
    hoard.truncate(hoard.len() - spare);
    hoard
}

#[test]
fn without_descriptors_accepting_rests_and_recovers() {
    in_child("without_descriptors_accepting_rests_and_recovers", || {
        set_descriptor_limit(64);
        on_every_engine(|config| {
            let mut world = World::new(config);
            let address = world.listen(0);
            let mut clients: Vec<_> =
                (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
            world.until(|w| w.accepted.len() == 4);
            // One descriptor for the client; none is left to accept it.
            let hoarded = hoard(1);
            clients.push(TcpStream::connect(address).unwrap());
            world.until(|w| w.accept_failures == 1);
            world.turn(Some(std::time::Duration::from_millis(250)));
            world.turn(Some(std::time::Duration::from_millis(250)));
            assert_eq!(world.accept_failures, 1, "told once");
            assert_eq!(world.accepted.len(), 4);
            drop(hoarded);
            world.until(|w| w.accepted.len() == 5);
        });
    });
}

#[test]
fn a_closed_connection_makes_room_to_accept() {
    in_child("a_closed_connection_makes_room_to_accept", || {
        set_descriptor_limit(64);
        on_every_engine(|config| {
            let mut world = World::new(config);
            let address = world.listen(0);
            let (conn, _peer) = world.pair();
            world.settle();
            let hoarded = hoard(1);
            let _client = TcpStream::connect(address).unwrap();
            world.until(|w| w.accept_failures == 1);
            world.reactor.ops().close(conn);
            world.until(|w| w.accepted.len() == 1);
            drop(hoarded);
        });
    });
}

#[test]
fn no_descriptor_is_leaked() {
    in_child("no_descriptor_is_leaked", || {
        on_every_engine(|config| {
            // The first run creates things that are made once per process.
            drop(World::new(config.clone()));
            let before = open_descriptors();
            for _ in 0..3 {
                let mut world = World::echo(config.clone());
                let address = world.listen(0);
                let clients = std::thread::spawn(move || {
                    for round in 0..100 {
                        let mut client = TcpStream::connect(address).unwrap();
                        client.write_all(b"hello").unwrap();
                        let mut back = [0; 5];
                        client.read_exact(&mut back[..1 + round % 5]).unwrap();
                    }
                });
                world.until(|w| w.links.values().filter(|link| link.closed == 1).count() == 100);
                clients.join().unwrap();
                let (_open, _peer) = world.pair();
                world.settle();
            }
            assert_eq!(open_descriptors(), before);
        });
    });
}

#[test]
fn where_io_uring_is_forbidden_auto_takes_epoll() {
    in_child("where_io_uring_is_forbidden_auto_takes_epoll", || {
        forbid_io_uring();
        let world = World::new(pantala_reactor::ReactorConfig::default());
        assert_eq!(world.reactor.engine(), pantala_reactor::IoEngine::Epoll);
        assert_eq!(world.reactor.features(), "epoll");
    });
}

/// Forbids io_uring as containers do: a seccomp filter that answers `EPERM` to `io_uring_setup`.
fn forbid_io_uring() {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        // Load the call's number; skip to "allow" unless it is io_uring_setup.
        step((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0, 0, 0),
        step(
            (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            0,
            1,
            libc::SYS_io_uring_setup as u32,
        ),
        step((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0x0005_0000 | libc::EPERM as u32),
        step((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0x7fff_0000),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the filter and its program are locals; the kernel copies both. For all threads,
    // because the harness runs the test in a second one.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::syscall(libc::SYS_seccomp, 1, 1, &raw const filter);
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }
}
