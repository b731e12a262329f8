//! Publish and subscribe without connections: threads play workers and publishers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use pantala_commands::ServicePlace;
use pantala_protocol::Version;

use super::name::SubscriberId;
use super::{IN_TRANSIT, Kind, PubSub, WakeSet};

fn place(worker: u16, connection: u64) -> ServicePlace {
    ServicePlace { worker, connection }
}

/// Takes a worker's queue: the receivers and the bytes.
fn deliver(pubsub: &PubSub, worker: u16) -> Vec<(u64, String)> {
    let subscribers = &pubsub.subscribers[usize::from(worker)];
    let inside = subscribers.lock();
    let mut told = Vec::new();
    while let Some(message) = subscribers.take() {
        inside.deliver(&message, |SubscriberId(subscriber_id), pattern| {
            let mut bytes = Vec::new();
            message.write(&mut bytes, Version::Resp3, pattern);
            told.push((subscriber_id, String::from_utf8(bytes).expect("text")));
        });
    }
    told
}

fn publish(pubsub: &PubSub, channel: &str, message: &str) -> usize {
    pubsub.leave(Kind::Channel, channel.as_bytes(), message.as_bytes(), &mut WakeSet::default())
}

fn message(channel: &str, message: &str) -> String {
    let (channel_len, len) = (channel.len(), message.len());
    format!(">3\r\n$7\r\nmessage\r\n${channel_len}\r\n{channel}\r\n${len}\r\n{message}\r\n")
}

#[test]
fn who_comes_later_gets_nothing_of_before() {
    let pubsub = PubSub::default();
    assert!(pubsub.subscribe(place(0, 1), Kind::Channel, b"a"));
    assert!(!pubsub.subscribe(place(0, 1), Kind::Channel, b"a"));
    assert_eq!(publish(&pubsub, "a", "1"), 1);
    assert!(pubsub.subscribe(place(0, 2), Kind::Channel, b"a"));
    assert!(pubsub.subscribe(place(0, 3), Kind::Pattern, b"[a]"));
    assert_eq!(publish(&pubsub, "a", "2"), 3);
    let pattern = ">4\r\n$8\r\npmessage\r\n$3\r\n[a]\r\n$1\r\na\r\n$1\r\n2\r\n".to_owned();
    let expected = [(1, message("a", "1")), (1, message("a", "2")), (2, message("a", "2"))];
    assert_eq!(deliver(&pubsub, 0), [&expected[..], &[(3, pattern)]].concat());
    assert_eq!(publish(&pubsub, "b", "3"), 0);
}

#[test]
fn nothing_is_left_of_who_has_gone() {
    let pubsub = PubSub::default();
    for subscriber_id in 0..100 {
        for name in 0..20 {
            let name = format!("name{}", name * subscriber_id % 37);
            pubsub.subscribe(
                place(subscriber_id as u16 % 3, subscriber_id),
                Kind::Channel,
                name.as_bytes(),
            );
            pubsub.subscribe(
                place(subscriber_id as u16 % 3, subscriber_id),
                Kind::Pattern,
                name.as_bytes(),
            );
        }
        pubsub.subscribe(
            place(subscriber_id as u16 % 3, subscriber_id),
            Kind::SlotChannel,
            b"slot",
        );
    }
    assert_eq!((pubsub.client_count(), pubsub.count(Kind::Channel)), (100, 37));
    assert_eq!(pubsub.subscribers(Kind::SlotChannel, b"slot"), 100);
    (0..100)
        .for_each(|subscriber_id| pubsub.forget(place(subscriber_id as u16 % 3, subscriber_id)));
    let counts = [Kind::Channel, Kind::Pattern, Kind::SlotChannel].map(|kind| pubsub.count(kind));
    assert_eq!((pubsub.client_count(), counts), (0, [0; 3]));
    assert_eq!(publish(&pubsub, "name1", "x"), 0);
}

