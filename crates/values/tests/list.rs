//! A list behaves like a deque of texts, in both forms and across the change between them.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use pantala_base::rng::Rng;
use pantala_values::list::{End, Fill, ListEnd};
use pantala_values::packed::Element;
use pantala_values::{Collection, List};

type Model = VecDeque<Vec<u8>>;

fn text(random: &mut Rng) -> Vec<u8> {
    match random.below(40) {
        0 => vec![b'l'; 9000],
        1 => vec![b'm'; 3000 + random.below(2000) as usize],
        2..=9 => random.below(3).to_string().into_bytes(),
        10..=14 => (random.next_u64() as i64).to_string().into_bytes(),
        15..=19 => vec![b'x'; random.below(300) as usize],
        _ => vec![b'a' + random.below(4) as u8],
    }
}

fn all(list: &List, from: usize, way: ListEnd, most: usize) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    list.visit(from, way, |element| {
        seen.push(element.to_vec());
        if seen.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    seen
}

struct Test {
    random: Rng,
    fill: Fill,
    list: List,
    model: Model,
}

impl Test {
    fn index(&mut self) -> usize {
        match self.random.below(5) {
            0 => 0,
            1 => self.model.len() - 1,
            _ => self.random.below(self.model.len() as u64) as usize,
        }
    }

    fn way(&mut self) -> ListEnd {
        if self.random.below(2) == 0 { ListEnd::Forward } else { ListEnd::Backward }
    }

    fn grow(&mut self) -> Vec<u8> {
        self.grow_by(text)
    }

    fn grow_by(&mut self, make: fn(&mut Rng) -> Vec<u8>) -> Vec<u8> {
        let text = make(&mut self.random);
        self.list.grow(text.len(), 1, self.fill);
        text
    }

    fn push(&mut self) {
        let (text, way) = (self.grow(), self.way());
        self.push_text(way, text);
    }

    /// Pushes an element: forward is at the tail, backward at the head.
    fn push_at(&mut self, way: ListEnd, make: fn(&mut Rng) -> Vec<u8>) {
        let text = self.grow_by(make);
        self.push_text(way, text);
    }

    fn push_text(&mut self, way: ListEnd, text: Vec<u8>) {
        match way {
            ListEnd::Forward => {
                self.list.push(End::Tail, Element::of(&text));
                self.model.push_back(text);
            }
            ListEnd::Backward => {
                self.list.push(End::Head, Element::of(&text));
                self.model.push_front(text);
            }
        }
    }

    fn replace(&mut self, index: usize, make: fn(&mut Rng) -> Vec<u8>) {
        let text = self.grow_by(make);
        self.list.replace(index, Element::of(&text));
        self.model[index] = text;
    }

    fn pop(&mut self) {
        let way = self.way();
        self.pop_at(way);
    }

    /// Pops an element: forward is at the tail, backward at the head.
    fn pop_at(&mut self, way: ListEnd) {
        let mut seen = Vec::new();
        let show = |element: Element<'_>| seen = element.to_vec();
        let expected = match way {
            ListEnd::Backward => {
                self.list.pop(End::Head, show);
                self.model.pop_front()
            }
            ListEnd::Forward => {
                self.list.pop(End::Tail, show);
                self.model.pop_back()
            }
        };
        assert_eq!(Some(seen), expected);
    }

    fn remove_equal(&mut self) {
        let text = text(&mut self.random);
        let most = self.random.below(4) as usize;
        let most = if most == 0 { usize::MAX } else { most };
        let way = self.way();
        let removed = self.list.remove_equal(Element::of(&text), most, way);
        let mut left = most;
        let mut keep = |one: &Vec<u8>| {
            let stays = left == 0 || *one != text;
            left -= usize::from(!stays);
            stays
        };
        let before = self.model.len();
        if way == ListEnd::Forward {
            self.model.retain(&mut keep);
        } else {
            let mut reversed: Model = std::mem::take(&mut self.model).into_iter().rev().collect();
            reversed.retain(&mut keep);
            self.model = reversed.into_iter().rev().collect();
        }
        assert_eq!(removed, before - self.model.len());
    }

    fn change(&mut self, kind: u64) {
        match kind {
            0 | 1 => self.pop(),
            2..=4 => {
                let (text, index, way) = (self.grow(), self.index(), self.way());
                self.list.insert(index, way, Element::of(&text));
                self.model.insert(index + usize::from(way == ListEnd::Forward), text);
            }
            5 | 6 => {
                let index = self.index();
                self.replace(index, text);
            }
            7 => {
                let index = self.index();
                let count = (self.random.below(6) as usize + 1).min(self.model.len() - index);
                self.list.remove(index, count);
                self.model.drain(index..index + count);
            }
            8 => self.remove_equal(),
            _ => {
                let index = self.index();
                let count = self.model.len() - index;
                if self.random.below(4) == 0 {
                    self.list.remove(index, count);
                    self.model.truncate(index);
                }
            }
        }
    }

    fn compare(&mut self) {
        assert_eq!(self.list.len(), self.model.len());
        assert_eq!(self.model, all(&self.list, 0, ListEnd::Forward, usize::MAX));
        if self.model.is_empty() {
            return;
        }
        let index = self.index();
        let found = self.list.at(index, |element| element.to_vec());
        assert_eq!(found.as_ref(), self.model.get(index));
        let wanted = self.model[index].clone();
        let first = self.model.iter().position(|text| *text == wanted);
        let found = self.list.find(Element::of(&wanted), usize::MAX);
        assert_eq!(found, Some(first));
        assert_eq!(self.list.find(Element::of(b"nowhere"), usize::MAX), Some(None));
        let some: Vec<_> = self.model.iter().skip(index).take(5).cloned().collect();
        assert_eq!(all(&self.list, index, ListEnd::Forward, 5), some);
        let back: Vec<_> = self.model.iter().take(index + 1).rev().cloned().collect();
        assert_eq!(all(&self.list, index, ListEnd::Backward, usize::MAX), back);
        assert_eq!(self.list.at(self.model.len(), |_| ()), None);
    }
}

fn check(fill: Fill, seed: u64) -> (usize, usize) {
    let random = Rng::from_seed(seed);
    let mut test = Test { random, fill, list: List::default(), model: Model::new() };
    let (mut changes, mut encoding) = (0, test.list.encoding());
    let mut longest = 0;
    for round in 0..6 {
        let grows = if round % 2 == 0 { 6 } else { 3 };
        for _ in 0..250 {
            if test.model.is_empty() || test.random.below(10) < grows {
                test.push();
            } else {
                let kind = test.random.below(11);
                test.change(kind);
                test.list.shrink(fill);
            }
            test.compare();
            changes += usize::from(encoding != test.list.encoding());
            encoding = test.list.encoding();
            longest = longest.max(test.model.len());
        }
    }
    let copy = test.list.duplicate();
    assert_eq!(test.model, all(&copy, 0, ListEnd::Forward, usize::MAX));
    assert_eq!(copy.encoding(), test.list.encoding());
    (changes, longest)
}

#[test]
fn it_does_what_a_deque_does() {
    for setting in [1, 2, 3, 5, 16, 128, -1, -2] {
        check_fill(Fill::new(setting));
    }
}

/// Uses chunks of a few elements, so that nearly all of them are compressed or folded.
#[test]
fn it_does_what_a_deque_does_when_compressed() {
    for setting in [2, 5, 16] {
        check_fill(Fill::new(setting).compressing(1));
    }
}

fn check_fill(fill: Fill) {
    let mut changes = 0;
    for seed in 0..4 {
        let (more, longest) = check(fill, seed);
        assert!(longest > 40, "{fill:?}: {longest}");
        changes += more;
    }
    assert!(changes > 2, "{fill:?}: the form changed {changes} times");
}

fn random_bytes(random: &mut Rng) -> Vec<u8> {
    let mut text = vec![0; 20];
    random.bytes(&mut text);
    text
}

fn hexadecimal(random: &mut Rng) -> Vec<u8> {
    format!("{:010x}{:010x}", random.next_u64() >> 24, random.next_u64() >> 24).into_bytes()
}

fn sentence(random: &mut Rng) -> Vec<u8> {
    format!("The element {} of a long LIST", random.below(1 << 40)).into_bytes()
}

fn few_numbers(random: &mut Rng) -> Vec<u8> {
    match random.below(20) {
        0 => random.next_u64().to_string().into_bytes(),
        _ => sentence(random),
    }
}

/// A list of many elements that grew at both ends, with a few hundred elements in a chunk.
fn long_list(fill: Fill, seed: u64, make: fn(&mut Rng) -> Vec<u8>) -> Test {
    let random = Rng::from_seed(seed);
    let mut test = Test { random, fill, list: List::default(), model: Model::new() };
    for number in 0..3500 {
        let text = make(&mut test.random);
        test.list.grow(text.len(), 1, fill);
        if number % 3 == 0 {
            test.list.push(End::Head, Element::of(&text));
            test.model.push_front(text);
        } else {
            test.list.push(End::Tail, Element::of(&text));
            test.model.push_back(text);
        }
    }
    test.compare();
    test
}

/// Memory of the list relative to its texts, in percent.
fn percent(test: &Test) -> usize {
    let bytes: usize = test.model.iter().map(Vec::len).sum();
    test.list.heap_bytes() * 100 / bytes
}

#[test]
fn the_middle_takes_less_room() {
    let fill = Fill::new(-1);
    for (make, at_most) in
        [(random_bytes as fn(&mut Rng) -> Vec<u8>, 107), (hexadecimal, 72), (sentence, 85)]
    {
        let test = long_list(fill, 1, make);
        assert!(percent(&test) <= at_most, "{} % and not {at_most} %", percent(&test));
    }
    let compressed = long_list(fill.compressing(1), 1, sentence);
    assert!(percent(&compressed) <= 65, "{} %", percent(&compressed));
}

/// Every element is changed a few times and then removed, from chunks of each form.
#[test]
fn what_lies_in_the_middle_is_the_same() {
    let forms = [(random_bytes as fn(&mut Rng) -> Vec<u8>, 0), (few_numbers, 0), (sentence, 1)];
    for (seed, (make, depth)) in forms.into_iter().enumerate() {
        let fill = Fill::new(-1).compressing(depth);
        let mut test = long_list(fill, seed as u64, make);
        for _ in 0..60 {
            let kind = test.random.below(9);
            test.change(kind);
            test.list.shrink(fill);
            test.compare();
        }
        while test.model.len() > 1 {
            let index = test.index().min(test.model.len() - 2);
            let count = (test.model.len() / 20).clamp(1, test.model.len() - index - 1);
            test.list.remove(index, count);
            test.model.drain(index..index + count);
            test.list.shrink(fill);
            test.compare();
        }
        assert_eq!(test.list.encoding(), "listpack");
    }
}

#[test]
fn it_is_used_up_from_either_end() {
    for depth in [0, 1] {
        let mut test = long_list(Fill::new(-1).compressing(depth), 7, hexadecimal);
        while test.model.len() > 1 {
            test.pop();
            test.list.shrink(test.fill);
            if test.model.len().is_multiple_of(97) {
                test.compare();
            }
        }
    }
}

/// When an end shrinks into the middle and grows again, folded chunks and changed ones lie next to
/// each other.
#[test]
fn it_grows_again_after_its_ends_were_used_up() {
    let forms = [(random_bytes as fn(&mut Rng) -> Vec<u8>, 0), (hexadecimal, 0), (sentence, 1)];
    for (make, depth) in forms {
        for way in [ListEnd::Forward, ListEnd::Backward] {
            let mut test = long_list(Fill::new(-1).compressing(depth), 3, make);
            for index in (0..test.model.len()).step_by(360) {
                test.replace(index, make);
            }
            for pops in [150, 300, 450] {
                (0..pops).for_each(|_| test.pop_at(way));
                (0..220).for_each(|_| test.push_at(way, make));
                assert_eq!(test.list.len(), test.model.len());
            }
            test.compare();
        }
    }
}

/// A list that was made without compression is compressed where it grows afterwards.
#[test]
fn the_depth_holds_from_the_next_change_on() {
    let mut test = long_list(Fill::new(-1), 1, sentence);
    let grow = |test: &mut Test, fill: Fill| {
        for _ in 0..2000 {
            let text = sentence(&mut test.random);
            test.list.grow(text.len(), 1, fill);
            test.list.push(End::Tail, Element::of(&text));
            test.model.push_back(text);
        }
        let after = percent(test);
        test.compare();
        after
    };
    let before = grow(&mut test, Fill::new(-1));
    let after = grow(&mut test, Fill::new(-1).compressing(1));
    assert!(after + 5 < before, "{before} %, {after} %");
    assert!(grow(&mut test, Fill::new(-1)) > after);
}

#[test]
fn a_collected_list_has_the_form_of_its_size() {
    let elements = |count| (0..count).map(Element::Int);
    assert_eq!(List::collect(elements(8), Fill::new(8)).encoding(), "listpack");
    assert_eq!(List::collect(elements(9), Fill::new(8)).encoding(), "quicklist");
    assert_eq!(List::collect(elements(9), Fill::new(8)).len(), 9);
    assert!(List::collect(elements(0), Fill::new(8)).is_empty());
}
