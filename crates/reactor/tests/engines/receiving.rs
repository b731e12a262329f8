//! Receiving: sizes, order, pausing, ends, too few buffers, fairness.

use crate::on_every_engine;
use crate::world::{World, echo_peer, pattern};
use pantala_reactor::ReactorConfig;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

const SIZES: [usize; 8] = [1, 7, 4096, 16_383, 16_384, 16_385, 100_000, 10_000_000];

#[test]
fn every_size_comes_back_through_unix_and_tcp() {
    on_every_engine(|config| {
        for size in SIZES {
            let mut world = World::echo(config.clone());
            let (unix, unix_peer) = world.pair();
            let (tcp, tcp_peer) = world.tcp();
            let peers = [
                echo_peer(unix_peer, pattern(size, size)),
                echo_peer(tcp_peer, pattern(size + 1, size)),
            ];
            world.until(|w| w.link(unix).closed + w.link(tcp).closed == 2);
            peers.into_iter().for_each(|peer| peer.join().unwrap());
            assert_eq!(world.reactor.connection_count(), 0);
        }
    });
}

#[test]
fn two_thousand_connections() {
    let count: usize =
        std::env::var("REACTOR_TEST_CONNECTIONS").map_or(2000, |count| count.parse().unwrap());
    crate::processes::set_descriptor_limit(2 * count as u64 + 4096);
    on_every_engine(|config| {
        let mut world = World::echo(config);
        let mut peers: Vec<(usize, UnixStream)> = Vec::new();
        for seed in 0..count {
            let (_, mut peer) = world.pair();
            peer.write_all(&pattern(seed, 100)).unwrap();
            peers.push((seed, peer));
        }
        assert_eq!(world.reactor.connection_count(), count);
        world.until_sent(|w| w.links.values().all(|link| link.sent == 1));
        for (seed, peer) in &mut peers {
            let mut back = [0; 100];
            peer.read_exact(&mut back).unwrap();
            assert_eq!(back[..], pattern(*seed, 100));
            peer.shutdown(Shutdown::Write).unwrap();
        }
        world.until(|w| w.links.values().all(|link| link.closed == 1));
    });
}

#[test]
fn a_paused_connection_is_silent_until_resumed() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (paused, mut peer) = world.pair();
        let (other, mut other_peer) = world.pair();
        world.settle();
        world.reactor.ops().pause_reading(paused);
        world.settle();
        peer.write_all(b"later").unwrap();
        other_peer.write_all(b"now").unwrap();
        world.until(|w| w.link(other).received == b"now");
        world.settle();
        assert!(world.link(paused).received.is_empty());
        world.reactor.ops().resume_reading(paused);
        world.until(|w| w.link(paused).received == b"later");
        peer.write_all(b" again").unwrap();
        world.until(|w| w.link(paused).received == b"later again");
    });
}

#[test]
fn a_hang_up_is_told_once_a_pause_and_loses_no_bytes() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        for tcp in [false, true] {
            let (conn, mut peer): (_, Box<dyn ReadWriteEnd>) = if tcp {
                let (conn, peer) = world.tcp();
                (conn, Box::new(peer))
            } else {
                let (conn, peer) = world.pair();
                (conn, Box::new(peer))
            };
            world.settle();
            world.reactor.ops().pause_reading(conn);
            world.settle();
            peer.write_all(b"unread").unwrap();
            world.settle();
            assert_eq!(world.link(conn).hung_up, 0, "it has only written");
            peer.end();
            world.until(|w| w.link(conn).hung_up == 1);
            world.reactor.ops().pause_reading(conn);
            world.settle();
            assert_eq!(world.link(conn).hung_up, 1);
            assert!(!world.link(conn).eof && world.link(conn).received.is_empty());
            world.reactor.ops().resume_reading(conn);
            world.until(|w| w.link(conn).eof);
            assert_eq!(world.link(conn).received, b"unread");
            world.reactor.ops().pause_reading(conn);
            world.settle();
            assert_eq!(world.link(conn).hung_up, 1, "the end was told");
        }
    });
}

#[test]
fn who_hung_up_before_the_pause_is_told_of_too() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        for again in [false, true] {
            let (conn, mut peer) = world.pair();
            world.settle();
            world.reactor.ops().pause_reading(conn);
            world.settle();
            peer.write_all(&pattern(1, 100_000)).unwrap();
            drop(peer);
            world.until(|w| w.link(conn).hung_up == 1);
            if again {
                world.reactor.ops().resume_reading(conn);
                world.reactor.ops().pause_reading(conn);
                world.until(|w| w.link(conn).hung_up == 2);
            }
            world.reactor.ops().close(conn);
            world.until(|w| w.link(conn).closed == 1);
        }
    });
}

#[test]
fn a_reset_is_told_while_reading_is_paused() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (conn, mut peer) = world.tcp();
        world.settle();
        world.reactor.ops().pause_reading(conn);
        world.settle();
        peer.write_all(b"unread").unwrap();
        crate::closing::reset(peer);
        world.until(|w| w.link(conn).failed.is_some());
        let kind = world.link(conn).failed.as_ref().unwrap().kind();
        assert_eq!(kind, std::io::ErrorKind::ConnectionReset);
        world.reactor.ops().close(conn);
        world.until(|w| w.link(conn).closed == 1);
    });
}

