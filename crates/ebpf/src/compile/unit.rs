//! From a plan to machine code: every body is compiled, laid behind the others and linked with them.

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{ExternalName, Function, UserFuncName};
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::{Context, FinalizedMachReloc, FinalizedRelocTarget};
use cranelift_frontend::FunctionBuilderContext;

use super::effort::{CompileEffort, Limit, MAX_WORK, MAX_WORK_WITH_EFFORT};
use super::plan::Plan;
use super::translate::{signature, translate};
use super::{CompileError, Compiler};

/// Compiled functions never take more of the native stack than this, each.
const MAX_NATIVE_FRAME: u32 = 16 << 10;

/// Machine code that does not depend on where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) code: Vec<u8>,
    /// Where the bodies of the plan begin, in their order.
    pub(super) starts: Vec<u32>,
}

/// A place in the code that needs the distance to a body.
struct Link {
    at: u32,
    kind: Reloc,
    addend: i64,
    body: u32,
}

/// What is translated into, again for every body.
struct Workshop {
    context: Context,
    frontend: FunctionBuilderContext,
}

/// A plan that is being compiled.
struct Compilation<'a> {
    plan: &'a Plan<'a>,
    compiler: &'a Compiler,
    /// How many slots all bodies have.
    slots: usize,
    work: u64,
}

/// How much work it is to compile everything that is planned, unless that is too much.
pub(super) fn work(plan: &Plan<'_>, compiler: &Compiler) -> Result<u64, CompileError> {
    let mut compilation = Compilation::new(plan, compiler);
    let mut workshop = Workshop::new();
    for body in 0..plan.bodies.len() {
        compilation.translate(body, &mut workshop)?;
    }
    Ok(compilation.work)
}

/// Compiles everything that is planned, unless that is too much work.
pub(super) fn compile(plan: &Plan<'_>, compiler: &Compiler) -> Result<Unit, CompileError> {
    let mut unit = Unit { code: Vec::new(), starts: Vec::new() };
    let mut links = Vec::new();
    let mut compilation = Compilation::new(plan, compiler);
    let mut workshop = Workshop::new();
    let alignment = compiler.thorough.function_alignment().preferred.max(16) as usize;
    for body in 0..plan.bodies.len() {
        let effort = compilation.translate(body, &mut workshop)?;
        let name = || plan.source(body).name.clone();
        let isa = if effort == CompileEffort::Full { &compiler.thorough } else { &compiler.quick };
        let context = &mut workshop.context;
        let compiled = context
            .compile(&**isa, &mut ControlPlane::default())
            .map_err(|error| CompileError::Function { name: name(), reason: error.inner.to_string() })?;
        if compiled.frame_size > MAX_NATIVE_FRAME {
            return Err(CompileError::NativeFrame { name: name(), bytes: compiled.frame_size });
        }
        unit.code.resize(unit.code.len().next_multiple_of(alignment), 0);
        let start = unit.code.len() as u32;
        unit.starts.push(start);
        unit.code.extend_from_slice(compiled.buffer.data());
        let relocations = compiled.buffer.relocs().to_vec();
        for relocation in &relocations {
            links.push(link(relocation, start, &context.func).ok_or_else(|| CompileError::Function {
                name: name(),
                reason: format!("unexpected relocation {:?}", relocation.kind),
            })?);
        }
    }
    for link in links {
        apply(&mut unit, &link)?;
    }
    Ok(unit)
}

impl Workshop {
    fn new() -> Workshop {
        Workshop { context: Context::new(), frontend: FunctionBuilderContext::new() }
    }
}

impl<'a> Compilation<'a> {
    fn new(plan: &'a Plan<'a>, compiler: &'a Compiler) -> Compilation<'a> {
        let slots = (0..plan.bodies.len()).map(|body| plan.source(body).slots()).sum();
        Compilation { plan, compiler, slots, work: 0 }
    }

    /// Translates a body, with as much effort as it is worth. Says with how much.
    fn translate(&mut self, body: usize, workshop: &mut Workshop) -> Result<CompileEffort, CompileError> {
        let source = self.plan.source(body);
        let most = CompileEffort::for_slots(source.slots(), self.slots).min(self.compiler.effort);
        let left = MAX_WORK - self.work;
        for (effort, limit) in [(most, MAX_WORK_WITH_EFFORT.min(left)), (CompileEffort::Little, left)] {
            let Workshop { context, frontend } = workshop;
            context.clear();
            context.func =
                Function::with_name_signature(UserFuncName::default(), signature(CallConv::SystemV));
            let limit = Limit { work: limit, effort };
            if translate(self.plan, body, limit, (&mut context.func, frontend)) {
                self.work += effort.work(context.func.dfg.num_insts());
                return Ok(effort);
            }
            // What is left in it belongs to what was given up.
            *frontend = FunctionBuilderContext::new();
        }
        Err(CompileError::TooMuch { name: source.name.clone() })
    }
}

fn link(relocation: &FinalizedMachReloc, start: u32, function: &Function) -> Option<Link> {
    let FinalizedRelocTarget::ExternalName(ExternalName::User(name)) = relocation.target else { return None };
    let body = function.params.user_named_funcs()[name].index;
    Some(Link { at: start + relocation.offset, kind: relocation.kind, addend: relocation.addend, body })
}

fn apply(unit: &mut Unit, link: &Link) -> Result<(), CompileError> {
    let at = link.at as usize;
    let distance = i64::from(unit.starts[link.body as usize]) + link.addend - i64::from(link.at);
    let place = unit.code.get_mut(at..at + 4).ok_or(CompileError::TooLong)?;
    let old = u32::from_le_bytes([place[0], place[1], place[2], place[3]]);
    let new = match link.kind {
        Reloc::X86CallPCRel4 => i32::try_from(distance).ok().map(|distance| distance as u32),
        // 26 bits, counted in instructions of four bytes.
        Reloc::Arm64Call if distance % 4 == 0 && (-1 << 27..1 << 27).contains(&distance) => {
            Some(old & 0xfc00_0000 | (distance / 4) as u32 & 0x03ff_ffff)
        }
        _ => None,
    };
    place.copy_from_slice(&new.ok_or(CompileError::TooLong)?.to_le_bytes());
    Ok(())
}
