//! The host is asked regularly while a script works, also where one Lua instruction is a long loop
//! inside Lua, so that a kill takes effect. Nothing here measures time: work is counted in ticks
//! and in calls of the script.

mod fake;

use fake::{ARMED_TICKS, Bench};
use pantala_scripting::VmLimits;

fn bench() -> Bench {
    Bench::with(VmLimits { memory_bytes: 160 << 20, ..VmLimits::default() })
}

/// After `build`, the single expression `work` runs nearly for ever; checks that it is ended.
#[track_caller]
fn is_ended(build: &str, work: &str) {
    let mut bench = bench();
    let body = format!("{build} redis.call('arm') local r = {work} return 'it came to its end'");
    bench.check(&body, "aborted");
    assert_eq!(bench.host.ticks, bench.host.last_tick, "{work}");
    bench.check("return 'alive'", "$5|alive|");
}

/// After `build`, the statements `work` are repeated. Checks that each round is charged enough that
/// the host is asked in it.
#[track_caller]
fn is_charged(build: &str, work: &str) {
    let mut bench = bench();
    let body = format!("{build} redis.call('arm') while true do {work} redis.call('ping') end");
    bench.check(&body, "aborted");
    assert_eq!(bench.host.ticks, bench.host.last_tick, "{work}");
    assert!(bench.host.calls <= 2 * ARMED_TICKS, "{work}: {} rounds", bench.host.calls);
    bench.check("return 'alive'", "$5|alive|");
}

/// Lua code for a table `t` of many references to `e`, which has many slots, all of them empty.
const EMPTIED_ARRAY: &str = "local e = {} for i = 1, 300000 do e[i] = i end \
    for i = 1, 300000 do e[i] = nil end local t = {} for i = 1, 100000 do t[i] = e end ";
const EMPTIED_HASH: &str = "local e = {} for i = 1, 100000 do e['k' .. i] = i end \
    for i = 1, 100000 do e['k' .. i] = nil end local t = {} for i = 1, 100000 do t[i] = e end ";

#[test]
fn long_strings_are_made_and_looked_at_in_pieces() {
    for (build, work) in [
        ("", "string.rep('x', 60000000)"),
        ("", "string.rep('abc', 20000000)"),
        ("local p = string.rep('x', 3000)", "string.rep(p, 20000)"),
        ("local p = string.rep('x', 1000000)", "string.rep(p, 60)"),
        ("local s = string.rep('x', 30000000)", "redis.sha1hex(s)"),
    ] {
        is_ended(build, work);
    }
}

#[test]
fn emptied_tables_on_their_way_out() {
    for emptied in [EMPTIED_ARRAY, EMPTIED_HASH] {
        for work in ["cjson.encode(t)", "cmsgpack.pack(t)", "cmsgpack.pack({t, [1.5] = 1})"] {
            is_ended(emptied, work);
        }
        // With this setting, Rust code does the encoding.
        is_ended(&format!("{emptied} cjson.encode_max_depth(999)"), "cjson.encode(t)");
        is_ended(&format!("{emptied} t[1] = nil"), "cjson.encode(t)");
        is_ended(&format!("{emptied} local u = {{t}} u[0] = 1"), "cjson.encode({x = u})");
        let reply = format!("{emptied} for i = 1, 100000 do t[i] = {{map = e}} end");
        is_reply_ended(&reply);
        is_reply_ended(&reply.replace("map", "set"));
    }
}

/// A script's return value is written after the script has ended; that is ended, too.
#[track_caller]
fn is_reply_ended(build: &str) {
    let mut bench = bench();
    bench.check(&format!("{build} redis.call('arm') return t"), "aborted");
    bench.check("return 'alive'", "$5|alive|");
}

#[test]
fn long_texts_in_a_reply() {
    is_reply_ended(
        "local s = string.rep('x', 10000000) local t = {} for i = 1, 100 do t[i] = s end",
    );
}

#[test]
fn long_classes_in_patterns() {
    let class =
        "local c = '[' .. string.rep('a', 1000000) .. ']' local s = string.rep('b', 100000)";
    for work in [
        "string.find(s, c)",
        "string.find(s, c .. '*x')",
        "string.find(s, c .. '-x')",
        "string.find(s, c .. '+x')",
        "string.find(s, c .. '?x')",
        "string.find(s, '%f' .. c)",
        "string.match(s, c)",
        "string.gsub(s, c, 'y')",
        "string.gmatch(s, c)()",
    ] {
        is_ended(class, work);
        is_ended(&class.replace("'['", "'[^'").replace("'b'", "'a'"), work);
    }
    // The class alone, when the match never reaches it in the subject.
    is_ended(&format!("{class} s = ''"), "string.find(string.rep(' ', 100000), ' *x?' .. c)");
}

