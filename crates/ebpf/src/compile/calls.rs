//! Calls of functions and of helpers, and what is kept while a run is suspended in one.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, ExtFuncData, ExternalName, Inst, InstBuilder, UserExternalName, Value};

use super::layout::{self, ended};
use super::run::call_host;
use super::translate::{Depth, Translator, field, signature};
use crate::analysis::may_suspend;
use crate::insn::{Insn, Reg};
use crate::memory::{FRAME_LEN, MAX_FRAMES};

impl Translator<'_, '_> {
    /// Whether a run can be suspended in this call, and so goes on behind it.
    pub(super) fn may_resume_at(&self, insn: &Insn) -> bool {
        may_suspend(self.plan.program, insn)
    }

    /// The registers as a call leaves them.
    pub(super) fn after_call(&mut self, value: Value) {
        let zero = self.builder.ins().iconst(I64, 0);
        for register in Reg::all().filter(|register| (1..=5).contains(&register.number())) {
            self.set(register, zero);
        }
        self.set(Reg::R0, value);
    }

    fn arguments(&mut self) -> [Value; 6] {
        let mut arguments = [self.instance(); 6];
        for register in Reg::all().filter(|register| (1..=5).contains(&register.number())) {
            arguments[register.number()] = self.get(register);
        }
        arguments
    }

    fn outcome(&self, call: Inst) -> (Value, Value) {
        let results = self.builder.inst_results(call);
        (results[0], results[1])
    }

    /// Goes on where a call did not return as usual. Returns where it goes on if it did.
    fn unless_usual(&mut self, status: Value) -> Block {
        let unusual = self.builder.create_block();
        self.builder.set_cold_block(unusual);
        let usual = self.new_block();
        self.builder.ins().brif(status, unusual, &[], usual, &[]);
        self.builder.switch_to_block(unusual);
        usual
    }

    /// Goes on where a call was suspended. Returns where it goes on if it failed.
    fn if_suspended(&mut self, status: Value) -> Block {
        let [failed, suspended] = [(); 2].map(|()| self.builder.create_block());
        self.builder.set_cold_block(failed);
        self.builder.set_cold_block(suspended);
        let pending = self.builder.ins().icmp_imm(IntCC::Equal, status, layout::SUSPENDED as i64);
        self.builder.ins().brif(pending, suspended, &[], failed, &[]);
        self.builder.switch_to_block(suspended);
        failed
    }

    pub(super) fn call_helper(&mut self, index: u32, id: u32) {
        let helpers = self.plan.program.helpers();
        // Every helper that a program calls is in its table.
        let helper = helpers.index_of(id).unwrap_or(usize::MAX);
        let helper = self.builder.ins().iconst(I32, i64::from(helper as u32));
        let instance = self.instance();
        self.builder.ins().store(field(), helper, instance, layout::HELPER);
        let arguments = self.arguments();
        let convention = self.builder.func.signature.call_conv;
        let called = self.builder.import_signature(signature(convention));
        let address = self.builder.ins().iconst(I64, call_host as *const () as i64);
        let call = self.builder.ins().call_indirect(called, address, &arguments);
        let (value, status) = self.outcome(call);

        let answered = self.unless_usual(status);
        if self.may_resume_at(&Insn::CallHelper { id }) {
            let failed = self.if_suspended(status);
            self.keep_fuel();
            if let Depth::Known(depth) = self.depth {
                let depth = self.builder.ins().iconst(I32, i64::from(depth));
                let instance = self.instance();
                self.builder.ins().store(field(), depth, instance, layout::DEPTH);
            }
            self.suspend(index, value, status);
            self.builder.switch_to_block(failed);
        }
        self.end_run(None, ended(layout::HELPER_FAILED, index));

        self.builder.switch_to_block(answered);
        self.after_call(value);
        let next = self.block_at(index + 1);
        self.builder.ins().jump(next, &[]);
    }

