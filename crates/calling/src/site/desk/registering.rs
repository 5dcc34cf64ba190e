//! How a desk learns functions, and which of them a caller may call.

use outboard_contract::{LinkId, Outbox};
use outboard_wire::calling::{
    Allowed, CallFailure, CallerId, CodePart, REGISTERED, Register, RegisterRefusal, RegisterVerdict,
    Registered,
};
use outboard_wire::{FrameHead, Rights};

use super::{CallingDesk, FindRegion, fail};
use crate::{Binding, Found, FunctionImage, Refused};

impl<R> CallingDesk<R> {
    pub(super) fn take_code(&mut self, link: LinkId, bytes: &[u8]) {
        let Some(caller) = self.links.get_mut(&link) else { return };
        let Ok((part, code)) = CodePart::decode(bytes) else { return };
        let max = self.shared.functions().image_bytes_max();
        if part.total as usize > max {
            let detail = format!("the function has {} bytes and this site takes {max}", part.total);
            caller.refused = Some((part.name, (RegisterRefusal::TooMuch, detail)));
            return;
        }
        if part.offset == 0 {
            caller.arriving = Some((part.name, Vec::with_capacity(part.total as usize)));
        }
        let Some((name, arrived)) = &mut caller.arriving else { return };
        if *name != part.name || arrived.len() != part.offset as usize {
            // Registering will show that the code is still needed.
            caller.arriving = None;
            return;
        }
        arrived.extend_from_slice(code);
        if arrived.len() < part.total as usize {
            return;
        }
        let image = FunctionImage::from_bytes(std::mem::take(arrived));
        caller.arriving = None;
        caller.refused = self.shared.offer(caller.caller, part.name, image).err().map(|no| (part.name, no));
    }

    pub(super) fn register(
        &mut self,
        link: LinkId,
        bytes: &[u8],
        regions: &mut impl FindRegion<Region = R>,
        outbox: &mut Outbox,
    ) {
        let (handle, judged) = match Register::decode(bytes) {
            Ok(register) => (register.handle, self.judge(link, &register, regions, outbox)),
            Err(error) => (0, Err((RegisterRefusal::Malformed, error.to_string()))),
        };
        let (verdict, detail) = match judged {
            Ok(verdict) => (verdict, String::new()),
            Err((refusal, detail)) => {
                self.counts.refused += 1;
                (RegisterVerdict::Refused(refusal), detail)
            }
        };
        self.answer.clear();
        Registered { handle, verdict, detail }.encode(&mut self.answer);
        outbox.push_copy(link, FrameHead::new(REGISTERED).with_tag(handle), &self.answer);
    }

    fn judge(
        &mut self,
        link: LinkId,
        register: &Register,
        regions: &mut impl FindRegion<Region = R>,
        outbox: &mut Outbox,
    ) -> Result<RegisterVerdict, Refused> {
        let config = *self.executor.config();
        if register.fuel > config.fuel_max || register.reply_max > config.reply_max {
            let (fuel, reply) = (config.fuel_max, config.reply_max);
            let detail =
                format!("this site gives at most {fuel} of fuel (calling.fuel) and {reply} bytes of reply");
            return Err((RegisterRefusal::OverQuota, detail));
        }
        let Some(caller) = self.links.get_mut(&link) else {
            let detail = "no caller has opened this link for calls, or there are too many callers";
            return Err((RegisterRefusal::Malformed, detail.to_owned()));
        };
        let Some(regions) = find_all(caller.caller, &register.regions, regions)? else {
            return Ok(RegisterVerdict::Preparing);
        };
        let found = self.shared.functions().find(register.name);
        let function = match found {
            Found::Ready(function) => function,
            Found::Preparing => return Ok(RegisterVerdict::Preparing),
            Found::Bad(refusal, detail) => return Err((refusal, detail)),
            Found::Nothing => {
                return match caller.refused.take_if(|(name, _)| *name == register.name) {
                    Some((_, no)) => Err(no),
                    None => Ok(RegisterVerdict::NeedsCode),
                };
            }
        };
        let (fuel, reply_max) = (register.fuel, register.reply_max);
        let binding = Binding { function, regions, fuel, reply_max };
        for call in self.executor.bind(caller.client, register.handle, binding) {
            fail(outbox, (link, self.label), call, CallFailure::NoFunction);
        }
        Ok(RegisterVerdict::Ready)
    }
}

/// The regions of a function, each with what it may do there.
pub(crate) type Regions<R> = Vec<(R, Rights)>;

/// All regions of a function, if all are known.
pub(crate) fn find_all<F: FindRegion>(
    by: CallerId,
    allowed: &[Allowed],
    regions: &mut F,
) -> Result<Option<Regions<F::Region>>, Refused> {
    let mut found = Vec::with_capacity(allowed.len());
    let mut is_complete = true;
    for allowed in allowed {
        match regions.find(by, allowed)? {
            Some(region) => found.push((region, allowed.rights)),
            None => is_complete = false,
        }
    }
    Ok(is_complete.then_some(found))
}
