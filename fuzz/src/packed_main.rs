//! `fuzz_packed --seconds N --seed S`: packed elements from anywhere, and random changes of them.
//!
//! A case damages the bytes of some elements: accepted ones are whole, read the same from both
//! ends, and are the same when re-encoded. Then it applies the same changes to a buffer and a list
//! of texts, and to a list whose chunks are folded or compressed.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use pantala_base::Rng;
use pantala_values::List;
use pantala_values::list::{End, Fill, ListEnd};
use pantala_values::packed::{Element, Packed};

fn main() -> std::process::ExitCode {
    pantala_fuzz::run("fuzz_packed", case)
}

fn case(seed: u64) {
    let mut rng = Rng::from_seed(seed);
    let mut model: Vec<Vec<u8>> = (0..rng.below(20)).map(|_| text(&mut rng)).collect();
    let mut packed = Packed::new();
    for text in &model {
        packed.push(Element::of(text));
    }
    damage(&mut rng, packed.view().bytes());
    for _ in 0..rng.below(60) {
        change(&mut rng, &mut packed, &mut model);
        assert_eq!(texts(&packed), model);
        assert_eq!(packed.len(), model.len());
    }
    chunks(&mut rng);
}

/// A list of several chunks, most of which are not plain.
fn chunks(rng: &mut Rng) {
    let size = [2, 5, 40, -1, -2][rng.below(5) as usize];
    let fill = Fill::new(size).compressing(rng.below(3) as u32);
    // From one alphabet and of one length, or of several.
    let (symbols, most) = (1 + rng.below(256), 1 + rng.below(200));
    let shortest = most - rng.below(2) * rng.below(most);
    let (mut list, mut model) = (List::default(), VecDeque::new());
    for _ in 0..rng.below(1500) {
        let len = shortest + rng.below(most - shortest + 1);
        let text: Vec<u8> = (0..len).map(|_| rng.below(symbols) as u8).collect();
        let end = if rng.below(3) == 0 { End::Head } else { End::Tail };
        list.grow(text.len(), 1, fill);
        list.push(end, Element::of(&text));
        match end {
            End::Head => model.push_front(text),
            End::Tail => model.push_back(text),
        }
    }
    for _ in 0..rng.below(20).min(model.len() as u64) {
        let index = rng.below(model.len() as u64) as usize;
        let one = text(rng);
        list.grow(one.len(), 1, fill);
        if rng.below(2) == 0 {
            list.replace(index, Element::of(&one));
            model[index] = one;
        } else {
            list.insert(index, ListEnd::Backward, Element::of(&one));
            model.insert(index, one);
        }
    }
    let mut seen = Vec::with_capacity(model.len());
    list.visit(0, ListEnd::Forward, |element| {
        seen.push(element.to_vec());
        ControlFlow::Continue(())
    });
    assert_eq!(model, seen);
    for _ in 0..20.min(model.len()) {
        let index = rng.below(model.len() as u64) as usize;
        assert_eq!(list.at(index, |element| element.to_vec()).as_ref(), model.get(index));
        let found = list.find(Element::of(&model[index]), usize::MAX);
        assert_eq!(found, Some(model.iter().position(|text| *text == model[index])));
    }
    while let Some(text) = model.pop_front() {
        list.pop(End::Head, |element| assert_eq!(element.to_vec(), text));
    }
}

fn text(rng: &mut Rng) -> Vec<u8> {
    let mut text = vec![0; [0, 1, 5, 63, 64, 127, 4095, 4096][rng.below(8) as usize]];
    match rng.below(4) {
        0 => (rng.next_u64() as i64 >> rng.below(64)).to_string().into_bytes(),
        1 => format!("0{}", rng.below(1000)).into_bytes(),
        _ => {
            rng.bytes(&mut text);
            text
        }
    }
}

fn texts(packed: &Packed) -> Vec<Vec<u8>> {
    packed.view().iter().map(|(_, element)| element.to_vec()).collect()
}

fn damage(rng: &mut Rng, whole: &[u8]) {
    let mut bytes = whole.to_vec();
    for _ in 0..40 {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        match rng.below(4) {
            0 if at < bytes.len() => bytes[at] = rng.next_u64() as u8,
            1 => bytes.insert(at, rng.next_u64() as u8),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
        let Some(taken) = Packed::from_untrusted(&bytes) else { continue };
        let forward = texts(&taken);
        let mut back: Vec<_> = taken.view().iter_back().map(|(_, one)| one.to_vec()).collect();
        back.reverse();
        assert_eq!(forward, back);
        let mut again = Packed::new();
        for text in &forward {
            again.push(Element::of(text));
        }
        assert_eq!(again.view().bytes(), &bytes[..]);
    }
}

fn change(rng: &mut Rng, packed: &mut Packed, model: &mut Vec<Vec<u8>>) {
    let one = text(rng);
    let index = rng.below(model.len() as u64 + 1) as usize;
    let at = packed.view().seek(index).unwrap_or(packed.entry_bytes());
    match rng.below(4) {
        0 if index < model.len() => {
            packed.replace(at, Element::of(&one));
            model[index] = one;
        }
        1 => {
            let count = rng.below(3) as usize;
            packed.remove(at, count);
            let end = (index + count).min(model.len());
            model.drain(index..end);
        }
        2 => {
            let found = packed.view().find(&one, 1, 0).map(|at| packed.view().index_of(at));
            assert_eq!(found, model.iter().position(|other| *other == one));
        }
        _ => {
            packed.insert(at, Element::of(&one));
            model.insert(index, one);
        }
    }
}
