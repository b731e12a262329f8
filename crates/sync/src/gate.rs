//! The gate: exclusive access to the whole keyspace.
//!
//! Every thread that runs commands has a *slot*: a cache line of its own that says whether the
//! thread is inside a turn. A thread that needs everything at once (FLUSHALL, SWAPDB, the cut of a
//! snapshot) closes the gate, waits until every slot is outside, does its short work and opens the
//! gate again.
//!
//! ```text
//! worker:  slot = IN ; gate closed? -> slot = OUT, wait, again        one store a turn
//! closer:  gate = CLOSED ; wait until all slots are OUT ; work ; gate = OPEN
//! ```
//!
//! The slow lane may stay inside for a long time. So closing has two steps: first only the lane is
//! kept out and waited for, while the workers continue; only then are the workers stopped, for the
//! microseconds of the work itself. If a thread of the lane does not come out soon, the gate is
//! opened again for the others until it has ([`Gate::try_alone`]).
//!
//! Invariants
//! 1. Store of the slot, then load of the gate (worker); store of the gate, then load of the slots
//!    (closer), with a sequentially consistent fence between: at least one of the two sees the
//!    other.
//! 2. One closer at a time (`closers`).
//! 3. The closer is not inside with a slot of its own.
//!
//! Not here: nesting, and waiting for the gate while holding a partition (a turn holds none at its
//! start). Tests: below, and a loom model.

use crate::primitives::{AtomicU32, Condvar, Mutex, Ordering, fence, relax, relock};

/// A number of looks that never runs out.
const FOR_EVER: u32 = u32::MAX;

const OPEN: u32 = 0;
const LANE_CLOSED: u32 = 1;
const ALL_CLOSED: u32 = 2;

const OUT: u32 = 0;
const IN: u32 = 1;

/// The role of a slot; the lane is kept out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A worker: short turns.
    Worker,
    /// The slow lane: long work.
    Lane,
}

#[repr(align(64))]
struct GateSlot {
    state: AtomicU32,
    role: Role,
}

/// The gate; shared by workers, the slow lane and closers.
pub struct Gate {
    state: AtomicU32,
    workers: Box<[GateSlot]>,
    lane: Box<[GateSlot]>,
    closers: Mutex<()>,
    opened: Condvar,
    waiting: Mutex<()>,
}

/// The slots of the lane that stayed inside, by number.
#[derive(Debug, Default)]
pub struct LaneSeats(Vec<usize>);

/// Presence inside the gate; ends when dropped.
pub struct GateGuard<'g> {
    slot: &'g GateSlot,
}

impl Drop for GateGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.slot.state.store(OUT, Ordering::Release);
    }
}

impl Gate {
    /// A gate with this many slots.
    pub fn new(workers: usize, lane: usize) -> Self {
        let slots = |count, role| {
            (0..count)
                .map(|_| GateSlot { state: AtomicU32::new(OUT), role })
                .collect::<Box<[GateSlot]>>()
        };
        Gate {
            state: AtomicU32::new(OPEN),
            workers: slots(workers, Role::Worker),
            lane: slots(lane, Role::Lane),
            closers: Mutex::new(()),
            opened: Condvar::new(),
            waiting: Mutex::new(()),
        }
    }

    /// Enters on slot `index` of `role`, waiting while the gate is closed for that role. A slot
    /// belongs to one thread; the index is below the count given at the start.
    #[inline]
    pub fn enter(&self, role: Role, index: usize) -> GateGuard<'_> {
        let slot = match role {
            Role::Worker => &self.workers[index],
            Role::Lane => &self.lane[index],
        };
        if self.step_in(slot) != OPEN {
            self.wait_outside(slot);
        }
        GateGuard { slot }
    }

    /// Invariant 1, the worker's half: stores IN, then loads the gate.
    #[inline]
    fn step_in(&self, slot: &GateSlot) -> u32 {
        slot.state.store(IN, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.state.load(Ordering::Acquire)
    }

    /// Invariant 1, the closer's half: stores `closed`, then looks at the slots, at most `looks`
    /// times. Fails with the slots that are still inside.
    fn close_for(&self, closed: u32, slots: &[GateSlot], mut looks: u32) -> Result<(), LaneSeats> {
        self.state.store(closed, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut occupied = LaneSeats::default();
        for (index, slot) in slots.iter().enumerate() {
            let mut looked = 0_u32;
            while slot.state.load(Ordering::Acquire) != OUT {
                if looks == 0 {
                    occupied.0.push(index);
                    break;
                }
                looks = if looks == FOR_EVER { looks } else { looks - 1 };
                looked = looked.saturating_add(1);
                pause_after(looked);
            }
        }
        if occupied.0.is_empty() { Ok(()) } else { Err(occupied) }
    }

    #[cold]
    fn wait_outside(&self, slot: &GateSlot) {
        loop {
            slot.state.store(OUT, Ordering::Release);
            let mut waiting = relock(&self.waiting);
            while is_closed_for(slot.role, self.state.load(Ordering::Acquire)) {
                waiting = match self.opened.wait(waiting) {
                    Ok(guard) => guard,
                    Err(poisoned) => poisoned.into_inner(),
                };
            }
            drop(waiting);
            if !is_closed_for(slot.role, self.step_in(slot)) {
                return;
            }
        }
    }

    /// Runs `work` while nobody else is inside. The caller must be outside.
    pub fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        self.try_alone(FOR_EVER, work).expect("who looks for ever sees all of them outside")
    }

    /// As [`Gate::alone`], but opens the gate again without running `work` if the lane is not
    /// outside after `looks` looks.
    ///
    /// # Errors
    /// The slots that are inside.
    pub fn try_alone<R>(&self, looks: u32, work: impl FnOnce() -> R) -> Result<R, LaneSeats> {
        let _closer = relock(&self.closers);
        let _reopen = Reopen { gate: self };
        self.close_for(LANE_CLOSED, &self.lane, looks)?;
        self.close_for(ALL_CLOSED, &self.workers, FOR_EVER)?;
        Ok(work())
    }

    /// Waits until each of these slots was seen outside, with the gate open for others; false if
    /// the wait was aborted.
    pub fn await_leaving(&self, occupied: &LaneSeats, is_aborted: &dyn Fn() -> bool) -> bool {
        occupied.0.iter().all(|&index| {
            while self.lane[index].state.load(Ordering::Acquire) != OUT {
                if is_aborted() {
                    return false;
                }
                pause_after(u32::MAX);
            }
            true
        })
    }
}

