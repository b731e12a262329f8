//! `fuzz_lua_libs --seconds N --seed S`: the libraries of scripts with arguments from anywhere.
//!
//! A case passes damaged JSON, MessagePack, formats and numbers to every function, in a VM with the
//! scripts' environment. Each call gives a value or an error, never a panic. Decoded values are
//! encoded, decoded and encoded again: the second text is as long as the first (members may change
//! places).

use std::cell::RefCell;
use std::sync::Arc;

use pantala_base::Rng;
use pantala_protocol::Version;
use pantala_scripting::{Abort, LogLevel, Script, ScriptHost, Vm, VmLimits};

/// ARGV: JSON, MessagePack, a format, bytes, three numbers.
const BODY: &str = r#"
local json, packed, format, bytes = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local a, b, c = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local wrong = {}
local function again(name, encode, decode, v, same_length)
    local ok, first = pcall(encode, v)
    if not ok then return end
    local read, w = pcall(decode, first)
    local wrote, second = pcall(encode, w)
    if not (read and wrote) or same_length and #first ~= #second then wrong[#wrong + 1] = name end
end
local c2 = cjson.new()
pcall(c2.encode_sparse_array, a > 0, b, c)
pcall(c2.encode_max_depth, b)
pcall(c2.encode_number_precision, c)
pcall(c2.encode_invalid_numbers, ({'on', 'off', 'null', 'x'})[a % 4 + 1])
pcall(c2.decode_invalid_numbers, a > 0)
pcall(c2.decode_max_depth, c)
for _, text in ipairs({json, bytes}) do
    local ok, v = pcall(cjson.decode, text)
    if ok then
        again('cjson', cjson.encode, cjson.decode, v, true)
        -- null and what is too deep become nil there, and arrays with holes are maps.
        again('cmsgpack', cmsgpack.pack, cmsgpack.unpack, v, false)
        pcall(c2.encode, v)
    end
    pcall(c2.decode, text)
end
for _, text in ipairs({packed, bytes}) do
    local found = {pcall(cmsgpack.unpack, text)}
    for i = 2, found[1] and #found or 0 do
        pcall(cjson.encode, found[i])
        pcall(c2.encode, found[i])
        pcall(cmsgpack.pack, found[i])
    end
    pcall(cmsgpack.unpack_one, text, a)
    pcall(cmsgpack.unpack_limit, text, b, c)
end
local ok, laid = pcall(struct.pack, format, a, b, c, bytes, a, b, bytes, json)
if ok then pcall(struct.unpack, format, laid) end
pcall(struct.unpack, format, bytes)
pcall(struct.unpack, format, bytes, a)
pcall(struct.size, format)
pcall(struct.size, bytes)
for _, name in ipairs({'tobit', 'bnot', 'bswap', 'band', 'bor', 'bxor', 'lshift', 'rshift',
        'arshift', 'rol', 'ror', 'tohex'}) do
    pcall(bit[name], a, b, c)
    pcall(bit[name], bytes)
end
return table.concat(wrong, ', ')
"#;

struct Nobody;

impl ScriptHost for Nobody {
    fn call(&mut self, _: &[&[u8]], _: Version, _: &mut Vec<u8>) -> Result<(), Abort> {
        Err(Abort)
    }

    fn may_run(&mut self, _: &[&[u8]]) -> Result<bool, Vec<u8>> {
        Ok(false)
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn tell(&mut self, _: bool, _: bool) {}

    fn tick(&mut self, _: u64) -> Result<(), Abort> {
        Ok(())
    }
}

thread_local! {
    static VM: RefCell<Option<(Vm, Arc<Script>)>> = const { RefCell::new(None) };
}

fn main() -> std::process::ExitCode {
    pantala_fuzz::run("fuzz_lua_libs", case)
}

fn case(seed: u64) {
    let mut rng = Rng::from_seed(seed);
    // Taken out, so that a panic leaves no VM for the next case.
    let (mut vm, script) = VM.take().unwrap_or_else(fresh);
    for _ in 0..20 {
        let arguments = arguments(&mut rng);
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        let mut reply = Vec::new();
        let ran = vm.run(&script, &[], &arguments, Version::Resp2, &mut Nobody, &mut reply);
        let reply = String::from_utf8_lossy(&reply).into_owned();
        assert!(ran.is_ok());
        assert!(reply == "$0\r\n\r\n" || reply.contains("not enough memory"), "{reply}");
    }
    VM.set(Some((vm, script)));
}

fn fresh() -> (Vm, Arc<Script>) {
    let script = Script::new(BODY.as_bytes());
    let Ok(script) = script else { panic!("the script has no shebang") };
    (Vm::new(VmLimits { memory_bytes: 32 << 20, ..VmLimits::default() }), Arc::new(script))
}

fn arguments(rng: &mut Rng) -> [Vec<u8>; 7] {
    let mut json = Vec::new();
    push_json(rng, &mut json, 0);
    damage(rng, &mut json);
    let mut packed = Vec::new();
    for _ in 0..rng.below(4) {
        push_packed(rng, &mut packed, 0);
    }
    damage(rng, &mut packed);
    let bytes = bytes(rng, 40);
    [json, packed, format(rng), bytes, number(rng), number(rng), number(rng)]
}

fn one<'a>(rng: &mut Rng, texts: &[&'a str]) -> &'a str {
    texts[rng.below(texts.len() as u64) as usize]
}

