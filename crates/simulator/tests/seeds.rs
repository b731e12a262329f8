//! Seeds of the simulator, with FAILOVER among the acts and without; a seed replays.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::catch_unwind;

use pantala_simulator::{ExtraEvents, run};

/// The seeds tried in each run of the tests.
const SEEDS: Range<u64> = 0..100;
/// The seeds tried with FAILOVER among the acts.
const SWAP_SEEDS: Range<u64> = 0..50;
/// The seeds tried with FAILOVER among the acts and answers to it that get lost.
const LOST_SEEDS: Range<u64> = 0..30;

fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("PANTALA_SIMULATOR") else { return usual };
    let (from, to) = text.split_once("..").expect("FROM..TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

/// Runs all seeds and fails if one of them finds a fault.
fn check_all(seeds: Range<u64>, more: ExtraEvents) -> BTreeMap<&'static str, u64> {
    let (mut faults, mut counts) = (Vec::new(), BTreeMap::new());
    for seed in seeds.clone() {
        let shows = seeds.end - seeds.start == 1;
        let ran = catch_unwind(|| run(seed, more, shows));
        match ran.unwrap_or_else(|_| Err(format!("seed {seed}: a panic"))) {
            Ok(tried) => {
                tried
                    .counts
                    .into_iter()
                    .for_each(|(what, more)| *counts.entry(what).or_insert(0) += more);
            }
            Err(why) => faults.push(why),
        }
    }
    println!("{counts:?}");
    let shown = &faults[..faults.len().min(10)];
    assert!(faults.is_empty(), "{} of {seeds:?}: {shown:#?}", faults.len());
    counts
}

#[test]
fn nodes_agree_whatever_happens_to_them() {
    check_all(seeds(SEEDS), ExtraEvents::Nothing);
}

#[test]
fn nodes_agree_after_roles_were_swapped() {
    let seeds = seeds(SWAP_SEEDS);
    let is_usual = seeds == SWAP_SEEDS;
    let counts = check_all(seeds, ExtraEvents::Failovers);
    assert!(!is_usual || counts.contains_key("failed over"), "{counts:?}");
}

#[test]
fn one_has_the_role_whatever_is_heard_of_it() {
    let seeds = seeds(LOST_SEEDS);
    let is_usual = seeds == LOST_SEEDS;
    let counts = check_all(seeds, ExtraEvents::LostAnswers);
    assert!(!is_usual || counts.contains_key("took over unheard"), "{counts:?}");
}

#[test]
fn a_seed_replays() {
    let more = |seed| if seed % 2 == 0 { ExtraEvents::Failovers } else { ExtraEvents::Nothing };
    let trace = |seed| run(seed, more(seed), false).expect("it goes well").trace;
    for seed in [3, 14, 31, 36] {
        assert_eq!(trace(seed), trace(seed));
    }
}