#[test]
fn a_paused_connection_is_closed_and_given_up_at_once() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (closed, mut of_closed) = world.tcp();
        let (given, mut of_given) = world.pair();
        world.settle();
        world.reactor.ops().pause_reading(closed);
        world.reactor.ops().pause_reading(given);
        world.settle();
        of_given.write_all(b"later").unwrap();
        world.reactor.ops().close(closed);
        world.reactor.ops().detach(given);
        world.until(|w| w.link(closed).closed == 1 && w.link(given).detached.is_some());
        assert_eq!(of_closed.read_to_end(&mut Vec::new()).unwrap(), 0);
        let socket = world.links.remove(&given).unwrap().detached.unwrap();
        let again = world.adopt(socket);
        world.until(|w| w.link(again).received == b"later");
    });
}

#[test]
fn pausing_and_resuming_at_random_loses_nothing() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (conn, peer) = world.pair();
        let expected = pattern(3, 2_000_000);
        let bytes = expected.clone();
        let writer = std::thread::spawn(move || {
            let mut peer = peer;
            bytes.chunks(997).for_each(|chunk| peer.write_all(chunk).unwrap());
        });
        let mut state = 1u32;
        while world.link(conn).received.len() < expected.len() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match state >> 30 {
                0 => world.reactor.ops().pause_reading(conn),
                1 => {
                    world.reactor.ops().pause_reading(conn);
                    world.reactor.ops().resume_reading(conn);
                }
                _ => world.reactor.ops().resume_reading(conn),
            }
            world.turn(Some(std::time::Duration::ZERO));
        }
        writer.join().unwrap();
        assert!(world.link(conn).received == expected);
    });
}

#[test]
fn a_peer_that_ended_can_still_be_answered() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        for tcp in [false, true] {
            let (conn, mut peer): (_, Box<dyn ReadWriteEnd>) = if tcp {
                let (conn, peer) = world.tcp();
                (conn, Box::new(peer))
            } else {
                let (conn, peer) = world.pair();
                (conn, Box::new(peer))
            };
            peer.write_all(b"question").unwrap();
            peer.end();
            world.until(|w| w.link(conn).eof);
            assert_eq!(world.link(conn).received, b"question");
            world.send(conn, "answer");
            world.reactor.ops().shutdown_write(conn);
            world.until(|w| w.link(conn).sent == 1);
            let mut back = Vec::new();
            peer.read_to_end(&mut back).unwrap();
            assert_eq!(back, b"answer");
            world.reactor.ops().close(conn);
            world.until(|w| w.link(conn).closed == 1);
        }
    });
}

trait ReadWriteEnd: Read + Write {
    fn end(&self);
}

impl<S: crate::world::Stream> ReadWriteEnd for S {
    fn end(&self) {
        self.end_writing();
    }
}

#[test]
fn too_few_buffers_starve_nobody() {
    on_every_engine(|config| {
        // The last one has enough buffers, but starts with one in circulation.
        for (buffer_count, buffer_bytes) in [(1, 64), (2, 64), (4, 1000), (64, 64)] {
            let turn_bytes = buffer_bytes;
            let config = ReactorConfig { buffer_count, buffer_bytes, turn_bytes, ..config.clone() };
            let mut world = World::new(config);
            let mut peers = Vec::new();
            for seed in 0..50 {
                let (conn, mut peer) = world.pair();
                peer.write_all(&pattern(seed, 10_000)).unwrap();
                peers.push((seed, conn, peer));
            }
            world.until(|w| w.links.values().all(|link| link.received.len() == 10_000));
            for (seed, conn, _) in &peers {
                assert!(world.link(*conn).received == pattern(*seed, 10_000));
            }
        }
    });
}

#[test]
fn small_queues_only_cost_more_calls() {
    on_every_engine(|config| {
        let config = ReactorConfig { submission_entries: 4, completion_entries: 8, ..config };
        let mut world = World::echo(config);
        let mut peers = Vec::new();
        for seed in 0..300 {
            let (_, mut peer) = world.pair();
            peer.write_all(&pattern(seed, 500)).unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
            peers.push((seed, peer));
        }
        world.until(|w| w.links.values().all(|link| link.closed == 1));
        for (seed, peer) in &mut peers {
            let mut back = Vec::new();
            peer.read_to_end(&mut back).unwrap();
            assert!(back == pattern(*seed, 500));
        }
    });
}

#[test]
fn a_flood_does_not_keep_others_waiting() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let (flooded, flood) = world.pair();
        let (polite, mut peer) = world.pair();
        let flooder = std::thread::spawn(move || {
            let mut flood = flood;
            let bytes = vec![7; 1 << 20];
            while flood.write_all(&bytes).is_ok() {}
        });
        world.until(|w| w.link(flooded).received.len() > 1 << 20);
        for round in 1..=50 {
            peer.write_all(b"x").unwrap();
            let before = world.turns;
            world.until(|w| w.link(polite).received.len() == round);
            assert!(world.turns - before <= 3, "{} turns", world.turns - before);
            world.links.get_mut(&flooded).unwrap().received.clear();
        }
        world.reactor.ops().close(flooded);
        world.until(|w| w.link(flooded).closed == 1);
        flooder.join().unwrap();
    });
}