fn bytes(rng: &mut Rng, len_max: u64) -> Vec<u8> {
    let mut bytes = vec![0; rng.below(len_max) as usize];
    rng.bytes(&mut bytes);
    bytes
}

fn number(rng: &mut Rng) -> Vec<u8> {
    match rng.below(4) {
        0 => one(
            rng,
            &[
                "0",
                "1",
                "-1",
                "8",
                "14",
                "1000",
                "2147483647",
                "2147483648",
                "-2147483648",
                "1e300",
            ],
        )
        .into(),
        1 => f64::from_bits(rng.next_u64()).to_string().into_bytes(),
        2 => (rng.next_u64() as i64 >> rng.below(64)).to_string().into_bytes(),
        _ => rng.below(70).to_string().into_bytes(),
    }
}

fn push_json(rng: &mut Rng, out: &mut Vec<u8>, depth: u64) {
    // Rarely very deep.
    if depth == 0 && rng.below(50) == 0 {
        let open = one(rng, &["[", "{\"a\":", "[1,", "[{\"b\":"]).repeat(rng.below(1200) as usize);
        out.extend_from_slice(open.as_bytes());
        return;
    }
    match rng.below(if depth < 5 { 8 } else { 5 }) {
        0 => out.extend_from_slice(&number(rng)),
        1 => out.extend_from_slice(
            one(rng, &["true", "false", "null", "inf", "nan", "+1", "0x1.8p3", "01", " 1.5e3 "])
                .as_bytes(),
        ),
        2..=4 => push_text(rng, out),
        kind => {
            let is_array = kind < 6;
            out.push(if is_array { b'[' } else { b'{' });
            for place in 0..rng.below(5) {
                if place > 0 {
                    out.push(b',');
                }
                if !is_array {
                    push_text(rng, out);
                    out.push(b':');
                }
                push_json(rng, out, depth + 1);
            }
            out.push(if is_array { b']' } else { b'}' });
        }
    }
}

fn push_text(rng: &mut Rng, out: &mut Vec<u8>) {
    const PARTS: [&str; 12] = [
        "a",
        "key",
        "\\n",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\/",
        "\u{e9}",
        " ",
        "\\\"",
        "1",
        "",
        "x",
    ];
    out.push(b'"');
    for _ in 0..rng.below(5) {
        out.extend_from_slice(one(rng, &PARTS).as_bytes());
    }
    out.push(b'"');
}

fn push_packed(rng: &mut Rng, out: &mut Vec<u8>, depth: u64) {
    if depth == 0 && rng.below(50) == 0 {
        out.extend([0x91, 0x81, 0x92][rng.below(3) as usize..].repeat(rng.below(1200) as usize));
        return;
    }
    match rng.below(if depth < 5 { 6 } else { 4 }) {
        0 => out.push(rng.next_u64() as u8),
        1 => {
            out.push(0xca + rng.below(10) as u8);
            out.extend_from_slice(&rng.next_u64().to_le_bytes()[rng.below(8) as usize..]);
        }
        2 | 3 => {
            let text = bytes(rng, 32);
            out.push(0xa0 | text.len() as u8);
            out.extend_from_slice(&text);
        }
        kind => {
            let count = rng.below(5);
            out.push(if kind == 4 { 0x90 } else { 0x80 } | count as u8);
            for _ in 0..count * if kind == 4 { 1 } else { 2 } {
                push_packed(rng, out, depth + 1);
            }
        }
    }
}

fn format(rng: &mut Rng) -> Vec<u8> {
    const PARTS: [&str; 24] = [
        ">", "<", "!", "!4", "!16", "b", "B", "h", "H", "l", "L", "T", "i", "i3", "I7", "i16",
        "i32", "f", "d", "s", "c0", "c5", "x", " ",
    ];
    let mut text = String::new();
    for _ in 0..rng.below(9) {
        text.push_str(one(rng, &PARTS));
        if rng.below(40) == 0 {
            text.push_str(one(rng, &["c2147483647", "i99999999999", "!3", "i33", "q", "~"]));
        }
    }
    text.into_bytes()
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.below(4) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        match rng.below(5) {
            0 if at < bytes.len() => bytes[at] = rng.next_u64() as u8,
            1 => bytes.insert(at, rng.next_u64() as u8),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.truncate(at),
            _ => {}
        }
    }
}
