//! The cost of a permission check: `cargo run --release -p pantala-acl --example permission_cost
//! [CHECKS]`.
//!
//! For each kind of user the nanoseconds of one GET of one key; under callgrind, instructions.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use pantala_acl::{
    Access, AccessRequest, Catalogue, CatalogueEntry, Categories, Category, Database,
    DefaultChannels, Users,
};

const USERS: [(&str, &[&str]); 4] = [
    ("one bit, all keys", &["+get", "allkeys", "db=0"]),
    ("a pattern", &["+get", "~shop:*"]),
    (
        "the tenth pattern",
        &["+get", "~a*", "~b*", "~c*", "~d*", "~e*", "~f*", "~g*", "~h*", "~i*", "~shop:*"],
    ),
    ("the second selector", &["+set", "~a*", "(+get ~shop:*)"]),
];

fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5_000_000);
    let entry = |number: u16| CatalogueEntry {
        name: ["get".into(), "set".into(), format!("other{number}")][usize::from(number.min(2))]
            .clone(),
        categories: Categories::NONE.with(Category::Fast),
        is_open: false,
    };
    let users = Users::new(Arc::new(Catalogue::new((0..400).map(entry).collect())));
    for (name, rules) in USERS {
        let rules: Vec<&[u8]> = rules.iter().map(|rule| rule.as_bytes()).collect();
        let users = users.with_rules(b"anna", &rules, DefaultChannels::None).expect("right rules");
        let user = users.find(b"anna").expect("just made");
        let command = users.catalogue().find(b"get").expect("the first");
        let start = Instant::now();
        for _ in 0..count {
            let request = AccessRequest {
                command,
                args: black_box(&[b"GET", b"shop:user:1234567"]),
                keys: &[(1, Access::READ)],
                channels: &[],
                databases: &[(0, Database::One(0))],
            };
            assert!(black_box(user.check(&request)).is_ok());
        }
        let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(count);
        println!("{name}: {ns:.1} ns");
    }
}
