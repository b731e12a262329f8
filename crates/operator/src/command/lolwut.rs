//! LOLWUT: a small picture, another one each time.

use pantala_base::rng::Rng;
use pantala_commands::{Call, Command, CommandResult, Flags, Group, options::is_word};

/// The rows of this family.
pub const ROWS: &[Command] = &[Command::read("LOLWUT", lolwut, Group::Server)
    .arity(-1)
    .flags(Flags::FAST)
    .since("5.0.0")
    .syntax("[VERSION version:int [parameter ...]]")
    .summary("Draws a picture and tells the version.")];

/// The most columns and rows of the sky.
const MOST: (i64, i64) = (160, 60);

const DRAGONFLY: [&str; 5] = [
    r"  .--.  o  .--. ",
    r" (____\(_)/____)",
    r" (____)|_|(____)",
    r"       |=|      ",
    r"        V       ",
];

fn lolwut(call: &mut Call<'_, '_>) -> CommandResult {
    let (mut columns, mut rows) = (64, 12);
    if call.args.len() >= 3 && is_word(call.args[1], "VERSION") {
        call.int(2)?;
        if call.args.len() > 3 {
            columns = call.int(3)?;
        }
        if call.args.len() > 4 {
            rows = call.int(4)?;
        }
    }
    let mut random = Rng::random();
    let mut text = draw(columns.clamp(20, MOST.0), rows.clamp(7, MOST.1), &mut random);
    text.push_str(concat!("\nPantala ver. ", env!("CARGO_PKG_VERSION"), "\n"));
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// A dragonfly somewhere over moving water.
fn draw(columns: i64, rows: i64, random: &mut Rng) -> String {
    let (columns, rows) = (columns.unsigned_abs() as usize, rows.unsigned_abs() as usize);
    let mut sky = vec![vec![b' '; columns]; rows];
    let water = b"~~~--  ";
    for line in &mut sky[rows - 2..] {
        let shift = random.below(water.len() as u64) as usize;
        for (at, cell) in line.iter_mut().enumerate() {
            *cell = water[(at + shift) % water.len()];
        }
    }
    for _ in 0..columns / 8 {
        let row = random.below(rows as u64 - 2) as usize;
        sky[row][random.below(columns as u64) as usize] = b'.';
    }
    let top = random.below((rows - 2 - DRAGONFLY.len()) as u64 + 1) as usize;
    let left = random.below((columns - DRAGONFLY[0].len()) as u64 + 1) as usize;
    for (line, shape) in sky[top..].iter_mut().zip(DRAGONFLY) {
        for (cell, byte) in line[left..].iter_mut().zip(shape.bytes()) {
            if byte != b' ' {
                *cell = byte;
            }
        }
    }
    let lines: Vec<String> =
        sky.iter().map(|line| String::from_utf8_lossy(line).trim_end().to_owned()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_holds_the_dragonfly() {
        let mut random = Rng::from_seed(7);
        for (columns, rows) in [(20, 7), (64, 12), MOST] {
            let text = draw(columns, rows, &mut random);
            assert_eq!(text.lines().count() as i64, rows);
            assert!(text.contains("|=|"), "{text}");
        }
    }
}
