//! The same functions in rbpf.

use rbpf::EbpfVmRaw;

use crate::BenchError;

/// A function in rbpf, and its memory.
pub(super) struct Theirs {
    machine: EbpfVmRaw<'static>,
    memory: Vec<u8>,
}

fn failed(source: std::io::Error) -> BenchError {
    BenchError::System { call: "rbpf", source }
}

impl Theirs {
    pub(super) fn interpreted(bytecode: Vec<u8>, memory: &[u8]) -> Result<Theirs, BenchError> {
        // A machine borrows its program; the few that a benchmark has may stay for as long as it runs.
        let machine = EbpfVmRaw::new(Some(bytecode.leak())).map_err(failed)?;
        Ok(Theirs { machine, memory: memory.to_vec() })
    }

    pub(super) fn compiled(bytecode: Vec<u8>, memory: &[u8]) -> Result<Theirs, BenchError> {
        let mut theirs = Self::interpreted(bytecode, memory)?;
        theirs.machine.jit_compile().map_err(failed)?;
        Ok(theirs)
    }

    #[inline]
    pub(super) fn call_interpreted(&mut self) -> u64 {
        self.machine.execute_program(&mut self.memory).unwrap_or_default()
    }

    #[inline]
    pub(super) fn call_compiled(&mut self) -> u64 {
        // SAFETY: the functions here access only the memory they are given, which is as long as they want it.
        unsafe { self.machine.execute_program_jit(&mut self.memory) }.unwrap_or_default()
    }

    /// Only compiles.
    pub(super) fn compile(bytecode: &[u8]) {
        if let Ok(mut machine) = EbpfVmRaw::new(Some(bytecode)) {
            std::hint::black_box(machine.jit_compile().is_ok());
        }
    }
}
