//! Random runs: a seeded set of peers, and a caller that does anything that is allowed at any
//! moment. Checked throughout: every stream is what its writer wrote, in order; every close and
//! detach is answered once.

use crate::on_every_engine;
use crate::world::World;
use pantala_reactor::{ReactorConfig, Receipt, Token};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const STEPS: usize = 5_000;
const CROWD: usize = 12;

struct Chance(u64);

impl Chance {
    /// A random number below `bound`; xorshift.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}

fn byte(seed: usize, place: usize) -> u8 {
    (place.wrapping_mul(31) ^ (place >> 8) ^ seed) as u8
}

fn bytes(seed: usize, from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(|place| byte(seed, place)).collect()
}

/// Both ends of one connection and the progress of each stream.
struct Pair {
    seed: usize,
    conn: Token,
    peer: Option<UnixStream>,
    peer_ended: bool,
    peer_wrote: usize,
    we_got: usize,
    we_sent: usize,
    peer_read: usize,
    we_shut: bool,
    leaving: bool,
}

impl Pair {
    fn new(world: &mut World, seed: usize) -> Pair {
        let (conn, peer) = world.pair();
        peer.set_nonblocking(true).unwrap();
        Pair {
            seed,
            conn,
            peer: Some(peer),
            peer_ended: false,
            peer_wrote: 0,
            we_got: 0,
            we_sent: 0,
            peer_read: 0,
            we_shut: false,
            leaving: false,
        }
    }

    fn peer_writes(&mut self, count: usize) {
        let Some(peer) = &mut self.peer else { return };
        if self.peer_ended {
            return;
        }
        match peer.write(&bytes(self.seed, self.peer_wrote, count)) {
            Ok(written) => self.peer_wrote += written,
            Err(error) => assert!(
                matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::BrokenPipe),
                "{error}"
            ),
        }
    }

    fn peer_reads(&mut self, count: usize) {
        let Some(peer) = &mut self.peer else { return };
        let mut buffer = vec![0; count];
        // A reset may follow when we closed with unread data.
        let Ok(read) = peer.read(&mut buffer) else { return };
        assert!(buffer[..read] == bytes(!self.seed, self.peer_read, read), "to the peer");
        self.peer_read += read;
        assert!(self.peer_read <= self.we_sent);
    }

    /// Checks the bytes that the world has received on our connection.
    fn check_received(&mut self, world: &mut World) {
        let link = world.links.get_mut(&self.conn).unwrap();
        let received = std::mem::take(&mut link.received);
        assert!(received == bytes(self.seed, self.we_got, received.len()), "from the peer");
        self.we_got += received.len();
        assert!(self.we_got <= self.peer_wrote);
        if link.eof {
            assert!(self.peer_ended, "an end that nobody made");
            let whole = self.peer.is_some();
            assert!(!whole || self.we_got == self.peer_wrote, "an end before the end");
        }
    }

    fn we_act(&mut self, world: &mut World, chance: &mut Chance) {
        let link = world.links.get_mut(&self.conn).unwrap();
        let receipt = if chance.below(2) == 0 { Receipt::Lazy } else { Receipt::Prompt };
        let mut ops = world.reactor.ops();
        match chance.below(40) {
            0..20 if !link.sending && !self.we_shut && !self.leaving => {
                let most = [10, 1000, 300_000][chance.below(3)];
                let count = chance.below(most);
                link.sending = true;
                ops.send(self.conn, bytes(!self.seed, self.we_sent, count), receipt);
                self.we_sent += count;
            }
            20..27 => ops.pause_reading(self.conn),
            27..35 => ops.resume_reading(self.conn),
            35 if !self.leaving => {
                ops.shutdown_write(self.conn);
                self.we_shut = true;
            }
            36 => {
                ops.close(self.conn);
                self.leaving = true;
            }
            37..39 => {
                ops.detach(self.conn);
                self.leaving = true;
            }
            _ => ops.hasten(),
        }
    }

    fn peer_acts(&mut self, chance: &mut Chance) {
        let most = [10, 1000, 100_000][chance.below(3)];
        match chance.below(60) {
            0..25 => self.peer_writes(chance.below(most) + 1),
            25..57 => self.peer_reads(chance.below(most) + 1),
            57 => {
                if let Some(peer) = &self.peer {
                    // Fails when our end is closed.
                    let _ = peer.shutdown(Shutdown::Write);
                    self.peer_ended = true;
                }
            }
            58 if chance.below(3) == 0 => {
                self.peer = None;
                self.peer_ended = true;
            }
            _ => {}
        }
    }

    /// A socket detached from the reactor is added again as another connection, or is replaced by a
    /// new pair.
    fn renew(&mut self, world: &mut World, seed: usize) {
        let link = world.links.get_mut(&self.conn).unwrap();
        if let Some(socket) = link.detached.take() {
            world.links.remove(&self.conn);
            self.conn = world.adopt(socket);
            self.leaving = false;
        } else if link.closed == 1 {
            world.links.remove(&self.conn);
            *self = Pair::new(world, seed);
        }
    }
}

fn crowd(config: ReactorConfig, seed: u64) {
    let mut world = World::new(config);
    let mut chance = Chance(seed);
    let mut pairs: Vec<Pair> = (0..CROWD).map(|seed| Pair::new(&mut world, seed)).collect();
    for step in 0..STEPS {
        let pair = &mut pairs[chance.below(CROWD)];
        match chance.below(3) {
            0 => pair.we_act(&mut world, &mut chance),
            1 => pair.peer_acts(&mut chance),
            _ => {
                world.turn(Some(Duration::ZERO));
                for pair in &mut pairs {
                    pair.check_received(&mut world);
                    pair.renew(&mut world, step);
                }
            }
        }
    }
    for pair in &mut pairs {
        world.reactor.ops().close(pair.conn);
    }
    while world.reactor.connection_count() > 0 {
        world.turn(Some(Duration::from_secs(60)));
    }
    let unanswered = |link: &crate::world::Link| link.closed != 1 && link.detached.is_none();
    assert_eq!(world.links.values().filter(|link| unanswered(link)).count(), 0);
}

#[test]
fn anything_at_any_moment() {
    on_every_engine(|config| {
        let scarce =
            ReactorConfig { buffer_count: 2, buffer_bytes: 100, turn_bytes: 200, ..config.clone() };
        let narrow =
            ReactorConfig { submission_entries: 2, completion_entries: 4, ..config.clone() };
        let rounds: u64 =
            std::env::var("REACTOR_TEST_ROUNDS").map_or(2, |rounds| rounds.parse().unwrap());
        for seed in 1..=rounds {
            for config in [&config, &scarce, &narrow] {
                crowd(config.clone(), seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            }
        }
    });
}
