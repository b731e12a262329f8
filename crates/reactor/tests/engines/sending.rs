//! Sending: readers that stall, receipts, closing while sending.

use crate::on_every_engine;
use crate::world::{World, pattern};
use pantala_reactor::Receipt;
use std::io::{Read, Write};

#[test]
fn a_peer_that_does_not_read_delays_nobody() {
    on_every_engine(|config| {
        let mut world = World::echo(config);
        let (stalled, _stalled_peer) = world.tcp();
        world.send(stalled, vec![1; 30_000_000]);
        let (_, mut peer) = world.tcp();
        for round in 0..200 {
            let question = pattern(round, 64);
            peer.write_all(&question).unwrap();
            let mut back = [0; 64];
            let goal = round + 1;
            world.until_sent(|w| w.links.values().any(|link| link.sent == goal));
            peer.read_exact(&mut back).unwrap();
            assert_eq!(back[..], question);
        }
        assert_eq!(world.link(stalled).sent, 0);
    });
}

#[test]
fn a_stalled_send_goes_on_when_the_peer_reads() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        for tcp in [false, true] {
            let bytes = pattern(1, 20_000_000);
            let (conn, peer): (_, Box<dyn Read + Send>) = if tcp {
                let (conn, peer) = world.tcp();
                (conn, Box::new(peer))
            } else {
                let (conn, peer) = world.pair();
                (conn, Box::new(peer))
            };
            world.send(conn, bytes.clone());
            world.settle();
            assert_eq!(world.link(conn).sent, 0);
            world.reactor.ops().shutdown_write(conn);
            let reader = std::thread::spawn(move || {
                let mut peer = peer;
                let mut back = Vec::new();
                peer.read_to_end(&mut back).unwrap();
                back
            });
            world.until(|w| w.link(conn).sent == 1);
            // `shutdown_write` came after the send, so the reader sees all of it, then the end.
            assert!(reader.join().unwrap() == bytes);
        }
    });
}

#[test]
fn a_lazy_receipt_comes_with_the_next_turn() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (conn, mut peer) = world.pair();
        world.reactor.ops().send(conn, b"lazy".to_vec(), Receipt::Lazy);
        let waker = world.reactor.waker();
        waker.wake();
        world.until(|w| w.link(conn).sent == 1);
        let mut back = [0; 4];
        peer.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"lazy");
        // Once with prompt receipts and once hastened: without any other event.
        world.send(conn, "prompt");
        world.until(|w| w.link(conn).sent == 2);
        world.reactor.ops().send(conn, b"hasty".to_vec(), Receipt::Lazy);
        world.reactor.ops().hasten();
        world.until(|w| w.link(conn).sent == 3);
    });
}

#[test]
fn a_buffer_comes_back_with_its_capacity() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (conn, mut peer) = world.pair();
        let mut buffer = Vec::with_capacity(5000);
        buffer.extend_from_slice(b"hello");
        let place = buffer.as_ptr();
        world.send(conn, buffer);
        world.until(|w| w.link(conn).sent == 1);
        assert_eq!(world.link(conn).outgoing.capacity(), 5000);
        assert_eq!(world.link(conn).outgoing.as_ptr(), place);
        world.send(conn, Vec::new());
        world.until(|w| w.link(conn).sent == 2);
        let mut back = [0; 5];
        peer.read_exact(&mut back).unwrap();
    });
}

#[test]
fn sending_to_a_peer_that_is_gone_fails_once() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (conn, peer) = world.pair();
        drop(peer);
        world.until(|w| w.link(conn).eof);
        world.send(conn, vec![5; 100]);
        world.until(|w| w.link(conn).failed.is_some());
        let error = world.link(conn).failed.as_ref().unwrap().kind();
        assert_eq!(error, std::io::ErrorKind::BrokenPipe);
        world.reactor.ops().close(conn);
        world.until(|w| w.link(conn).closed == 1);
    });
}

#[test]
#[should_panic(expected = "one send at a time")]
fn two_sends_at_once_are_a_mistake() {
    let mut world = World::new(crate::engines()[0].1.clone());
    let (conn, _peer) = world.pair();
    world.send(conn, vec![0; 10_000_000]);
    world.send(conn, vec![0; 10]);
}
