//! From instructions to Cranelift's: the course of a function. What single instructions compute is in
//! [`arithmetic`](super::arithmetic), accesses to memory in [`access`](super::access), calls in
//! [`calls`](super::calls).

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I8X16, I32, I64};
use cranelift_codegen::ir::{
    AbiParam, AliasRegion, Block, Function, InstBuilder, MemFlags, Signature, TrapCode, Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Switch};

use super::effort::{CompileEffort, Limit};
use super::fuel::Looks;
use super::homes::Homes;
use super::layout::{self, ended};
use super::plan::Plan;
use crate::analysis::{Flow, flow};
use crate::insn::{Condition, Insn, Operand, Reg, Width};
use crate::memory::{FRAME_LEN, STACK_AREA, frame_end};

/// How many frames lie below the function's own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Always so many.
    Known(u32),
    /// As many as the instance says when the function is entered.
    Asked,
}

/// How often code looks at its fuel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// At milestones, where there has to be enough until the next ones.
    Ahead = 0,
    /// Whenever a block is entered.
    Exact = 1,
}

/// A function being translated.
pub(super) struct Translator<'a, 'b> {
    pub(super) plan: &'b Plan<'b>,
    /// Which of the plan's bodies it is.
    pub(super) body: usize,
    pub(super) builder: FunctionBuilder<'a>,
    pub(super) depth: Depth,
    pub(super) homes: Homes,
    limit: Limit,
    /// The block of every slot at which a basic block begins, for either pace.
    blocks: [Vec<Option<Block>>; 2],
    pace: Pace,
}

/// What all compiled functions take, and the way to helpers: the instance and r1 to r5; and give: see
/// [`Outcome`](layout::Outcome).
pub(super) fn signature(convention: CallConv) -> Signature {
    let mut signature = Signature::new(convention);
    signature.params = vec![AbiParam::new(I64); 6];
    signature.returns = vec![AbiParam::new(I64); 2];
    signature
}

/// Fields of an instance: program's accesses never reach them.
pub(super) fn field() -> MemFlags {
    MemFlags::trusted().with_alias_region(Some(AliasRegion::Vmctx))
}

/// Fields that do not change during a run.
pub(super) fn fixed_field() -> MemFlags {
    field().with_readonly().with_can_move()
}

/// What programs access, aligned or not. Whether it may be accessed was decided before.
pub(super) fn memory() -> MemFlags {
    MemFlags::new().with_notrap().with_alias_region(Some(AliasRegion::Heap))
}

/// Translates one body of the plan. Gives up, and says so, where it becomes more than allowed; nothing can be done with
/// what is there then.
pub(super) fn translate(
    plan: &Plan<'_>,
    body: usize,
    limit: Limit,
    (function, context): (&mut Function, &mut FunctionBuilderContext),
) -> bool {
    let mut builder = FunctionBuilder::new(function, context);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let instance = builder.block_params(entry)[0];
    let homes = Homes::new(&mut builder, limit.effort == CompileEffort::Little);
    let slots = plan.source(body).slots();
    let blocks = std::array::from_fn(|_| vec![None; slots]);
    let depth = match plan.bodies[body].depth {
        Some(depth) => Depth::Known(depth),
        None => Depth::Asked,
    };
    let mut translator = Translator { plan, body, builder, depth, homes, limit, blocks, pace: Pace::Exact };
    translator.set_instance(instance);
    translator.begin(entry);
    if !translator.is_within_limit() {
        return false;
    }
    translator.builder.seal_all_blocks();
    translator.builder.finalize();
    true
}

