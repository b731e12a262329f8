//! Endings: close, reset, detach, dropping the reactor, listeners.

use crate::on_every_engine;
use crate::world::{World, echo_peer, pattern};
use pantala_reactor::net::{SocketAccess, unix_listener};
use pantala_reactor::{ListenerId, Receipt};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

#[test]
fn closing_returns_the_buffer_of_a_stalled_send() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (conn, mut peer) = world.tcp();
        world.send(conn, vec![9; 20_000_000]);
        world.settle();
        world.reactor.ops().close(conn);
        world.until(|w| w.link(conn).closed == 1);
        let buffer = world.link(conn).returned.as_ref().unwrap();
        assert!(buffer.is_empty());
        assert!(buffer.capacity() >= 20_000_000);
        let mut back = Vec::new();
        // The peer reads what the kernel had accepted, then the end or a reset.
        let _ = peer.read_to_end(&mut back);
        assert!(back.len() < 20_000_000);
    });
}

#[test]
fn closing_under_a_flood_ends_with_one_closed() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        for round in 0..20 {
            let (conn, flood) = world.pair();
            let flooder = std::thread::spawn(move || {
                let mut flood = flood;
                let bytes = vec![7; 100_000];
                while flood.write_all(&bytes).is_ok() {}
            });
            world.until(|w| w.link(conn).received.len() > round * 10_000);
            world.reactor.ops().close(conn);
            world.reactor.ops().close(conn);
            world.until(|w| w.link(conn).closed == 1);
            flooder.join().unwrap();
            world.settle();
        }
    });
}

#[test]
fn what_was_sent_before_close_in_the_same_turn_is_offered() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (conn, mut peer) = world.pair();
        world.settle();
        let mut ops = world.reactor.ops();
        ops.send(conn, b"-ERR go away".to_vec(), Receipt::Lazy);
        ops.close(conn);
        world.until(|w| w.link(conn).closed == 1);
        let mut back = Vec::new();
        peer.read_to_end(&mut back).unwrap();
        assert_eq!(back, b"-ERR go away");
    });
}

/// Closes a connection with a reset.
pub fn reset(peer: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the option is read from a local.
    let set = unsafe {
        let place = (&raw const linger).cast();
        let bytes = size_of::<libc::linger>() as u32;
        libc::setsockopt(peer.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, place, bytes)
    };
    assert_eq!(set, 0);
    drop(peer);
}

#[test]
fn a_reset_is_told_once() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (conn, peer) = world.tcp();
        world.settle();
        reset(peer);
        world.until(|w| w.link(conn).failed.is_some());
        let kind = world.link(conn).failed.as_ref().unwrap().kind();
        assert_eq!(kind, ErrorKind::ConnectionReset);
        world.settle();
        world.reactor.ops().close(conn);
        world.until(|w| w.link(conn).closed == 1);
    });
}

#[test]
fn an_index_is_not_reused_in_the_turn_of_its_closed() {
    on_every_engine(|config| {
        let mut world = World::echo(config);
        let mut seen = Vec::new();
        for _ in 0..200 {
            let (conn, peer) = world.pair();
            assert!(!seen.contains(&conn));
            seen.push(conn);
            drop(peer);
            world.until(|w| w.link(conn).closed == 1);
        }
        let highest = seen.iter().map(|conn| conn.index).max().unwrap();
        assert!(highest < 4, "indices are reused in later turns");
    });
}

#[test]
fn dead_tokens_are_ignored() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (dead, peer) = world.pair();
        world.reactor.ops().close(dead);
        world.until(|w| w.link(dead).closed == 1);
        drop(peer);
        world.settle();
        let (alive, mut peer) = world.pair();
        let mut ops = world.reactor.ops();
        ops.send(dead, b"nobody".to_vec(), Receipt::Prompt);
        ops.pause_reading(dead);
        ops.resume_reading(dead);
        ops.shutdown_write(dead);
        ops.detach(dead);
        ops.close(dead);
        assert!(ops.fd(dead).is_none());
        assert!(ops.fd(alive).is_some());
        peer.write_all(b"here").unwrap();
        world.until(|w| w.link(alive).received == b"here");
    });
}

#[test]
fn a_connection_moves_between_reactors_and_loses_nothing() {
    on_every_engine(|config| {
        let mut here = World::new(config.clone());
        let mut there = World::new(config);
        let expected = pattern(5, 3_000_000);
        let bytes = expected.clone();
        let (ours, peer) = UnixStream::pair().unwrap();
        let mut conn = here.adopt(ours);
        let writer = std::thread::spawn(move || {
            let mut peer = peer;
            bytes.chunks(1009).for_each(|chunk| peer.write_all(chunk).unwrap());
            peer
        });
        let mut received = Vec::new();
        while received.len() < expected.len() {
            here.until(|w| w.link(conn).received.len() > 50_000.min(expected.len() / 100));
            here.reactor.ops().detach(conn);
            here.until(|w| w.link(conn).detached.is_some());
            let link = here.links.remove(&conn).unwrap();
            received.extend(link.received);
            conn = there.adopt(link.detached.unwrap());
            std::mem::swap(&mut here, &mut there);
            if received.len() > expected.len() - 100_000 {
                let left = expected.len() - received.len();
                here.until(|w| w.link(conn).received.len() == left);
                received.append(&mut here.links.get_mut(&conn).unwrap().received);
            }
        }
        drop(writer.join().unwrap());
        assert!(received == expected);
    });
}

