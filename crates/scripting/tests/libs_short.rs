//! The fast paths of the libraries (lplibs.c) compared with the functions they replace: the results
//! are the same for any input. `cjson.new()`, `unpack_limit`, a table with a hole and struct's `!1`
//! take the slow path.

mod fake;
#[path = "libs/scripts.rs"]
mod scripts;

use fake::Bench;
use pantala_base::Rng;

/// Lua helpers that follow those of `scripts`.
const PRELUDE: &str = r#"
local long = cjson.new()
local function same(what, short, other)
  if short ~= other then error(what..': '..short..' is not '..other, 0) end
end
local function packs(v)
  -- What has keys 1 and 'x' takes the long way, and all before it as well.
  local whole, odd = cmsgpack.pack(v, {1, x = 2}), cmsgpack.pack({1, x = 2})
  same('pack', all(cmsgpack.pack(v)), all(string.sub(whole, 1, -#odd - 1)))
end
local function encodes(v)
  same('encode', all(pcall(cjson.encode, v)), all(pcall(long.encode, v)))
end
local function unpacks(s)
  -- Without the place where the next value begins.
  local function behind(ok, first, ...)
    if ok then return ok, ... end
    return ok, first
  end
  same('unpack', all(pcall(cmsgpack.unpack, s)),
    all(behind(pcall(cmsgpack.unpack_limit, s, 1000000))))
end
"#;

/// Runs `body` for each text as `ARGV[1]`.
#[track_caller]
fn agree(body: &str, texts: impl Iterator<Item = Vec<u8>>) {
    let mut bench = Bench::new();
    let script = format!("{PRELUDE} {body} return 'agreed'");
    for text in texts {
        let found = scripts::answer(&mut bench, &script, &[&text]);
        let (text, found) = (String::from_utf8_lossy(&text), String::from_utf8_lossy(&found));
        assert_eq!(found, "agreed", "{text}");
    }
}

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.next_u64() as usize % from.len()]
}

/// A number as JSON text.
fn number(rng: &mut Rng) -> String {
    let bits = rng.next_u64();
    let power = 10f64.powi((bits >> 8) as i32 % 9);
    match bits % 8 {
        0 => format!("{}", bits as i8),
        1 => format!("{}", bits as i32),
        2 => format!("{}", bits as i64 >> (bits >> 58)),
        3 => format!("{}", f64::from(bits as i32) / power),
        4 => format!("{:e}", f64::from_bits(bits)).replace("NaN", "1").replace("inf", "2"),
        5 => format!("{}", (bits >> 12) as f64 / 1e9),
        6 => format!("{}", f64::from_bits(bits >> 2 | 0x3f << 56)).replace("NaN", "1"),
        _ => pick(rng, &["-0", "0", "1e14", "99999999999999", "1E+22", "-1.50", "1e308", "0.0001"])
            .to_owned(),
    }
}

fn text(rng: &mut Rng) -> String {
    const PARTS: [&str; 16] = [
        "a",
        "name",
        "some longer text with blanks ",
        "/",
        "\\n",
        "\\\"",
        "\\\\",
        "\\u0041",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\u{e9}",
        "\u{1f600}",
        "\\u0000",
        "\u{7f}",
        "\t",
        "12345678",
    ];
    let count = rng.next_u64() % 5;
    (0..count).map(|_| pick(rng, &PARTS)).collect()
}

fn json(rng: &mut Rng, depth: u32) -> String {
    let blank = pick(rng, &["", "", "", " ", "\n\t"]);
    let count = rng.next_u64() % 7;
    let value = match rng.next_u64() % if depth > 5 { 6 } else { 10 } {
        0 => pick(rng, &["true", "false", "null"]).to_owned(),
        1..=3 => number(rng),
        4 | 5 => format!("\"{}\"", text(rng)),
        6 | 7 => {
            let items: Vec<String> = (0..count).map(|_| json(rng, depth + 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => {
            let member = |rng: &mut Rng| format!("\"{}\":{}", text(rng), json(rng, depth + 1));
            let items: Vec<String> = (0..count).map(|_| member(rng)).collect();
            format!("{{{}}}", items.join(","))
        }
    };
    format!("{blank}{value}{blank}")
}

/// The text with one byte changed, missing or repeated.
fn damaged(rng: &mut Rng, mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.is_empty() {
        return bytes;
    }
    let at = rng.next_u64() as usize % bytes.len();
    match rng.next_u64() % 4 {
        0 => bytes[at] = rng.next_u64() as u8,
        1 => drop(bytes.remove(at)),
        2 => bytes.insert(at, b"\"\\,:{}[]0e-.x\0"[rng.next_u64() as usize % 14]),
        _ => bytes.truncate(at),
    }
    bytes
}

#[test]
fn json_is_read_and_written_the_same() {
    let mut rng = Rng::from_seed(1);
    let body = "local short = all(pcall(cjson.decode, ARGV[1])) \
        same('decode', short, all(pcall(long.decode, ARGV[1]))) \
        local ok, v = pcall(long.decode, ARGV[1]) if ok then encodes(v) packs(v) end \
        encodes(ARGV[1])";
    agree(body, (0..600).map(|_| json(&mut rng, 0).into_bytes()));
    let mut rng = Rng::from_seed(2);
    agree(
        body,
        (0..600).map(|_| {
            let text = json(&mut rng, 0).into_bytes();
            damaged(&mut rng, text)
        }),
    );
}

#[test]
fn bytes_are_unpacked_the_same() {
    let mut rng = Rng::from_seed(3);
    let body = "local ok, v = pcall(long.decode, ARGV[1]) \
        if ok then unpacks(cmsgpack.pack(v, v)) end \
        unpacks(ARGV[1])";
    agree(body, (0..200).map(|_| json(&mut rng, 0).into_bytes()));
    agree(
        "unpacks(ARGV[1])",
        (0..3000).map(|_| {
            let count = rng.next_u64() % 12;
            (0..count)
                .map(|_| match rng.next_u64() {
                    tag if tag % 2 == 0 => 0xc0 | (tag >> 8) as u8 & 31 | (tag >> 16) as u8 & 32,
                    tag if tag % 4 == 1 => 0x80 | (tag >> 8) as u8 & 0x23,
                    other => (other >> 8) as u8,
                })
                .collect()
        }),
    );
}

#[test]
fn odd_tables_are_written_the_same() {
    let tables = [
        "{}",
        "{{}}",
        "{1, 2, nil, 4}",
        "{nil, 2}",
        "{1, x = 2}",
        "{x = 1, [2] = 3}",
        "{[1.5] = 1}",
        "{[1] = 'a', [2] = 'b'}",
        "{[2] = 'b'}",
        "{[100] = 1}",
        "{[-1] = 1}",
        "{[0] = 1}",
        "{[true] = 1}",
        "{[{}] = 1}",
        "{print = tostring}",
        "{tostring}",
        "{0/0}",
        "{1/0}",
        "{-1/0}",
        "{-0}",
        "0 * -1",
        "tostring",
        "nil",
        "cjson.null",
        "{cjson.null}",
        "1e300",
        "1.7e308",
        "0/0",
        "2^53",
        "-2^63",
        "2^63",
        "2^64",
        "0.1",
        "1e-5",
        "123456789.12345",
        "0.99999999999999",
        "'\\0\\127\\255'",
        "string.rep('/', 100)",
        "string.rep('ab', 40000)",
        "(function() local t = {} for i = 1, 40 do t = {t} end return t end)()",
        "(function() local t = {} for i = 1, 40 do t = {a = t} end return t end)()",
        "(function() local t = {} for i = 1, 40 do t[i] = i end t[40] = nil return t end)()",
        "(function() local t = {} for i = 1, 9 do t[i] = i end t[3] = nil return t end)()",
        "(function() local t = {} for i = 20, 1, -1 do t[i] = i end return t end)()",
        "(function() local t = {} for i = 1, 70000 do t[i] = i end return t end)()",
        "(function() local t = {} for i = 1, 20 do t['k'..i] = i end return t end)()",
        "(function() local t = {} for i = 1, 20 do t['k'..i] = i end \
            for i = 1, 19 do t['k'..i] = nil \
            end return t end)()",
        "setmetatable({}, {__index = {1, 2}})",
    ];
    for table in tables {
        agree(&format!("local v = {table} encodes(v) packs(v)"), [Vec::new()].into_iter());
    }
    agree("local t = {} t[1] = t encodes(t)", [Vec::new()].into_iter());
    let body = "same('none', all(pcall(cjson.encode)), all(pcall(long.encode))) \
        same('two', all(pcall(cjson.encode, 1, 2)), all(pcall(long.encode, 1, 2))) \
        same('number', all(pcall(cjson.decode, 12)), all(pcall(long.decode, 12))) \
        same('nil', all(pcall(cjson.decode, nil)), all(pcall(long.decode, nil)))";
    agree(body, [Vec::new()].into_iter());
}

#[test]
fn structs_are_packed_the_same() {
    const LETTERS: [&str; 24] = [
        "b", "B", "h", "H", "l", "L", "T", "i", "I", "i1", "I3", "i7", "i8", "I8", "i9", "x", "s",
        "c", "c0", "c3", "f", "d", " ", "?",
    ];
    const VALUES: [&str; 14] = [
        "0", "-1", "7.9", "-7.9", "200", "70000", "2^31", "2^63", "-2^63", "2^64", "0/0", "'text'",
        "'12'", "'a\\0b'",
    ];
    let mut rng = Rng::from_seed(4);
    for _ in 0..400 {
        let count = 1 + rng.next_u64() % 5;
        let letters: String = (0..count)
            .map(|_| pick(&mut rng, &["", "<", ">"]).to_owned() + pick(&mut rng, &LETTERS))
            .collect();
        let values: Vec<&str> = (0..count).map(|_| pick(&mut rng, &VALUES)).collect();
        let values = values.join(", ");
        let start = pick(&mut rng, &["1", "2", "5", "100", "1.5", "-1", "nil"]);
        let body = format!(
            "local f = '{letters}' \
             same('pack', all(pcall(struct.pack, f, {values})), \
                all(pcall(struct.pack, '!1'..f, {values}))) \
             local ok, s = pcall(struct.pack, f, {values}) s = ok and s or 'abcdefg\\255ijk\\0' \
             for i = 0, 2 do s = s..string.rep(string.char(200 + i), i) \
             same('unpack', all(pcall(struct.unpack, f, s, {start})), \
                all(pcall(struct.unpack, '!1'..f, s, {start}))) end"
        );
        agree(&body, [Vec::new()].into_iter());
    }
}

#[test]
fn what_is_set_holds() {
    let body = "cjson.encode_max_depth(1) \
        same('depth', all(pcall(cjson.encode, {{1}})), \
            all(false, 'Cannot serialise, excessive nesting (2)')) \
        cjson.decode_max_depth(1) \
        same('depth', all(pcall(cjson.decode, '[[1]]')), \
            all(false, 'Found too many nested data structures (2) at character 2')) \
        cjson.encode_max_depth(9) cjson.encode_number_precision(3) \
        same('precision', cjson.encode({1.23456}), '[1.23]')";
    agree(body, [Vec::new()].into_iter());
}