    pub(super) fn call_local(&mut self, index: u32, target: u32) {
        let too_deep = ended(layout::TOO_DEEP, index);
        let last = MAX_FRAMES as i64 - 1;
        match self.depth {
            Depth::Known(depth) if i64::from(depth) >= last => return self.end_run(None, too_deep),
            Depth::Known(_) => {}
            Depth::Asked => {
                let depth = self.asked_depth();
                let allowed = self.builder.ins().icmp_imm(IntCC::UnsignedLessThan, depth, last);
                self.end_unless(allowed, None, too_deep);
            }
        }
        // There is a body for every function that can be called at a depth that can be reached.
        let Some(callee) = self.plan.callee(self.body, target) else {
            return self.end_run(None, too_deep);
        };
        self.keep_fuel();
        self.show_frames(2);
        let convention = self.builder.func.signature.call_conv;
        let called = self.builder.import_signature(signature(convention));
        let name = UserExternalName { namespace: 0, index: callee as u32 };
        let name = self.builder.func.declare_imported_user_function(name);
        let called = self.builder.import_function(ExtFuncData {
            name: ExternalName::user(name),
            signature: called,
            colocated: true,
        });
        let arguments = self.arguments();
        let call = self.builder.ins().call(called, &arguments);
        let (value, status) = self.outcome(call);

        let returned = self.unless_usual(status);
        if self.may_resume_at(&Insn::CallLocal { target }) {
            let failed = self.if_suspended(status);
            self.suspend(index, value, status);
            self.builder.switch_to_block(failed);
        }
        self.builder.ins().return_(&[value, status]);

        self.builder.switch_to_block(returned);
        self.show_frames(1);
        let instance = self.instance();
        let fuel = self.builder.ins().load(I64, field(), instance, layout::FUEL);
        self.set_fuel(fuel);
        self.after_call(value);
        let next = self.block_at(index + 1);
        self.builder.ins().jump(next, &[]);
    }

    /// Tells how deep the run is, and how much of the stack is accessible there: this function's frame and those
    /// below it (1), or one more (2).
    fn show_frames(&mut self, count: u32) {
        let length = match self.depth {
            Depth::Asked => {
                let depth = self.asked_depth();
                let inner = self.builder.ins().iadd_imm(depth, i64::from(count) - 1);
                let inner = self.builder.ins().ireduce(I32, inner);
                let instance = self.instance();
                self.builder.ins().store(field(), inner, instance, layout::DEPTH);
                let frames = self.builder.ins().iadd_imm(inner, 1);
                self.builder.ins().imul_imm(frames, FRAME_LEN as i64)
            }
            Depth::Known(depth) => {
                if !self.plan.shows_frames(self.body) {
                    return;
                }
                let frames = depth + count;
                self.builder.ins().iconst(I32, i64::from(frames) * FRAME_LEN as i64)
            }
        };
        for place in layout::STACK_LENGTHS {
            let instance = self.instance();
            self.builder.ins().store(field(), length, instance, place);
        }
    }

    /// Where the frame of this function is: a value and a distance from it.
    fn frame(&mut self) -> (Value, i32) {
        match self.depth {
            Depth::Asked => {
                let depth = self.asked_depth();
                let below = self.builder.ins().imul_imm(depth, i64::from(layout::FRAME_SIZE));
                let instance = self.instance();
                (self.builder.ins().iadd(instance, below), layout::FRAMES)
            }
            Depth::Known(depth) => (self.instance(), layout::FRAMES + depth as i32 * layout::FRAME_SIZE),
        }
    }

    fn saved() -> impl Iterator<Item = Reg> {
        Reg::all().filter(|register| (6..=9).contains(&register.number()))
    }

    /// Keeps what lives across the call, and leaves.
    fn suspend(&mut self, index: u32, value: Value, status: Value) {
        let (frame, start) = self.frame();
        for register in Self::saved() {
            let value = self.get(register);
            let offset = start + layout::frame_saved(register.number());
            self.builder.ins().store(field(), value, frame, offset);
        }
        for (offset, value) in [(layout::FRAME_INDEX, i64::from(index)), (layout::FRAME_UNUSED, 0)] {
            let value = self.builder.ins().iconst(I32, value);
            self.builder.ins().store(field(), value, frame, start + offset);
        }
        self.builder.ins().return_(&[value, status]);
    }

    /// The opposite of [`suspend`](Self::suspend).
    pub(super) fn restore_registers(&mut self) {
        let (frame, start) = self.frame();
        for register in Self::saved() {
            let offset = start + layout::frame_saved(register.number());
            let value = self.builder.ins().load(I64, field(), frame, offset);
            self.set(register, value);
        }
    }
}