#[test]
fn detaching_waits_for_the_send_under_way() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (conn, mut peer) = world.pair();
        let bytes = pattern(8, 5_000_000);
        world.send(conn, bytes.clone());
        world.reactor.ops().detach(conn);
        let reader = std::thread::spawn(move || {
            let mut back = vec![0; 5_000_000];
            peer.read_exact(&mut back).unwrap();
            (peer, back)
        });
        world.until(|w| w.link(conn).detached.is_some());
        assert_eq!(world.link(conn).sent, 1);
        let (mut peer, back) = reader.join().unwrap();
        assert!(back == bytes);
        let socket = world.links.remove(&conn).unwrap().detached.unwrap();
        UnixStream::from(socket).write_all(b"still open").unwrap();
        let mut back = [0; 10];
        peer.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"still open");
    });
}

#[test]
fn dropping_a_reactor_closes_everything_it_holds() {
    let _guard = crate::processes::nobody_forks();
    on_every_engine(|config| {
        let mut world = World::new(config);
        let address = world.listen(0);
        let (idle, mut idle_peer) = world.pair();
        let (stalled, mut stalled_peer) = world.tcp();
        world.send(stalled, vec![1; 20_000_000]);
        world.settle();
        assert!(world.link(idle).received.is_empty());
        drop(world);
        assert_eq!(idle_peer.read_to_end(&mut Vec::new()).unwrap(), 0);
        let _ = stalled_peer.read_to_end(&mut Vec::new());
        assert!(TcpStream::connect(address).is_err());
    });
}

#[test]
fn a_reactor_may_be_built_here_and_used_there() {
    on_every_engine(|config| {
        let mut world = World::echo(config);
        let (conn, mut peer) = world.pair();
        let thread = std::thread::spawn(move || world.until(|w| w.link(conn).closed == 1));
        peer.write_all(b"hello").unwrap();
        let mut back = [0; 5];
        peer.read_exact(&mut back).unwrap();
        drop(peer);
        thread.join().unwrap();
    });
}

#[test]
fn five_hundred_are_accepted_and_a_removed_listener_refuses() {
    let _guard = crate::processes::nobody_forks();
    on_every_engine(|config| {
        let mut world = World::new(config);
        let address = world.listen(0);
        let other = world.listen(1);
        let peers: Vec<_> = (0..500).map(|_| TcpStream::connect(address).unwrap()).collect();
        let _last = TcpStream::connect(other).unwrap();
        world.until(|w| w.accepted.len() == 501);
        assert_eq!(world.accepted.iter().filter(|(id, _)| *id == ListenerId(1)).count(), 1);
        world.reactor.ops().unlisten(ListenerId(0));
        world.until(|w| w.unlistened == [ListenerId(0)]);
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let _late = TcpStream::connect(other).unwrap();
        world.until(|w| w.accepted.len() == 502);
        drop(peers);
    });
}

#[test]
fn a_port_is_free_again_after_unlistened() {
    let _guard = crate::processes::nobody_forks();
    on_every_engine(|config| {
        let mut world = World::new(config);
        let address = world.listen(0);
        world.settle();
        for _ in 0..20 {
            world.unlistened.clear();
            world.reactor.ops().unlisten(ListenerId(0));
            world.until(|w| w.unlistened.len() == 1);
            let socket = pantala_reactor::net::tcp_listener(address, 16, false).unwrap();
            world.reactor.ops().listen(socket, ListenerId(0)).unwrap();
            let _peer = TcpStream::connect(address).unwrap();
            world.accepted.clear();
            world.until(|w| w.accepted.len() == 1);
        }
    });
}

#[test]
fn a_unix_listener_serves_as_a_tcp_one_does() {
    on_every_engine(|config| {
        let mut world = World::echo(config);
        let path = std::env::temp_dir().join(format!("pantala-reactor-{}", std::process::id()));
        let access = SocketAccess { permissions: Some(0o600), group: None };
        let socket = unix_listener(&path, access, 16).unwrap();
        world.reactor.ops().listen(socket, ListenerId(0)).unwrap();
        let peers: Vec<_> = (0..10)
            .map(|seed| echo_peer(UnixStream::connect(&path).unwrap(), pattern(seed, 1000)))
            .collect();
        world.until(|w| w.links.values().filter(|link| link.closed == 1).count() == 10);
        peers.into_iter().for_each(|peer| peer.join().unwrap());
        std::fs::remove_file(&path).unwrap();
    });
}
