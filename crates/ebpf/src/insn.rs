//! One instruction of RFC 9669, decoded.

mod decode;
mod encode;

pub use decode::{Flaw, InsnDecodeError, decode};
pub use encode::encode;

/// A register, r0 to r10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(u8);

impl Reg {
    /// What a function returns, and a helper answers.
    pub const R0: Reg = Reg(0);
    /// The first argument.
    pub const R1: Reg = Reg(1);
    /// The end of the function's stack frame; it cannot be written.
    pub const R10: Reg = Reg(10);
    /// How many registers there are.
    pub const COUNT: usize = 11;

    /// The register with this number, if there is one.
    pub const fn new(number: u8) -> Option<Reg> {
        if number < Self::COUNT as u8 { Some(Reg(number)) } else { None }
    }

    /// Its number, 0 to 10.
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// All of them, r0 first.
    pub fn all() -> impl Iterator<Item = Reg> {
        (0..Self::COUNT as u8).map(Reg)
    }
}

impl std::fmt::Display for Reg {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "r{}", self.0)
    }
}

/// Whether an operation works on whole registers or on their lower half. The latter clears the upper half of
/// what it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// The lower half.
    W32,
    /// The whole register.
    W64,
}

/// How many bytes are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Size {
    /// One byte.
    Byte,
    /// Two bytes.
    Half,
    /// Four bytes.
    Word,
    /// Eight bytes.
    Double,
}

impl Size {
    /// In bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Size::Byte => 1,
            Size::Half => 2,
            Size::Word => 4,
            Size::Double => 8,
        }
    }

    /// In bits.
    pub const fn bits(self) -> u32 {
        self.bytes() * 8
    }
}

/// Where the second operand comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A constant, sign-extended to the width of the operation.
    Imm(i32),
}

/// Arithmetic with two operands. `dst = dst op src`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AluOp {
    /// Wrapping sum.
    Add,
    /// Wrapping difference.
    Sub,
    /// Wrapping product.
    Mul,
    /// Unsigned quotient; zero if divided by zero.
    Div,
    /// Signed quotient, rounded towards zero; zero if divided by zero, and the smallest number divided by -1 is
    /// itself.
    SignedDiv,
    /// Bitwise or.
    Or,
    /// Bitwise and.
    And,
    /// Shift to the left; only the lower five or six bits of the distance count.
    Lsh,
    /// Shift to the right, zeros come in.
    Rsh,
    /// Unsigned remainder; the dividend itself if divided by zero.
    Mod,
    /// Signed remainder with the sign of the dividend; the dividend itself if divided by zero, and zero if
    /// divided by -1.
    SignedMod,
    /// Bitwise exclusive or.
    Xor,
    /// The second operand.
    Mov,
    /// Shift to the right, copies of the sign come in.
    Arsh,
}

/// A change of byte order. Sites are little-endian, so [`ToLittle`](Self::ToLittle) only cuts off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SwapOp {
    /// From the site's order to little-endian.
    ToLittle,
    /// From the site's order to big-endian.
    ToBig,
    /// The other order, always.
    Swap,
}

/// What an atomic operation does to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    /// Wrapping sum.
    Add,
    /// Bitwise or.
    Or,
    /// Bitwise and.
    And,
    /// Bitwise exclusive or.
    Xor,
    /// Takes the new value; always fetches.
    Exchange,
    /// Takes the new value if the old one equals r0, and the old one goes into r0; always fetches.
    CompareExchange,
}

/// When a branch is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Condition {
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Greater, unsigned.
    Greater,
    /// Greater or equal, unsigned.
    GreaterEqual,
    /// Less, unsigned.
    Less,
    /// Less or equal, unsigned.
    LessEqual,
    /// Greater, signed.
    SignedGreater,
    /// Greater or equal, signed.
    SignedGreaterEqual,
    /// Less, signed.
    SignedLess,
    /// Less or equal, signed.
    SignedLessEqual,
    /// Some bit is set in both.
    Set,
}

