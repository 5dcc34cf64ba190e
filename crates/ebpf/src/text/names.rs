//! Mnemonics.

use crate::insn::{AluOp, AtomicOp, Condition, Size, SwapOp, Width};

pub(super) const ALU: &[(&str, AluOp)] = &[
    ("add", AluOp::Add),
    ("sub", AluOp::Sub),
    ("mul", AluOp::Mul),
    ("div", AluOp::Div),
    ("sdiv", AluOp::SignedDiv),
    ("or", AluOp::Or),
    ("and", AluOp::And),
    ("lsh", AluOp::Lsh),
    ("rsh", AluOp::Rsh),
    ("mod", AluOp::Mod),
    ("smod", AluOp::SignedMod),
    ("xor", AluOp::Xor),
    ("mov", AluOp::Mov),
    ("arsh", AluOp::Arsh),
];

pub(super) const CONDITIONS: &[(&str, Condition)] = &[
    ("jeq", Condition::Equal),
    ("jne", Condition::NotEqual),
    ("jgt", Condition::Greater),
    ("jge", Condition::GreaterEqual),
    ("jlt", Condition::Less),
    ("jle", Condition::LessEqual),
    ("jsgt", Condition::SignedGreater),
    ("jsge", Condition::SignedGreaterEqual),
    ("jslt", Condition::SignedLess),
    ("jsle", Condition::SignedLessEqual),
    ("jset", Condition::Set),
];

/// With whether they fetch.
pub(super) const ATOMICS: &[(&str, (AtomicOp, bool))] = &[
    ("add", (AtomicOp::Add, false)),
    ("or", (AtomicOp::Or, false)),
    ("and", (AtomicOp::And, false)),
    ("xor", (AtomicOp::Xor, false)),
    ("fetch_add", (AtomicOp::Add, true)),
    ("fetch_or", (AtomicOp::Or, true)),
    ("fetch_and", (AtomicOp::And, true)),
    ("fetch_xor", (AtomicOp::Xor, true)),
    ("xchg", (AtomicOp::Exchange, true)),
    ("cmpxchg", (AtomicOp::CompareExchange, true)),
];

pub(super) const SWAPS: &[(&str, (SwapOp, Size))] = &[
    ("le16", (SwapOp::ToLittle, Size::Half)),
    ("le32", (SwapOp::ToLittle, Size::Word)),
    ("le64", (SwapOp::ToLittle, Size::Double)),
    ("be16", (SwapOp::ToBig, Size::Half)),
    ("be32", (SwapOp::ToBig, Size::Word)),
    ("be64", (SwapOp::ToBig, Size::Double)),
    ("swap16", (SwapOp::Swap, Size::Half)),
    ("swap32", (SwapOp::Swap, Size::Word)),
    ("swap64", (SwapOp::Swap, Size::Double)),
];

pub(super) const SIGNED_MOVES: &[(&str, (Size, Width))] = &[
    ("movsx832", (Size::Byte, Width::W32)),
    ("movsx1632", (Size::Half, Width::W32)),
    ("movsx864", (Size::Byte, Width::W64)),
    ("movsx1664", (Size::Half, Width::W64)),
    ("movsx3264", (Size::Word, Width::W64)),
];

/// With whether the sign is extended.
pub(super) const LOADS: &[(&str, (Size, bool))] = &[
    ("ldxb", (Size::Byte, false)),
    ("ldxh", (Size::Half, false)),
    ("ldxw", (Size::Word, false)),
    ("ldxdw", (Size::Double, false)),
    ("ldxbsx", (Size::Byte, true)),
    ("ldxhsx", (Size::Half, true)),
    ("ldxwsx", (Size::Word, true)),
];

pub(super) const STORES_OF_CONSTANTS: &[(&str, Size)] =
    &[("stb", Size::Byte), ("sth", Size::Half), ("stw", Size::Word), ("stdw", Size::Double)];

pub(super) const STORES_OF_REGISTERS: &[(&str, Size)] =
    &[("stxb", Size::Byte), ("stxh", Size::Half), ("stxw", Size::Word), ("stxdw", Size::Double)];

/// What is called `name` in a table.
pub(super) fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning)
}

/// As [`find`], with an optional `32` behind the name.
pub(super) fn find_with_width<T: Copy>(table: &[(&str, T)], name: &str) -> Option<(T, Width)> {
    match find(table, name) {
        Some(meaning) => Some((meaning, Width::W64)),
        None => Some((find(table, name.strip_suffix("32")?)?, Width::W32)),
    }
}

/// What `meaning` is called in a table that has everything.
pub(super) fn name_of<T: PartialEq>(table: &[(&'static str, T)], meaning: T) -> &'static str {
    table.iter().find(|(_, known)| *known == meaning).map_or("?", |(name, _)| name)
}
