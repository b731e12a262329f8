//! Long seeded runs of random rules: the text shown for a user means the same as the rules the user
//! was made from, and a rule that is refused changes nothing.

mod common;

use common::{rule, users};
use pantala_acl::{Access, AccessRequest, ChannelKind, Database, DefaultChannels, User, Users};
use pantala_base::Rng;

/// A user made by a few random rules; invalid rules are skipped.
fn random_users(seed: u64) -> Users {
    let mut rng = Rng::from_seed(seed);
    let mut users = users();
    for _ in 0..1 + rng.below(12) {
        let rule = rule(&mut rng, true);
        let before = users.to_text();
        match users.with_rules(b"anna", &[&rule], DefaultChannels::None) {
            Ok(next) => users = next,
            Err(_) => assert_eq!(users.to_text(), before),
        }
    }
    users
}

fn anna(users: &Users) -> &User {
    users.find(b"anna").or(users.find(b"default")).expect("there is a default user")
}

#[test]
fn what_is_shown_makes_the_same_user() {
    for seed in 0..4_000 {
        let users = random_users(seed);
        let text = users.to_text();
        let shown = String::from_utf8_lossy(&text);
        let again = users.loaded(&text, "x", DefaultChannels::None).unwrap_or_else(|errors| {
            panic!("seed {seed}: {shown}: {}", String::from_utf8_lossy(&errors))
        });
        let again = again.in_place_of(&users);
        assert_eq!(again.to_text(), text, "seed {seed}");
        assert_eq!(anna(&again), anna(&users), "seed {seed}: {shown}");
        assert_eq!(anna(&again).id(), anna(&users).id(), "seed {seed}");
        assert_eq!(anna(&again).is_unrestricted(), anna(&users).is_unrestricted(), "seed {seed}");
    }
}

#[test]
fn rules_one_by_one_and_together_are_the_same() {
    for seed in 0..2_000 {
        let mut rng = Rng::from_seed(seed);
        let rules: Vec<Vec<u8>> = (0..rng.below(8)).map(|_| rule(&mut rng, true)).collect();
        let words: Vec<&[u8]> = rules.iter().map(Vec::as_slice).collect();
        // A rule that opens a selector without closing it is joined with the rules after it, so the
        // two ways differ.
        if rules.iter().any(|rule| rule.starts_with(b"(") && !rule.ends_with(b")")) {
            continue;
        }
        let start = users();
        let together = start.with_rules(b"anna", &words, DefaultChannels::None);
        let begin =
            start.with_rules(b"anna", &[], DefaultChannels::None).expect("no rule is wrong");
        let one_by_one = words.iter().try_fold(begin, |users, rule| {
            users.with_rules(b"anna", &[rule], DefaultChannels::None)
        });
        match (together, one_by_one) {
            (Ok(one), Ok(other)) => assert_eq!(one.to_text(), other.to_text(), "seed {seed}"),
            (one, other) => assert_eq!(one.err(), other.err(), "seed {seed}"),
        }
    }
}

/// Whether the user may run a command on a key in a database.
fn asks(user: &User, users: &Users, command: &str, key: &[u8], access: Access, db: u32) -> bool {
    let command = users.catalogue().find(command.as_bytes()).expect("it is in the catalogue");
    user.check(&AccessRequest {
        command,
        args: &[b"x", key],
        keys: &[(1, access)],
        channels: &[],
        databases: &[(0, Database::One(db))],
    })
    .is_ok()
}

#[test]
fn who_is_unrestricted_may_do_everything() {
    let mut seen = 0;
    for seed in 0..4_000 {
        let users = random_users(seed);
        let user = anna(&users);
        if !user.is_unrestricted() {
            continue;
        }
        seen += usize::from(user.name() == b"anna");
        for (_, entry) in users.catalogue().iter() {
            assert!(asks(user, &users, &entry.name, b"k", Access::READ_WRITE, 3), "seed {seed}");
        }
        assert!(user.may_use_channel(b"c*", ChannelKind::Pattern), "seed {seed}");
    }
    assert!(seen > 0, "{seen}");
}