/// One instruction. Targets are indices of slots from the program's beginning, not distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Insn {
    /// `dst = dst op src`
    Alu {
        /// Whole register or lower half.
        width: Width,
        /// What is computed.
        op: AluOp,
        /// First operand and result.
        dst: Reg,
        /// Second operand.
        src: Operand,
    },
    /// `dst = -dst`
    Neg {
        /// Whole register or lower half.
        width: Width,
        /// Operand and result.
        dst: Reg,
    },
    /// `dst = the lower bits of src, sign-extended to width`
    MovSigned {
        /// What is extended to.
        width: Width,
        /// What is extended: [`Word`](Size::Word) only to 64 bits, never [`Double`](Size::Double).
        from: Size,
        /// Result.
        dst: Reg,
        /// Operand.
        src: Reg,
    },
    /// `dst = the lower bytes of dst in another order, zero-extended`
    Swap {
        /// Which order.
        op: SwapOp,
        /// How many bytes: two, four or eight.
        size: Size,
        /// Operand and result.
        dst: Reg,
    },
    /// `dst = value`, takes two slots. Addresses of data sections are such values.
    LoadImm {
        /// Result.
        dst: Reg,
        /// The constant.
        value: u64,
    },
    /// The second slot of a [`LoadImm`](Self::LoadImm). It is never executed and never jumped to.
    SecondHalf,
    /// `dst = *(base + offset)`
    Load {
        /// How many bytes.
        size: Size,
        /// Whether the sign is extended; never with [`Double`](Size::Double).
        signed: bool,
        /// Result.
        dst: Reg,
        /// The address.
        base: Reg,
        /// Added to the address, with wrapping.
        offset: i16,
    },
    /// `*(base + offset) = src`
    Store {
        /// How many bytes.
        size: Size,
        /// The address.
        base: Reg,
        /// Added to the address, with wrapping.
        offset: i16,
        /// What is stored; constants are sign-extended.
        src: Operand,
    },
    /// `*(base + offset) = *(base + offset) op src`, and if it fetches, what was there goes into `src`
    /// (into r0 for [`CompareExchange`](AtomicOp::CompareExchange)); 32-bit values are zero-extended.
    Atomic {
        /// Four or eight bytes.
        width: Width,
        /// What is computed.
        op: AtomicOp,
        /// Whether the old value is wanted.
        fetch: bool,
        /// The address.
        base: Reg,
        /// Added to the address, with wrapping.
        offset: i16,
        /// Second operand.
        src: Reg,
    },
    /// `goto target`
    Jump {
        /// The slot that is executed next.
        target: u32,
        /// Whether it is encoded as `gotol`, with a distance of 32 bits.
        long: bool,
    },
    /// `if left condition right goto target`
    Branch {
        /// Whole registers or lower halves.
        width: Width,
        /// When.
        condition: Condition,
        /// First operand.
        left: Reg,
        /// Second operand.
        right: Operand,
        /// The slot that is executed next if so.
        target: u32,
    },
    /// Calls a function of the same program.
    CallLocal {
        /// The first slot of that function.
        target: u32,
    },
    /// Calls a helper.
    CallHelper {
        /// Its number in the table of helpers.
        id: u32,
    },
    /// Returns from the function with r0.
    Exit,
}

impl Insn {
    /// How many slots of eight bytes it takes.
    pub const fn slots(&self) -> usize {
        if matches!(self, Insn::LoadImm { .. }) { 2 } else { 1 }
    }

    /// The slot it may jump to within its function.
    pub const fn jump_target(&self) -> Option<u32> {
        match *self {
            Insn::Jump { target, .. } | Insn::Branch { target, .. } => Some(target),
            _ => None,
        }
    }

    /// Whether the next slot can be executed after it.
    pub const fn falls_through(&self) -> bool {
        !matches!(self, Insn::Jump { .. } | Insn::Exit)
    }

    /// Whether it is the last of its basic block, whatever follows.
    pub const fn ends_block(&self) -> bool {
        matches!(
            self,
            Insn::Jump { .. }
                | Insn::Branch { .. }
                | Insn::CallLocal { .. }
                | Insn::CallHelper { .. }
                | Insn::Exit
        )
    }

    /// The register it writes, apart from what calls do to r0 to r5.
    pub const fn written(&self) -> Option<Reg> {
        match *self {
            Insn::Alu { dst, .. }
            | Insn::Neg { dst, .. }
            | Insn::MovSigned { dst, .. }
            | Insn::Swap { dst, .. }
            | Insn::LoadImm { dst, .. }
            | Insn::Load { dst, .. } => Some(dst),
            Insn::Atomic { op: AtomicOp::CompareExchange, .. } => Some(Reg::R0),
            Insn::Atomic { fetch: true, src, .. } => Some(src),
            _ => None,
        }
    }
}