#[test]
fn patterns_that_look_far() {
    is_ended("local s = string.rep('(', 1000000)", "string.find(s, '%b()')");
    is_ended("local s = string.rep('a', 1000000)", "string.find(s, '.-.-.-.-b')");
    is_ended("local s = string.rep('a', 1000000)", "string.find(s, '(.*)%1b')");
    is_ended(
        "local s, r = string.rep('a', 100000), string.rep('%1', 200000)",
        "string.gsub(s, '(b?)', r)",
    );
}

#[test]
fn texts_that_are_hashed_compared_or_read() {
    let long = "local s = string.rep('x', 4000000) local a, b = s .. 'a', s .. 'b'";
    is_charged(long, "local c = a < b");
    is_charged(long, "local c = a <= b");
    is_charged(long, "local c = s:sub(1, -1)");
    is_charged(&format!("{long} local t = s .. 'y'"), "local c = s .. 'y'");
    is_charged(long, "redis.sha1hex(s)");
    is_charged(long, "pcall(cjson.decode, s)");
    is_charged(long, "pcall(cmsgpack.unpack, s)");
    is_charged(long, "redis.log(redis.LOG_NOTICE, s)");
    is_charged(long, "local c = s:lower()");
    is_charged(long, "local c = s:reverse()");
    is_charged(long, "local c = string.format('%q', s)");
    is_charged(long, "string.find(s, s)");
    let digits = "local s = string.rep('1', 4000000)";
    is_charged(digits, "local c = tonumber(s)");
    is_charged(digits, "local c = tonumber(s, 2)");
    is_charged(digits, "local c = s + 1");
    is_charged("local f = string.rep(' ', 1000000)", "struct.unpack(f, '')");
    is_charged("local f = string.rep(' ', 1000000)", "struct.pack(f)");
    is_charged("local f = string.rep(' ', 1000000)", "struct.size(f)");
    is_charged("local f = string.rep(' ', 1000000) .. '?'", "pcall(struct.pack, f)");
}

#[test]
fn sorting_long_texts() {
    is_ended(
        "local s = string.rep('x', 4000000) local a, b = s .. 'a', s .. 'b' local t = {} \
         for i = 1, 100000, 2 do t[i] = a t[i + 1] = b end",
        "table.sort(t)",
    );
}

#[test]
fn lengths_and_new_sizes_of_tables() {
    // The whole array part, and behind it as far as integers reach: the length is found by
    // counting.
    let far = "local t, j = {}, 1048577 while j < 2^31 do t[j] = 1 j = 2 * j end \
        for i = 1, 1048576 do t[i] = i end";
    is_charged(far, "local n = #t");
    is_charged(far, "local n = table.getn(t)");
    is_charged(
        "local t = {} for i = 1, 1048576 do t[i] = i end local n = 0",
        "n = n + 1 for i = 1, 9 do t['k' .. n .. i] = 1 end \
         for i = 1, 9 do t['k' .. n .. i] = nil end",
    );
}

#[test]
fn source_without_tokens() {
    for source in [
        "'--' .. string.rep('x', 1000000)",
        "'--[[' .. string.rep('x', 1000000) .. ']]'",
        "string.rep(' ', 1000000)",
        "string.rep('\\n', 1000000)",
        "'return \"' .. string.rep('x', 1000000) .. '\"'",
        "'return [[' .. string.rep('x', 1000000) .. ']]'",
        "'return ' .. string.rep('x', 1000000)",
        "'return ' .. string.rep('1', 1000000)",
    ] {
        is_charged(&format!("local s = {source}"), "loadstring(s)");
    }
}

