//! More threads than counters: the last ones share one, and the sum is still exact. In a process of
//! its own, because they take every counter.

use std::sync::Barrier;
use std::thread;

use pantala_memory::{Counting, allocated};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const THREADS: usize = 300;
const BYTES: usize = 1 << 20;
/// Allocations of threads and the harness besides.
const OTHERS: u64 = 40 << 20;

#[test]
fn more_threads_than_counters_are_counted() {
    let (before, together) = (allocated(), Barrier::new(THREADS));
    let take = || {
        let block = vec![1_u8; BYTES];
        together.wait();
        block
    };
    let blocks: Vec<Vec<u8>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let taken = (THREADS * BYTES) as u64;
    assert!(allocated().abs_diff(before + taken) < OTHERS, "{before} {}", allocated());
    drop(blocks);
    assert!(allocated().abs_diff(before) < OTHERS, "{before} {}", allocated());
}
