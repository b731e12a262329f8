//! How the libraries behave at their limits: memory, depth, size, count.

mod fake;
#[path = "libs/scripts.rs"]
mod scripts;

use fake::Bench;
use pantala_scripting::VmLimits;

#[track_caller]
fn says(bench: &mut Bench, script: &str, expected: &str) {
    let found = scripts::answer(bench, script, &[]);
    assert_eq!(String::from_utf8_lossy(&found), expected, "{script}");
}

#[test]
fn memory_ends_a_call_and_nothing_else() {
    let mut bench = Bench::with(VmLimits { memory_bytes: 4 << 20, ..VmLimits::default() });
    let json = "local big = '[' .. string.rep('[[],{}],', 50000) .. '1]' ";
    let packed = "local big = '\\221\\0\\0\\195\\80' .. string.rep('\\145\\128', 50000) ";
    let no = "ERR user_script:1: not enough memory";
    for _ in 0..2 {
        says(&mut bench, &format!("{json} return cjson.decode(big)"), no);
        says(&mut bench, &format!("{packed} return cmsgpack.unpack(big)"), no);
        says(
            &mut bench,
            "local t = {} for i = 1, 9 do t[i] = string.rep('\\1', 100000) end \
             return cjson.encode(t)",
            no,
        );
        says(
            &mut bench,
            &format!("{json} return select(2, pcall(cjson.decode, big))"),
            "not enough memory",
        );
        says(&mut bench, "return cjson.encode(cjson.decode('[1,{\"a\":2}]'))", "[1,{\"a\":2}]");
    }
}

#[test]
fn settings_end_with_the_script() {
    let mut bench = Bench::new();
    says(&mut bench, "return all(cjson.encode_max_depth(1))", "1");
    says(&mut bench, "return cjson.encode({{}})", "[{}]");
}

#[test]
fn depth_beyond_ours_is_refused_whatever_is_set() {
    let mut bench = Bench::new();
    let deep = "cjson.decode_max_depth(100000) cjson.encode_max_depth(100000) ";
    says(
        &mut bench,
        &format!("{deep} return cjson.decode(string.rep('[', 50000))"),
        "ERR user_script:1: Found too many nested data structures (1001) at character 1001",
    );
    says(
        &mut bench,
        &format!("{deep} local t = {{}} for i = 1, 50000 do t = {{t}} end return cjson.encode(t)"),
        "ERR user_script:1: Cannot serialise, excessive nesting (1001)",
    );
    says(
        &mut bench,
        &format!("{deep} local t = {{}} t.t = t return cjson.encode(t)"),
        "ERR user_script:1: Cannot serialise, excessive nesting (1001)",
    );
    says(
        &mut bench,
        &format!(
            "{deep} local d = cjson.decode(string.rep('{{\"a\":[', 500) .. \
             string.rep(']}}', 500)) return tostring(#cjson.encode(d))"
        ),
        "4000",
    );
}

/// Nested calls leave less of Lua's C stack; the encoder adapts to what is left.
#[test]
fn encoding_works_however_deep_the_script_is() {
    let mut bench = Bench::new();
    let script = "local t = {} for i = 1, 100 do t = {t, {a = {1}}} end \
        local function down(n) \
            if n == 0 then return cjson.encode(t) .. cmsgpack.pack(t) end \
            local ok, r = pcall(down, n - 1) \
            return ok and r or error(r, 0) \
        end \
        return tostring(down(80) == cjson.encode(t) .. cmsgpack.pack(t))";
    says(&mut bench, script, "true");
}

#[test]
fn a_sparse_array_is_written_up_to_the_limit() {
    let mut bench = Bench::new();
    says(
        &mut bench,
        "cjson.encode_sparse_array(false, 0) return cjson.encode({[2000000000] = 1})",
        "ERR user_script:1: not enough memory",
    );
}

#[test]
fn sizes_that_overflow_are_refused() {
    let mut bench = Bench::new();
    for script in [
        "struct.unpack('c2147483647', 'abc')",
        "struct.unpack('>I2c0', '\\255\\255abc')",
        "struct.unpack('dc0', struct.pack('ds', 2^63, 'abc'))",
        "struct.unpack('i4', 'abcd', 2^63)",
        "struct.unpack('i4', 'abcd', -3)",
        "cmsgpack.unpack('\\219\\255\\255\\255\\255')",
        "cmsgpack.unpack('\\221\\255\\255\\255\\255')",
        "cmsgpack.unpack('\\223\\255\\255\\255\\255')",
    ] {
        let found = scripts::answer(
            &mut bench,
            &format!("return tostring(pcall(function() {script} end))"),
            &[],
        );
        assert_eq!(String::from_utf8_lossy(&found), "false", "{script}");
    }
}

/// Each table is written twice at most, however deep the tables are nested for which the first
/// attempt fails.
#[test]
fn mixed_tables_take_linear_time() {
    let mut bench = Bench::new();
    let script = "local t = {1} for i = 1, 900 do t = {t, x = 1} end \
        return tostring(#cjson.encode(t))";
    says(&mut bench, script, "10803");
    let script = "local t = {1} for i = 1, 14 do t = {t, t, x = 1} end \
        return tostring(#cmsgpack.pack(t))";
    says(&mut bench, script, "131066");
}