#[test]
fn what_a_selector_allows_it_allows_alone() {
    let start = users();
    let rules: &[&[u8]] = &[b"~a", b"+get", b"db=0", b"(%W~b", b"+set", b"&c)"];
    let made = start.with_rules(b"anna", rules, DefaultChannels::None).expect("right rules");
    let asks = |command, key: &str, access, db| {
        asks(anna(&made), &made, command, key.as_bytes(), access, db)
    };
    assert!(asks("get", "a", Access::READ, 0));
    assert!(asks("auth", "a", Access::READ, 0), "open to everybody");
    assert!(!asks("get", "a", Access::READ, 1), "another database");
    assert!(!asks("get", "b", Access::READ, 0), "another selector's key");
    assert!(!asks("set", "a", Access::WRITE, 0), "another selector's command");
    assert!(asks("set", "b", Access::WRITE, 7));
    assert!(!asks("set", "b", Access::READ_WRITE, 7));
    assert!(asks("get", "a", Access::NONE, 0));
    assert!(anna(&made).may_use_channel(b"c", ChannelKind::Exact));
    assert!(!anna(&made).may_use_channel(b"d", ChannelKind::Exact));
}

#[test]
fn a_file_is_read_as_a_whole_or_not_at_all() {
    let start = users();
    let errors = |text: &str| {
        let read = start.loaded(text.as_bytes(), "f", DefaultChannels::None);
        let errors = String::from_utf8(read.expect_err("it is wrong")).expect("text");
        let (list, end) = errors.split_once("WARNING: ACL").expect("it says that nothing changed");
        assert!(end.ends_with("rules was performed"), "{errors}");
        list.trim_end().to_owned()
    };
    const NO_USER: &str = "should start with user keyword followed by the username.";
    assert_eq!(errors("# x"), format!("f:1 {NO_USER}"));
    assert_eq!(errors("\n user\n"), format!("f:2 {NO_USER}"));
    assert_eq!(errors("user a\nuser a"), "WARNING: Duplicate user 'a' found on line 2.");
    assert_eq!(
        errors("user a +x -@y z ww"),
        "f:1: Error in applying operation '+x': Unknown \
        command or category name in ACL. f:1: Error in applying operation '-@y': Unknown command \
        or category name in ACL. f:1: Syntax error."
    );
    assert_eq!(errors("user a (+get"), "f:1: Unmatched parenthesis in selector definition.");
    assert_eq!(errors("user a\0b on"), "f:1: username 'a\0b' contains invalid characters.");

    let text = b"user default off\r\n\n\tuser  on \nuser a  on (+get   ~a )\n";
    let read = start.loaded(text, "f", DefaultChannels::None).expect("right lines");
    let shown = String::from_utf8(read.to_text()).expect("text");
    assert_eq!(
        shown,
        "user  on resetchannels -@all\n\
         user a on resetchannels -@all (~a resetchannels -@all +get)\n\
         user default off resetchannels -@all\n"
    );
    let read = read.loaded(b"user a on\n", "f", DefaultChannels::None).expect("right lines");
    assert!(read.default_user().is_unrestricted(), "the file does not name it");
    assert!(read.find(b"").is_none());
}

#[test]
fn passwords_and_who_is_off() {
    let with = |users: &Users, rules: &[&[u8]]| {
        users.with_rules(b"anna", rules, DefaultChannels::None).expect("right rules")
    };
    let may_enter =
        |users: &Users, password: &str| users.authenticate(b"anna", password.as_bytes()).is_some();
    let two = with(&users(), &[b"on", b">a", b">b"]);
    assert!(may_enter(&two, "a") && may_enter(&two, "b") && !may_enter(&two, "c"));
    assert!(!may_enter(&with(&two, &[b"off"]), "a"));
    assert!(!may_enter(&with(&two, &[b"<a"]), "a"));
    assert!(may_enter(&with(&two, &[b"nopass"]), "anything"));
    assert!(!may_enter(&with(&two, &[b"nopass", b"resetpass"]), ""));
    assert!(two.authenticate(b"nobody", b"a").is_none());
    let (gone, count) = two.without(&[b"anna", b"default", b"nobody"]);
    assert_eq!((gone.find(b"anna"), count), (None, 1));
    let again = with(&gone, &[]);
    assert_ne!(again.find(b"anna").map(|user| user.id()), two.find(b"anna").map(|user| user.id()));
    let shared = two.with_default_password(b"x");
    assert!(shared.authenticate(b"default", b"x").is_some());
    assert!(shared.authenticate(b"default", b"y").is_none());
}