/// The host is asked also while a script or a library is compiled.
#[test]
fn compiling_is_ended() {
    let mut bench = bench();
    let body = format!("return 1 --{}", "x".repeat(1_000_000));
    bench.host.last_tick = 3;
    bench.check(&body, "aborted");
    bench.check(&body, ":1|");
    bench.host.last_tick = bench.host.ticks + 3;
    let library =
        format!("redis.register_function('f', function() end) --{}", "x".repeat(1_000_000));
    assert_eq!(bench.load(&library).err().as_deref(), Some("ERR FUNCTION LOAD timeout"));
    let library = bench.load(&library).expect("it registers");
    bench.host.last_tick = bench.host.ticks + 3;
    assert_eq!(bench.fcall(&library, "f"), "aborted");
}

/// FUNCTION LOAD of code that nothing else would stop.
#[test]
fn loading_is_ended() {
    for code in [
        "local c = '[' .. ('a'):rep(1000000) .. ']' local x = ('b'):rep(100000):find(c)",
        "local function c() end local f = {} local i = 1 while i < 10000 do f[i] = 'no-writes' \
            i = i + 1 end while true do \
            redis.register_function{function_name = 'f', callback = c, flags = f} end",
        "local function c() end local s = ('x'):rep(1000000) while true do \
            redis.register_function{function_name = 'f', callback = c, description = s} end",
    ] {
        let mut bench = bench();
        bench.host.last_tick = ARMED_TICKS;
        assert_eq!(bench.load(code).err().as_deref(), Some("ERR FUNCTION LOAD timeout"), "{code}");
        assert_eq!(bench.host.ticks, ARMED_TICKS);
    }
}

/// Texts of eight bytes with the same hash: for any first word there is a second one that leads to
/// it (MurmurHash3 has no secret seed here).
fn of_one_hash(count: u32) -> Vec<Vec<u8>> {
    const FACTORS: (u32, u32) = (0xCC9E_2D51, 0x1B87_3593);
    let inverse =
        |odd: u32| (0..5).fold(odd, |x, _| x.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(x))));
    let mixed = |word: u32| word.wrapping_mul(FACTORS.0).rotate_left(15).wrapping_mul(FACTORS.1);
    let unmixed = |word: u32| {
        word.wrapping_mul(inverse(FACTORS.1)).rotate_right(15).wrapping_mul(inverse(FACTORS.0))
    };
    let texts = (0..count).map(|first| {
        let after = (8 ^ mixed(first)).rotate_left(13).wrapping_mul(5).wrapping_add(0xE654_6B64);
        // The second word makes the hash state the same for all texts.
        let second = unmixed(after);
        [first.to_le_bytes(), second.to_le_bytes()].concat()
    });
    texts.collect()
}

#[test]
fn texts_of_one_hash() {
    let texts = of_one_hash(20_000);
    let args: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let mut bench = bench();
    bench.host.last_tick = ARMED_TICKS;
    assert_eq!(bench.eval("return #ARGV", &[], &args), None, "as arguments");
    assert_eq!(bench.host.ticks, ARMED_TICKS);
    let mut reply = format!("*{}\r\n", texts.len()).into_bytes();
    let mut json = b"[".to_vec();
    for text in &texts {
        reply.extend_from_slice(format!("${}\r\n", text.len()).as_bytes());
        reply.extend_from_slice(text);
        reply.extend_from_slice(b"\r\n");
        let plain = text.iter().all(|byte| byte.is_ascii_alphanumeric());
        assert!(!plain, "bytes of all kinds");
    }
    json.push(b']');
    let packed = [
        &[0xdd][..],
        &(texts.len() as u32).to_be_bytes(),
        &texts.iter().flat_map(|text| [&[0xa8][..], text].concat()).collect::<Vec<u8>>(),
    ]
    .concat();
    for (body, arg) in [
        ("redis.call('arm') redis.call('raw', ARGV[1]) return 1", &reply),
        ("redis.call('arm') redis.setresp(3) redis.call('raw', ARGV[1]) return 1", &set_of(&reply)),
        ("redis.call('arm') cmsgpack.unpack(ARGV[1]) return 1", &packed),
        ("redis.call('arm') cmsgpack.unpack_limit(ARGV[1], 1) return 1", &packed),
    ] {
        assert_eq!(bench.eval(body, &[], &[arg]), None, "{body}");
        assert_eq!(bench.host.ticks, bench.host.last_tick, "{body}");
    }
    bench.check("return 'alive'", "$5|alive|");
}

/// The reply with the type of an array replaced by that of a RESP3 set.
fn set_of(reply: &[u8]) -> Vec<u8> {
    [b"~", &reply[1..]].concat()
}