#[test]
fn every_message_reaches_as_many_as_it_was_counted_for() {
    let pubsub = PubSub::default();
    let (counted, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let told: usize = thread::scope(|scope| {
        let worker = |worker: u16| {
            let mut told = 0;
            for subscriber_id in 0..300 {
                let kind = if subscriber_id % 3 == 0 { Kind::Pattern } else { Kind::Channel };
                pubsub.subscribe(place(worker, subscriber_id), kind, b"channel");
                told += deliver(&pubsub, worker).len();
            }
            while !is_over.load(Ordering::Acquire) {
                told += deliver(&pubsub, worker).len();
            }
            told + deliver(&pubsub, worker).len()
        };
        let publisher = || {
            for _ in 0..2000 {
                counted.fetch_add(publish(&pubsub, "channel", "message"), Ordering::Relaxed);
            }
        };
        let workers = [0, 1].map(|at| scope.spawn(move || worker(at)));
        let publishers = [scope.spawn(publisher), scope.spawn(publisher)];
        publishers.into_iter().for_each(|one| one.join().expect("a publisher"));
        is_over.store(true, Ordering::Release);
        workers.into_iter().map(|one| one.join().expect("a worker")).sum()
    });
    assert_eq!(told, counted.into_inner());
}

/// The messages that one connection gets while it moves back and forth between two workers.
fn travel_around(pubsub: &PubSub, is_over: &AtomicBool) -> Vec<String> {
    let mut got = Vec::new();
    let (mut here, mut there) = (place(0, 7), place(1, 8));
    while !is_over.load(Ordering::Acquire) {
        let in_transit = place(IN_TRANSIT, 9);
        pubsub.travel(here, in_transit, Version::Resp3, || {
            got.extend(deliver(pubsub, here.worker).into_iter().map(|(_, text)| text));
        });
        thread::yield_now();
        let transit = pubsub.travel(in_transit, there, Version::Resp3, || {});
        let transit = String::from_utf8(transit.bytes).expect("text");
        let begin = transit.match_indices('>').map(|(at, _)| at);
        let ends = begin.clone().skip(1).chain([transit.len()]);
        got.extend(begin.zip(ends).map(|(begin, end)| transit[begin..end].to_owned()));
        got.extend(deliver(pubsub, there.worker).into_iter().map(|(_, text)| text));
        (here, there) = (there, here);
    }
    got.extend(deliver(pubsub, here.worker).into_iter().map(|(_, text)| text));
    got
}

#[test]
fn who_travels_misses_nothing() {
    let pubsub = PubSub::default();
    let is_over = AtomicBool::new(false);
    let channels = ["a", "b", "c"];
    for channel in channels {
        pubsub.subscribe(place(0, 7), Kind::Channel, channel.as_bytes());
    }
    let got = thread::scope(|scope| {
        let traveller = scope.spawn(|| travel_around(&pubsub, &is_over));
        for number in 0..3000 {
            assert_eq!(publish(&pubsub, channels[number % 3], &number.to_string()), 1);
        }
        is_over.store(true, Ordering::Release);
        traveller.join().expect("the traveller")
    });
    let expected: Vec<String> =
        (0..3000).map(|number| message(channels[number % 3], &number.to_string())).collect();
    assert_eq!(got, expected);
}

#[test]
fn each_bell_is_rung_once() {
    let mut wakes = WakeSet::default();
    for worker in [0, 3, 63, 64, 255, 3] {
        wakes.add(worker);
    }
    wakes.remove(63);
    assert_eq!(wakes.workers().collect::<Vec<_>>(), [0, 3, 64, 255]);
}

#[test]
fn a_full_queue_keeps_only_whom_its_messages_were_meant_for() {
    let pubsub = PubSub::default();
    pubsub.subscribe(place(0, 1), Kind::Channel, b"a");
    pubsub.subscribe(place(0, 2), Kind::Pattern, b"[ab]");
    let long = "x".repeat(1 << 20);
    for _ in 0..70 {
        assert_eq!(publish(&pubsub, "a", &long), 2);
    }
    assert_eq!(publish(&pubsub, "b", "x"), 1);
    let subscribers = &pubsub.subscribers[0];
    let (mut told, mut lost) = (0, Vec::new());
    while let Some(message) = subscribers.take() {
        subscribers.lock().deliver(&message, |SubscriberId(subscriber_id), _| {
            match message.is_lost {
                false => told += 1,
                true => lost
                    .push((String::from_utf8_lossy(message.channel()).into_owned(), subscriber_id)),
            }
        });
    }
    assert!((128..140).contains(&told), "{told}");
    assert_eq!(lost.len() + told, 141);
    assert_eq!(lost.last(), Some(&("b".to_owned(), 2)));
}
