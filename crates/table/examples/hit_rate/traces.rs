//! Seeded traces: key numbers in the order in which the keys are used.

/// Key numbers in the order of their use.
pub type Trace = Vec<u32>;

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// SplitMix64's finisher.
pub fn mixed(number: u64) -> u64 {
    let first = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let second = (first ^ (first >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    second ^ (second >> 31)
}

/// Random ranks, the first the most popular, drawn by the cumulative distribution.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(ranks: usize, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = (1..=ranks)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        sums.iter_mut().for_each(|part| *part /= sum);
        Zipf(sums)
    }

    fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit();
        self.0.partition_point(|&sum| sum < at).min(self.0.len() - 1)
    }
}

/// A name, the trace, and the cache sizes to test, in keys.
pub type Named = (&'static str, Trace, Vec<usize>);

/// All traces, over about `keys` keys and of `requests` requests.
pub fn all(keys: usize, requests: usize) -> Vec<Named> {
    let sizes = vec![keys / 50, keys / 10];
    vec![
        ("zipf 0.7", zipf(keys, requests, 0.7), sizes.clone()),
        ("zipf 0.9", zipf(keys, requests, 0.9), sizes.clone()),
        ("zipf 1.1", zipf(keys, requests, 1.1), sizes.clone()),
        ("shifting", shifting(keys, requests), sizes.clone()),
        ("scan", scan(keys, requests), sizes.clone()),
        ("recent", recent(keys, requests), sizes),
        (
            "loop",
            (0..requests).map(|at| (at % (keys / 5)) as u32).collect(),
            vec![keys / 10, keys / 6],
        ),
        ("loop+zipf", looping(keys, requests), vec![keys / 10]),
    ]
}

fn zipf(keys: usize, requests: usize, exponent: f64) -> Trace {
    let (ranks, mut random) = (Zipf::new(keys, exponent), Random(1));
    (0..requests).map(|_| ranks.draw(&mut random) as u32).collect()
}

/// Popular keys; twenty times all of them are replaced at once.
fn shifting(keys: usize, requests: usize) -> Trace {
    let (ranks, mut random) = (Zipf::new(keys, 0.9), Random(2));
    let offset = |at: usize| at / (requests / 20) * (keys / 10);
    (0..requests).map(|at| ((ranks.draw(&mut random) + offset(at)) % keys) as u32).collect()
}

/// Long scans of keys that are never used again, between popular ones.
fn scan(keys: usize, requests: usize) -> Trace {
    let (ranks, mut random) = (Zipf::new(keys, 0.9), Random(3));
    let (mut trace, mut next, mut left) = (Trace::with_capacity(requests + 1), keys as u32, 0);
    while trace.len() < requests {
        if left > 0 {
            trace.push(next);
            (next, left) = (next + 1, left - 1);
        } else if random.below(keys as u64) == 0 {
            left = keys / 4;
        }
        trace.push(ranks.draw(&mut random) as u32);
    }
    trace
}

/// New keys are added all the time, and the newest are used most.
fn recent(keys: usize, requests: usize) -> Trace {
    let (ranks, mut random) = (Zipf::new(keys, 1.0), Random(6));
    (0..requests).map(|at| (keys + at / 10 - ranks.draw(&mut random)) as u32).collect()
}

/// Popular keys, and a loop larger than the cache.
fn looping(keys: usize, requests: usize) -> Trace {
    let (ranks, mut random, mut next) = (Zipf::new(keys, 0.9), Random(5), 0);
    let mut draw = || match random.below(2) {
        0 => {
            next = (next + 1) % (keys / 5);
            (keys + next) as u32
        }
        _ => ranks.draw(&mut random) as u32,
    };
    (0..requests).map(|_| draw()).collect()
}
