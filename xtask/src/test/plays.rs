//! By which engine, workers and protocol the transcripts are played, and inside of what.
//!
//! Tests: at the foot.

use super::run::Reach;

/// One play of all transcripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Play {
    /// The I/O engine.
    pub engine: &'static str,
    /// The workers.
    pub threads: u32,
    /// The protocol: `2`, `3` or `both`.
    pub resp: &'static str,
}

/// The plays. Four have every pair of engine, workers and protocol (a fault that only three of them
/// together bring has not been seen); a long run has all eight.
pub fn plays(engines: &[&'static str], reach: Reach) -> Vec<Play> {
    if reach == Reach::Quick {
        let last = engines.last().copied();
        return last.map(|engine| Play { engine, threads: 2, resp: "both" }).into_iter().collect();
    }
    let has_all = reach == Reach::Long || engines.len() == 1;
    let mut plays = Vec::new();
    for (number, engine) in engines.iter().copied().enumerate() {
        for threads in [1, 2] {
            for (at, resp) in ["2", "3"].into_iter().enumerate() {
                if has_all || (number + threads as usize + at) % 2 == 1 {
                    plays.push(Play { engine, threads, resp });
                }
            }
        }
    }
    plays
}

/// What the transcripts are played inside of, and by which protocol. Scripts convert between the
/// two; for EXEC and for declared keys one tells as much as both.
pub fn plays_inside(reach: Reach) -> [(&'static str, &'static str); 3] {
    if reach == Reach::Long {
        [("multi", "both"), ("lua", "both"), ("lua-keys", "both")]
    } else {
        [("multi", "3"), ("lua", "both"), ("lua-keys", "2")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [&str; 2] = ["epoll", "uring"];

    #[test]
    fn four_plays_have_every_pair() {
        let usual = plays(&BOTH, Reach::Usual);
        assert_eq!(usual.len(), 4);
        let has = |is: &dyn Fn(&Play) -> bool| usual.iter().any(is);
        for engine in BOTH {
            assert!([1, 2].iter().all(|n| has(&|p| p.engine == engine && p.threads == *n)));
            assert!(["2", "3"].iter().all(|r| has(&|p| p.engine == engine && p.resp == *r)));
        }
        for threads in [1, 2] {
            assert!(["2", "3"].iter().all(|r| has(&|p| p.threads == threads && p.resp == *r)));
        }
    }

    #[test]
    fn a_long_run_has_all_and_a_quick_one_the_last_engine() {
        assert_eq!(plays(&BOTH, Reach::Long).len(), 8);
        assert_eq!(plays(&["epoll"], Reach::Usual).len(), 4);
        let quick = [Play { engine: "uring", threads: 2, resp: "both" }];
        assert_eq!(plays(&BOTH, Reach::Quick), quick);
        assert_eq!(plays(&["epoll"], Reach::Quick)[0].engine, "epoll");
    }

    #[test]
    fn scripts_are_played_by_both_protocols() {
        for reach in [Reach::Usual, Reach::Long] {
            assert!(plays_inside(reach).contains(&("lua", "both")));
        }
        assert!(plays_inside(Reach::Long).iter().all(|(_, resp)| *resp == "both"));
    }
}