/// Opens the gate again, also when the work panics.
struct Reopen<'g> {
    gate: &'g Gate,
}

impl Drop for Reopen<'_> {
    fn drop(&mut self) {
        // With the mutex held, no thread is between looking at the state and going to sleep.
        let waiting = relock(&self.gate.waiting);
        self.gate.state.store(OPEN, Ordering::Release);
        drop(waiting);
        self.gate.opened.notify_all();
    }
}

fn is_closed_for(role: Role, state: u32) -> bool {
    match state {
        OPEN => false,
        LANE_CLOSED => role == Role::Lane,
        _ => true,
    }
}

/// Turns end within microseconds; a lane may take long, so the wait soon turns into naps.
#[cfg(not(loom))]
fn pause_after(looks: u32) {
    match looks {
        0..200 => relax(),
        200..400 => std::thread::yield_now(),
        _ => std::thread::sleep(std::time::Duration::from_micros(50)),
    }
}

#[cfg(loom)]
fn pause_after(_looks: u32) {
    relax();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn alone_sees_no_half_done_turn() {
        let gate = Arc::new(Gate::new(2, 1));
        let pair = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let stop = Arc::new(AtomicU32::new(0));
        let threads: Vec<_> = [(Role::Worker, 0), (Role::Worker, 1), (Role::Lane, 0)]
            .into_iter()
            .map(|(role, index)| {
                let (gate, pair, stop) = (Arc::clone(&gate), Arc::clone(&pair), Arc::clone(&stop));
                std::thread::spawn(move || {
                    while stop.load(Ordering::Relaxed) == 0 {
                        let inside = gate.enter(role, index);
                        pair.0.fetch_add(1, Ordering::Relaxed);
                        pair.1.fetch_add(1, Ordering::Relaxed);
                        drop(inside);
                    }
                })
            })
            .collect();
        for _ in 0..300 {
            let (left, right) =
                gate.alone(|| (pair.0.load(Ordering::Relaxed), pair.1.load(Ordering::Relaxed)));
            assert_eq!(left, right);
        }
        stop.store(1, Ordering::Relaxed);
        for thread in threads {
            thread.join().expect("no panic");
        }
    }

    #[test]
    fn who_stays_inside_keeps_nobody_else_out() {
        let gate = Gate::new(1, 2);
        let long = gate.enter(Role::Lane, 0);
        let occupied = gate.try_alone(10, || panic!("not alone")).expect_err("one is inside");
        assert_eq!(occupied.0, [0]);
        drop(gate.enter(Role::Lane, 1));
        assert!(!gate.await_leaving(&occupied, &|| true));
        drop(long);
        assert!(gate.await_leaving(&occupied, &|| true));
        assert_eq!(gate.try_alone(10, || 7).ok(), Some(7));
    }

    #[test]
    fn opens_again_when_the_work_panics() {
        let gate = Gate::new(1, 0);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            gate.alone(|| panic!("inside"));
        }));
        assert!(caught.is_err());
        drop(gate.enter(Role::Worker, 0));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// loom's cell reports any moment in which the closer and a slot are inside together.
    #[test]
    fn never_together() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new((Gate::new(1, 0), UnsafeCell::new(0)));
            let other = Arc::clone(&shared);
            let thread = thread::spawn(move || {
                let inside = other.0.enter(Role::Worker, 0);
                // SAFETY: the gate under test is what makes this exclusive; loom checks it.
                other.1.with_mut(|value| unsafe { *value += 1 });
                drop(inside);
            });
            shared.0.alone(|| {
                // SAFETY: as above.
                shared.1.with_mut(|value| unsafe { *value += 1 });
            });
            thread.join().unwrap();
        });
    }
}