impl<'b> Translator<'_, 'b> {
    /// The function that is translated.
    fn source(&self) -> &'b crate::program::Function {
        self.plan.source(self.body)
    }

    fn is_within_limit(&self) -> bool {
        let Limit { work, effort } = self.limit;
        effort.work(self.builder.func.dfg.num_insts()) <= work
    }

    fn begin(&mut self, entry: Block) {
        let arguments: Vec<Value> = self.builder.block_params(entry)[1..].to_vec();
        let program = self.plan.program;
        let flow = Flow::new(program, self.source());
        let resumes: Vec<u32> = flow
            .blocks
            .iter()
            .filter(|block| self.may_resume_at(&program.code()[block.last as usize]))
            .map(|block| block.after)
            .collect();
        let milestones = match self.depth {
            Depth::Known(depth) => Looks::new(program, &flow, depth).milestones,
            Depth::Asked => None,
        };
        if milestones.is_some() {
            self.pace = Pace::Ahead;
        }
        self.frame_pointer();
        let instance = self.instance();
        let fuel = self.builder.ins().load(I64, field(), instance, layout::FUEL);
        self.set_fuel(fuel);
        let zero = self.builder.ins().iconst(I64, 0);
        for register in Reg::all().filter(|register| *register != Reg::R10) {
            let argument = register.number().checked_sub(1).and_then(|number| arguments.get(number));
            self.set(register, argument.copied().unwrap_or(zero));
        }
        if !resumes.is_empty() {
            self.resumption(&resumes, arguments[0]);
        }
        self.zero_frame();
        let first = self.block_at(flow.blocks[0].first);
        self.builder.ins().jump(first, &[]);
        if let Some(milestones) = milestones {
            self.blocks(&flow, &milestones);
            self.pace = Pace::Exact;
            if milestones.iter().all(Option::is_none) {
                return;
            }
        }
        self.blocks(&flow, &[]);
    }

    fn blocks(&mut self, flow: &Flow, milestones: &[Option<u64>]) {
        // In the order of the program, in which the blocks of loops follow each other.
        let mut order: Vec<usize> = (0..flow.blocks.len()).collect();
        order.sort_unstable_by_key(|number| flow.blocks[*number].first);
        for number in order {
            if !self.is_within_limit() {
                return;
            }
            self.block(&flow.blocks[number], milestones.get(number).copied().flatten());
        }
    }

    /// r10.
    fn frame_pointer(&mut self) {
        let end = match self.depth {
            Depth::Known(depth) => self.builder.ins().iconst(I64, frame_end(depth as usize) as i64),
            Depth::Asked => {
                let depth = self.asked_depth();
                let length = self.builder.ins().imul_imm(depth, FRAME_LEN as i64);
                self.builder.ins().iadd_imm(length, frame_end(0) as i64)
            }
        };
        self.set(Reg::R10, end);
    }

    /// Stack frames begin with zeros.
    fn zero_frame(&mut self) {
        const STEP: u32 = 16;
        let bytes = self.plan.zeroed(self.body);
        if bytes.is_empty() {
            return;
        }
        let bytes = bytes.start / STEP * STEP..bytes.end.next_multiple_of(STEP);
        let instance = self.instance();
        let mut frame = self.builder.ins().load(I64, fixed_field(), instance, layout::area_base(STACK_AREA));
        let mut first = 0;
        match self.depth {
            Depth::Known(depth) => first = depth * FRAME_LEN as u32,
            Depth::Asked => {
                let depth = self.asked_depth();
                let below = self.builder.ins().imul_imm(depth, FRAME_LEN as i64);
                frame = self.builder.ins().iadd(frame, below);
            }
        }
        let zero = self.builder.ins().iconst(I8, 0);
        let zeros = self.builder.ins().splat(I8X16, zero);
        for offset in bytes.step_by(STEP as usize) {
            self.builder.ins().store(memory(), zeros, frame, (first + offset) as i32);
        }
    }

    /// A run that goes on behind a call enters here, with what the call gave as its first argument.
    fn resumption(&mut self, resumes: &[u32], value: Value) {
        let begin = self.builder.create_block();
        let dispatch = self.builder.create_block();
        let nowhere = self.builder.create_block();
        self.builder.set_cold_block(dispatch);
        self.builder.set_cold_block(nowhere);
        let instance = self.instance();
        let resume = self.builder.ins().load(I32, field(), instance, layout::RESUME);
        self.builder.ins().brif(resume, dispatch, &[], begin, &[]);

        self.builder.switch_to_block(dispatch);
        let zero = self.builder.ins().iconst(I32, 0);
        let instance = self.instance();
        self.builder.ins().store(field(), zero, instance, layout::RESUME);
        self.restore_registers();
        self.after_call(value);
        let mut switch = Switch::new();
        for &index in resumes {
            let block = self.block_at(index);
            switch.set_entry(index.into(), block);
        }
        switch.emit(&mut self.builder, resume, nowhere);

        self.builder.switch_to_block(nowhere);
        self.builder.ins().trap(TrapCode::unwrap_user(1));

        self.builder.switch_to_block(begin);
    }

    /// The block that begins at this slot.
    pub(super) fn block_at(&mut self, index: u32) -> Block {
        let start = self.source().start;
        if let Some(block) = self.blocks[self.pace as usize][(index - start) as usize] {
            return block;
        }
        let block = self.new_block();
        self.blocks[self.pace as usize][(index - start) as usize] = Some(block);
        block
    }

    /// A block that is about as likely as those of its pace.
    pub(super) fn new_block(&mut self) -> Block {
        let block = self.builder.create_block();
        if self.pace == Pace::Exact && self.plan.is_proven() {
            self.builder.set_cold_block(block);
        }
        block
    }

    fn block(&mut self, source: &flow::Block, milestone: Option<u64>) {
        let block = self.block_at(source.first);
        self.builder.switch_to_block(block);
        self.charge(source, milestone);
        let program = self.plan.program;
        for index in source.first..=source.last {
            self.instruction(index, program.code()[index as usize]);
        }
        if !program.code()[source.last as usize].ends_block() {
            let next = self.block_at(source.after);
            self.builder.ins().jump(next, &[]);
        }
    }

    /// Pays for a block, or ends the run.
    fn charge(&mut self, source: &flow::Block, milestone: Option<u64>) {
        let cost = i64::from(source.after - source.first);
        let fuel = self.fuel();
        let needed = milestone.map_or(cost, |needed| needed as i64);
        if self.pace == Pace::Exact {
            let enough = self.builder.ins().icmp_imm(IntCC::UnsignedGreaterThanOrEqual, fuel, needed);
            self.end_unless(enough, None, ended(layout::OUT_OF_FUEL, source.first));
        } else if milestone.is_some() {
            let enough = self.builder.ins().icmp_imm(IntCC::UnsignedGreaterThanOrEqual, fuel, needed);
            self.pace = Pace::Exact;
            let exact = self.block_at(source.first);
            self.pace = Pace::Ahead;
            let go_on = self.builder.create_block();
            self.builder.ins().brif(enough, go_on, &[], exact, &[]);
            self.builder.switch_to_block(go_on);
        }
        let left = self.builder.ins().iadd_imm(fuel, -cost);
        self.set_fuel(left);
    }

    fn instruction(&mut self, index: u32, insn: Insn) {
        match insn {
            Insn::Alu { width, op, dst, src } => self.alu(width, op, dst, src),
            Insn::Neg { width, dst } => self.negate(width, dst),
            Insn::MovSigned { width, from, dst, src } => self.move_signed(width, from, dst, src),
            Insn::Swap { op, size, dst } => self.swap(op, size, dst),
            Insn::LoadImm { dst, value } => {
                let value = self.builder.ins().iconst(I64, value as i64);
                self.set(dst, value);
            }
            Insn::SecondHalf => {}
            Insn::Load { size, signed, dst, base, offset } => {
                self.load(index, size, signed, dst, (base, offset));
            }
            Insn::Store { size, base, offset, src } => self.store(index, size, (base, offset), src),
            Insn::Atomic { width, op, fetch, base, offset, src } => {
                self.atomic(index, width, op, fetch, (base, offset), src);
            }
            Insn::Jump { target, .. } => {
                let target = self.block_at(target);
                self.builder.ins().jump(target, &[]);
            }
            Insn::Branch { width, condition, left, right, target } => {
                let taken = self.holds(width, condition, left, right);
                self.branch(taken, index, target);
            }
            Insn::CallLocal { target } => self.call_local(index, target),
            Insn::CallHelper { id } => self.call_helper(index, id),
            Insn::Exit => self.leave(),
        }
    }

    /// Where a branch leads forward, what only its target needs is computed on the way there, not before it.
    fn branch(&mut self, taken: Value, index: u32, target: u32) {
        let (there, next) = (self.block_at(target), self.block_at(index + 1));
        if target <= index || self.limit.effort == CompileEffort::Little {
            self.builder.ins().brif(taken, there, &[], next, &[]);
            return;
        }
        let way = self.builder.create_block();
        self.builder.set_cold_block(way);
        self.builder.ins().brif(taken, way, &[], next, &[]);
        self.builder.switch_to_block(way);
        self.builder.ins().jump(there, &[]);
    }

    fn holds(&mut self, width: Width, condition: Condition, left: Reg, right: Operand) -> Value {
        let (left, right) = (self.get_as(width, left), self.operand(width, right));
        let code = match condition {
            Condition::Equal => IntCC::Equal,
            Condition::NotEqual => IntCC::NotEqual,
            Condition::Greater => IntCC::UnsignedGreaterThan,
            Condition::GreaterEqual => IntCC::UnsignedGreaterThanOrEqual,
            Condition::Less => IntCC::UnsignedLessThan,
            Condition::LessEqual => IntCC::UnsignedLessThanOrEqual,
            Condition::SignedGreater => IntCC::SignedGreaterThan,
            Condition::SignedGreaterEqual => IntCC::SignedGreaterThanOrEqual,
            Condition::SignedLess => IntCC::SignedLessThan,
            Condition::SignedLessEqual => IntCC::SignedLessThanOrEqual,
            Condition::Set => return self.builder.ins().band(left, right),
        };
        self.builder.ins().icmp(code, left, right)
    }

    fn leave(&mut self) {
        self.keep_fuel();
        let value = self.get(Reg::R0);
        let status = self.builder.ins().iconst(I64, layout::RETURNED as i64);
        self.builder.ins().return_(&[value, status]);
    }

    /// Writes the fuel that is left to where others look for it.
    pub(super) fn keep_fuel(&mut self) {
        let fuel = self.fuel();
        let instance = self.instance();
        self.builder.ins().store(field(), fuel, instance, layout::FUEL);
    }

    /// Ends the run unless `holds`; goes on in a new block.
    pub(super) fn end_unless(&mut self, holds: Value, value: Option<Value>, status: i64) {
        let go_on = self.new_block();
        let end = self.builder.create_block();
        self.builder.set_cold_block(end);
        self.builder.ins().brif(holds, go_on, &[], end, &[]);
        // What the end needs is computed where it comes, not on the usual way.
        self.builder.switch_to_block(end);
        self.end_run(value, status);
        self.builder.switch_to_block(go_on);
    }

    /// Ends the run here.
    pub(super) fn end_run(&mut self, value: Option<Value>, status: i64) {
        let value = value.unwrap_or_else(|| self.builder.ins().iconst(I64, 0));
        let status = self.builder.ins().iconst(I64, status);
        self.keep_fuel();
        self.builder.ins().return_(&[value, status]);
    }
}
