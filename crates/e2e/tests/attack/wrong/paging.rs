//! Far memory: attachments, fetches and write-backs of what is not there, not theirs, or not so large.

use outboard_e2e::Random;
use outboard_wire::paging::{
    AttachRegion, CacheMode, DetachRegion, Fence, Fetch, PagingRequest, Urgency, WriteBack,
};
use outboard_wire::{Generation, Grant, Incarnation, RegionDescriptor, RegionId, Rights, Role};

use super::Episode;
use super::control::tenant;
use super::forge::{self, edge, mostly_below, perhaps, rights};
use super::raw::{Hung, Raw};
use crate::scene::Scene;

const MODES: [CacheMode; 4] = [CacheMode::Off, CacheMode::Static, CacheMode::Dynamic, CacheMode::Auto];

fn server_of(descriptor: &RegionDescriptor) -> Incarnation {
    descriptor.extents.first().map_or(Incarnation(0), |extent| extent.incarnation)
}

fn send(link: &mut Raw, tag: u32, request: &PagingRequest, data: &[u8], random: &mut Random) -> Episode {
    let payload = perhaps([request.encode().as_bytes(), data].concat(), random);
    link.frame_patiently(outboard_wire::FrameHead::new(request.kind()).with_tag(tag), &payload)
}

fn attachment(descriptor: &RegionDescriptor, grant: Grant, random: &mut Random) -> AttachRegion {
    AttachRegion {
        grant,
        server: if random.once_in(8) { Incarnation(edge(random)) } else { server_of(descriptor) },
        chunk_log2: 12 + random.below(19) as u8,
        rights: if random.once_in(2) { Rights::READ } else { rights(random) },
        mode: MODES[random.below(4) as usize],
        epoch: if random.once_in(2) { edge(random) } else { descriptor.epoch },
    }
}

/// Attachments with a grant that is larger than the region, of another chunk size, mode, epoch or server.
pub(super) fn attach(scene: &Scene, random: &mut Random) -> Episode {
    let (_owner, descriptor) = tenant(scene, random)?;
    let mut link = Raw::connect(scene.agent(random), Role::Application, random)?;
    for tag in 0..60 {
        let grant = forge::grant(Some(&descriptor.grant), random);
        let attach = attachment(&descriptor, grant, random);
        send(&mut link, tag, &PagingRequest::Attach(attach), &[], random)?;
        if random.once_in(3) {
            let fetch = any_fetch(&descriptor.grant, random);
            send(&mut link, tag, &PagingRequest::Fetch(fetch), &[], random)?;
        }
        if random.once_in(8) {
            let (region, generation) = (descriptor.grant.region, descriptor.grant.generation);
            send(&mut link, tag, &PagingRequest::Detach(DetachRegion { region, generation }), &[], random)?;
        }
        link.take();
    }
    Ok(())
}

fn any_fetch(grant: &Grant, random: &mut Random) -> Fetch {
    Fetch {
        region: if random.once_in(8) { RegionId(mostly_below(64, random)) } else { grant.region },
        generation: if random.once_in(8) { Generation(edge(random) as u32) } else { grant.generation },
        offset: mostly_below(grant.size, random),
        length: mostly_below(1 << 14, random) as u32,
        urgency: if random.once_in(2) { Urgency::Demand } else { Urgency::Background },
    }
}

/// A link to the agent on which the region is attached in order.
fn attached(scene: &Scene, descriptor: &RegionDescriptor, random: &mut Random) -> Result<Raw, Hung> {
    let mut link = Raw::connect(scene.agent(random), Role::Application, random)?;
    let attach = AttachRegion {
        grant: descriptor.grant,
        server: server_of(descriptor),
        chunk_log2: 12,
        rights: Rights::READ.and(Rights::WRITE),
        mode: MODES[random.below(4) as usize],
        epoch: descriptor.epoch,
    };
    let request = PagingRequest::Attach(attach);
    link.frame(outboard_wire::FrameHead::new(request.kind()).with_tag(9), request.encode().as_bytes())?;
    link.await_frame(|head| head.tag == 9)?;
    Ok(link)
}

/// Bytes of anything, also of what was detached at that moment.
pub(super) fn fetch(scene: &Scene, random: &mut Random) -> Episode {
    let (_owner, descriptor) = tenant(scene, random)?;
    let mut link = attached(scene, &descriptor, random)?;
    for tag in 0..150 {
        let fetch = any_fetch(&descriptor.grant, random);
        send(&mut link, tag, &PagingRequest::Fetch(fetch), &[], random)?;
        if random.once_in(40) {
            let (region, generation) = (descriptor.grant.region, descriptor.grant.generation);
            send(&mut link, tag, &PagingRequest::Detach(DetachRegion { region, generation }), &[], random)?;
        }
        link.take();
    }
    Ok(())
}

/// Bytes for places, epochs and regions that are not the sender's, at the agent and at the server.
pub(super) fn write_back(scene: &Scene, random: &mut Random) -> Episode {
    let (mut owner, descriptor) = tenant(scene, random)?;
    let mut by_agent = attached(scene, &descriptor, random)?;
    let Grant { region, generation, key, size, .. } = descriptor.grant;
    for tag in 0..80 {
        let link = if random.once_in(2) { &mut owner } else { &mut by_agent };
        let length = mostly_below(8192, random) as u32;
        let back = WriteBack {
            region: if random.once_in(8) { RegionId(mostly_below(64, random)) } else { region },
            generation,
            key: if random.once_in(6) { forge::key(random) } else { key },
            epoch: if random.once_in(2) { edge(random) } else { descriptor.epoch },
            offset: mostly_below(size, random),
            length,
        };
        let data = vec![0xa5; (length as usize).min(8192)];
        send(link, tag, &PagingRequest::WriteBack(back), &data, random)?;
        if random.once_in(4) {
            let (offset, length) = (back.offset & !4095, edge(random) as u32);
            let back = WriteBack { offset, length: if random.once_in(2) { 4096 } else { length }, ..back };
            send(link, tag, &PagingRequest::Discard(back), &[], random)?;
        }
        if random.once_in(4) {
            send(link, tag, &PagingRequest::Fence(Fence { region, generation, key }), &[], random)?;
        }
        link.take();
    }
    Ok(())
}

/// As much as may be under way, and none of it is taken.
pub(super) fn never_listens(scene: &Scene, random: &mut Random) -> Episode {
    let (_owner, descriptor) = tenant(scene, random)?;
    let mut link = attached(scene, &descriptor, random)?;
    let (region, generation) = (descriptor.grant.region, descriptor.grant.generation);
    for tag in 0..600 {
        let (length, urgency) = (1 << 14, Urgency::Demand);
        let offset = random.below(descriptor.grant.size - u64::from(length));
        let request = PagingRequest::Fetch(Fetch { region, generation, offset, length, urgency });
        let head = outboard_wire::FrameHead::new(request.kind()).with_tag(tag);
        if !link.frame(head, request.encode().as_bytes())? {
            break;
        }
    }
    std::thread::park_timeout(std::time::Duration::from_millis(50 + random.below(150)));
    Ok(())
}
