//! The only unsafe file of this crate: passes bytes between Lua and Rust by address.
//!
//! Through mlua's safe interface each argument of `redis.call` costs a slot in a table of
//! references, each call a vector, a guard and a userdata: some 4,700 instructions against 1,100
//! here, and scripts do little else than such calls. So C passes spans of its strings, and Rust the
//! span of the reply.
//!
//! 1. Spans are read only until the function that got them returns. C: arguments are strings on
//!    Lua's stack, which is not touched meanwhile. Rust: keys and arguments are borrowed for the
//!    whole run; the reply is in `RunState`, which lives as long as the VM, and only the next call
//!    writes it.
//! 2. No panic leaves these functions: C cannot unwind. A panic is kept in `RunState`, the script
//!    is aborted, and the panic resumes when Rust has control again.
//! 3. Lua does not jump over a Rust frame (longjmp): nothing here calls Lua.
//!
//! Not here: the use of the bytes. Tests: all of crates/scripting/tests.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use mlua::LightUserData;
use smallvec::SmallVec;

use crate::globals::api::{self, ReplyPart};
use crate::slot;

/// As in lpantala.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Span {
    data: *const u8,
    len: usize,
}

impl Span {
    fn of(bytes: &[u8]) -> Span {
        Span { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// # Safety
    /// The bytes must be valid, and not change, for `'a`.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: the caller's promise; C's pointers to strings are never null.
        unsafe { slice::from_raw_parts(self.data, self.len) }
    }
}

/// Keys or arguments in lpantala.c's form; borrowed as long as it lives.
pub struct Spans<'a> {
    spans: SmallVec<[Span; 8]>,
    _borrowed: std::marker::PhantomData<&'a [u8]>,
}

impl<'a> Spans<'a> {
    /// The spans of `items`.
    pub fn of(items: &'a [&'a [u8]]) -> Spans<'a> {
        // Shorter than `collect` for few items.
        let mut spans = SmallVec::new();
        spans.reserve(items.len());
        for item in items {
            spans.push(Span::of(item));
        }
        Spans { spans, _borrowed: std::marker::PhantomData }
    }
}

/// Keys and arguments of a run, as in lpantala.h.
#[repr(C)]
pub struct RunLists<'a> {
    keys: *const Span,
    key_count: usize,
    args: *const Span,
    arg_count: usize,
    _borrowed: std::marker::PhantomData<&'a Spans<'a>>,
}

impl<'a> RunLists<'a> {
    /// Both, borrowed.
    pub fn of(keys: &'a Spans<'a>, args: &'a Spans<'a>) -> RunLists<'a> {
        RunLists {
            keys: keys.spans.as_ptr(),
            key_count: keys.spans.len(),
            args: args.spans.as_ptr(),
            arg_count: args.spans.len(),
            _borrowed: std::marker::PhantomData,
        }
    }

    /// The address of this value, for a call that ends before `self` does.
    pub fn pointer(&self) -> LightUserData {
        LightUserData(ptr::from_ref(self).cast_mut().cast::<c_void>())
    }
}

/// The functions that lpantala.c calls: `HostCall`, `HostNumber`, `HostEmit` and `HostTick`.
pub fn functions() -> [LightUserData; 4] {
    [call as *mut c_void, number as *mut c_void, emit as *mut c_void, tick as *mut c_void]
        .map(LightUserData)
}

const NUMBER_BYTES: usize = 40;
const _: () = assert!(size_of::<Span>() == 2 * size_of::<usize>());

/// `HostCall`: 0, or the script is aborted.
extern "C" fn call(args: *const Span, count: usize, reply: *mut Span) -> c_int {
    let work = || {
        // SAFETY: lpantala.c's `rediscall` has filled `count` spans, which live until this returns.
        let spans = unsafe { slice::from_raw_parts(args, count) };
        // SAFETY: invariant 1, C's part: the strings lie on Lua's stack.
        let each = spans.iter().map(|span| unsafe { span.bytes() });
        let mut args = SmallVec::<[&[u8]; 8]>::new();
        args.reserve(count);
        for arg in each {
            args.push(arg);
        }
        api::call(&args, Span::of)
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Some(span)) => {
            // SAFETY: `reply` is a variable of `rediscall`.
            unsafe { reply.write(span) };
            0
        }
        Ok(None) => 1,
        Err(panic) => {
            api::keep_panic(panic);
            1
        }
    }
}

/// `HostNumber`: the text's length.
extern "C" fn number(value: f64, text: *mut u8) -> usize {
    let mut digits = Vec::with_capacity(NUMBER_BYTES);
    api::push_number(&mut digits, value);
    let len = digits.len().min(NUMBER_BYTES);
    // SAFETY: `numbertext` gives a buffer of HOST_NUMBER_BYTES, which is `NUMBER_BYTES`.
    let text = unsafe { slice::from_raw_parts_mut(text, len) };
    text.copy_from_slice(&digits[..len]);
    len
}

/// `HostEmit`: 0 if no more of the value is wanted.
extern "C" fn emit(kind: c_int, data: *const u8, len: usize, number: f64) -> c_int {
    let work = || {
        // SAFETY: invariant 1, C's part: a string that the script returns, on Lua's stack or below.
        let bytes = if data.is_null() { &[] } else { unsafe { Span { data, len }.bytes() } };
        let value = match kind {
            0 => ReplyPart::Bulk(bytes),
            1 => ReplyPart::Number(number),
            2 => ReplyPart::Truth(true),
            3 => ReplyPart::Truth(false),
            5 => ReplyPart::Array(number as usize),
            6 => ReplyPart::Status(bytes),
            7 => ReplyPart::Error(bytes),
            _ => ReplyPart::Nil,
        };
        api::emit(value)
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(more) => c_int::from(more),
        Err(panic) => {
            api::keep_panic(panic);
            0
        }
    }
}

/// `HostTick`: 0, or the script is to be aborted.
extern "C" fn tick() -> c_int {
    match catch_unwind(slot::tick) {
        Ok(asked) => c_int::from(asked.is_err()),
        Err(panic) => {
            api::keep_panic(panic);
            1
        }
    }
}
