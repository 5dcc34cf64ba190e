//! Why there is no machine code.

use super::effort::MAX_WORK;

/// Why a program could not be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// There is no back end for this machine.
    #[error("no code can be made for {architecture}: {reason}")]
    Architecture {
        /// What was wanted.
        architecture: String,
        /// What is missing.
        reason: String,
    },
    /// Cranelift gave up.
    #[error("function `{name}`: {reason}")]
    Function {
        /// The function.
        name: String,
        /// What it said.
        reason: String,
    },
    /// More than the compiler does for one program.
    #[error(
        "the program is too much to compile, which takes more than {MAX_WORK} steps, the last of them for function \
         `{name}`; leave out what is never called, or make it several functions that go on as each other"
    )]
    TooMuch {
        /// The function that was too much.
        name: String,
    },
    /// A function that would need too much of the native stack.
    #[error("function `{name}` would need {bytes} bytes of native stack")]
    NativeFrame {
        /// The function.
        name: String,
        /// How many.
        bytes: u32,
    },
    /// Code whose parts are too far from each other.
    #[error("the code is too long")]
    TooLong,
    /// The kernel gave no pages for the code.
    #[error("no pages for the code: {0}")]
    Pages(#[from] rustix::io::Errno),
}
