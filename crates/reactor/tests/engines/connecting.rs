//! Outgoing connections: established, refused, abandoned while they are being established.

use crate::on_every_engine;
use crate::world::World;
use pantala_reactor::net;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

#[test]
fn a_connection_is_made_and_serves_both_ways() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = net::connect_tcp(listener.local_addr().unwrap()).unwrap();
        let conn = world.adopt_connecting(socket);
        world.until(|w| w.link(conn).connected == 1);
        let (mut peer, _) = listener.accept().unwrap();
        world.send(conn, "PING");
        world.until(|w| w.link(conn).sent == 1);
        let mut bytes = [0; 4];
        peer.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"PING");
        peer.write_all(b"+PONG").unwrap();
        drop(peer);
        world.until(|w| w.link(conn).eof);
        assert_eq!(world.link(conn).received, b"+PONG");
        assert_eq!(world.link(conn).connected, 1);
        world.reactor.ops().close(conn);
        world.until(|w| w.link(conn).closed == 1);
    });
}

#[test]
fn what_the_peer_says_first_waits_for_a_paused_connection() {
    let path = std::env::temp_dir().join(format!("pantala-connecting-{}", std::process::id()));
    on_every_engine(|config| {
        let mut world = World::new(config);
        let listener = UnixListener::bind(&path).unwrap();
        let conn = world.adopt_connecting(net::connect_unix(&path).unwrap());
        world.reactor.ops().pause_reading(conn);
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"welcome").unwrap();
        drop(peer);
        world.until(|w| w.link(conn).connected == 1 && w.link(conn).hung_up == 1);
        assert!(world.link(conn).received.is_empty());
        world.reactor.ops().resume_reading(conn);
        world.until(|w| w.link(conn).eof);
        assert_eq!(world.link(conn).received, b"welcome");
        std::fs::remove_file(&path).unwrap();
    });
    let error = net::connect_unix(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("pantala-connecting"), "{error}");
}

#[test]
fn a_refused_connection_fails_once() {
    let _guard = crate::processes::nobody_forks();
    on_every_engine(|config| {
        let mut world = World::new(config);
        // The near end of a connection: no listener is bound there, and none can be.
        let (_, taken) = world.tcp();
        let address = taken.local_addr().unwrap();
        let conn = world.adopt_connecting(net::connect_tcp(address).unwrap());
        world.until(|w| w.link(conn).failed.is_some());
        let kind = world.link(conn).failed.as_ref().unwrap().kind();
        assert_eq!(kind, ErrorKind::ConnectionRefused);
        world.settle();
        assert_eq!(world.link(conn).connected, 0);
        world.reactor.ops().close(conn);
        world.until(|w| w.link(conn).closed == 1);
    });
}

/// A listener whose queue is full: it does not answer new connections.
fn silent_listener() -> (OwnedFd, SocketAddr, Vec<OwnedFd>) {
    let listener = net::tcp_listener("127.0.0.1:0".parse().unwrap(), 1, false).unwrap();
    let address = net::local_name(&listener).parse().unwrap();
    let crowd = (0..8).map(|_| net::connect_tcp(address).unwrap()).collect();
    (listener, address, crowd)
}

#[test]
fn one_that_is_not_answered_is_closed_or_given_up() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (_listener, address, _crowd) = silent_listener();
        let mut begin = || world.adopt_connecting(net::connect_tcp(address).unwrap());
        let (closed, given) = (begin(), begin());
        world.settle();
        world.reactor.ops().close(closed);
        world.reactor.ops().detach(given);
        world.until(|w| w.link(closed).closed == 1 && w.link(given).detached.is_some());
        world.settle();
        for conn in [closed, given] {
            let link = world.link(conn);
            assert!(link.connected == 0 && link.failed.is_none(), "{link:?}");
        }
        assert_eq!(world.reactor.connection_count(), 0);
        let socket = world.links.remove(&given).unwrap().detached.unwrap();
        let error = TcpStream::from(socket).peer_addr().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConnected);
    });
}

#[test]
fn a_reactor_may_go_while_a_connection_is_being_made() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (_listener, address, _crowd) = silent_listener();
        world.adopt_connecting(net::connect_tcp(address).unwrap());
        world.settle();
        drop(world);
    });
}
