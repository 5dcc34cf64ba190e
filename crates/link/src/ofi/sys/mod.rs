//! libfabric's types as its headers lay them out, those that are used here and no more.
//!
//! The structures are those of interface 1.3 and later, which every release since 1.7 has. [`LAYOUT`] lists sizes and
//! places, and a test compares them with the headers that are installed.

mod values;

use core::ffi::{c_char, c_int, c_void};

pub(in crate::ofi) use values::*;

/// A function that is not called here.
pub(in crate::ofi) type Unused = *const c_void;

#[repr(C)]
pub(in crate::ofi) struct TxAttr {
    pub(in crate::ofi) caps: u64,
    pub(in crate::ofi) mode: u64,
    pub(in crate::ofi) op_flags: u64,
    pub(in crate::ofi) msg_order: u64,
    pub(in crate::ofi) comp_order: u64,
    pub(in crate::ofi) inject_size: usize,
    pub(in crate::ofi) size: usize,
    pub(in crate::ofi) iov_limit: usize,
    pub(in crate::ofi) rma_iov_limit: usize,
    pub(in crate::ofi) tclass: u32,
}

#[repr(C)]
pub(in crate::ofi) struct RxAttr {
    pub(in crate::ofi) caps: u64,
    pub(in crate::ofi) mode: u64,
    pub(in crate::ofi) op_flags: u64,
    pub(in crate::ofi) msg_order: u64,
    pub(in crate::ofi) comp_order: u64,
    pub(in crate::ofi) total_buffered_recv: usize,
    pub(in crate::ofi) size: usize,
    pub(in crate::ofi) iov_limit: usize,
}

#[repr(C)]
pub(in crate::ofi) struct EpAttr {
    pub(in crate::ofi) kind: c_int,
    pub(in crate::ofi) protocol: u32,
    pub(in crate::ofi) protocol_version: u32,
    pub(in crate::ofi) max_msg_size: usize,
    pub(in crate::ofi) msg_prefix_size: usize,
    pub(in crate::ofi) max_order_raw_size: usize,
    pub(in crate::ofi) max_order_war_size: usize,
    pub(in crate::ofi) max_order_waw_size: usize,
    pub(in crate::ofi) mem_tag_format: u64,
    pub(in crate::ofi) tx_ctx_cnt: usize,
    pub(in crate::ofi) rx_ctx_cnt: usize,
    pub(in crate::ofi) auth_key_size: usize,
    pub(in crate::ofi) auth_key: *mut u8,
}

#[repr(C)]
pub(in crate::ofi) struct DomainAttr {
    pub(in crate::ofi) domain: *mut Domain,
    pub(in crate::ofi) name: *mut c_char,
    pub(in crate::ofi) threading: c_int,
    pub(in crate::ofi) control_progress: c_int,
    pub(in crate::ofi) data_progress: c_int,
    pub(in crate::ofi) resource_mgmt: c_int,
    pub(in crate::ofi) av_type: c_int,
    pub(in crate::ofi) mr_mode: c_int,
    pub(in crate::ofi) mr_key_size: usize,
    pub(in crate::ofi) cq_data_size: usize,
    pub(in crate::ofi) cq_cnt: usize,
    pub(in crate::ofi) ep_cnt: usize,
    pub(in crate::ofi) tx_ctx_cnt: usize,
    pub(in crate::ofi) rx_ctx_cnt: usize,
    pub(in crate::ofi) max_ep_tx_ctx: usize,
    pub(in crate::ofi) max_ep_rx_ctx: usize,
    pub(in crate::ofi) max_ep_stx_ctx: usize,
    pub(in crate::ofi) max_ep_srx_ctx: usize,
    pub(in crate::ofi) cntr_cnt: usize,
    pub(in crate::ofi) mr_iov_limit: usize,
    pub(in crate::ofi) caps: u64,
    pub(in crate::ofi) mode: u64,
    pub(in crate::ofi) auth_key: *mut u8,
    pub(in crate::ofi) auth_key_size: usize,
    pub(in crate::ofi) max_err_data: usize,
    pub(in crate::ofi) mr_cnt: usize,
    pub(in crate::ofi) tclass: u32,
}

#[repr(C)]
pub(in crate::ofi) struct FabricAttr {
    pub(in crate::ofi) fabric: *mut Fabric,
    pub(in crate::ofi) name: *mut c_char,
    pub(in crate::ofi) prov_name: *mut c_char,
    pub(in crate::ofi) prov_version: u32,
    pub(in crate::ofi) api_version: u32,
}

#[repr(C)]
pub(in crate::ofi) struct Info {
    pub(in crate::ofi) next: *mut Info,
    pub(in crate::ofi) caps: u64,
    pub(in crate::ofi) mode: u64,
    pub(in crate::ofi) addr_format: u32,
    pub(in crate::ofi) src_addrlen: usize,
    pub(in crate::ofi) dest_addrlen: usize,
    pub(in crate::ofi) src_addr: *mut c_void,
    pub(in crate::ofi) dest_addr: *mut c_void,
    pub(in crate::ofi) handle: *mut Fid,
    pub(in crate::ofi) tx_attr: *mut TxAttr,
    pub(in crate::ofi) rx_attr: *mut RxAttr,
    pub(in crate::ofi) ep_attr: *mut EpAttr,
    pub(in crate::ofi) domain_attr: *mut DomainAttr,
    pub(in crate::ofi) fabric_attr: *mut FabricAttr,
    pub(in crate::ofi) nic: *mut Nic,
}

#[repr(C)]
pub(in crate::ofi) struct BusAttr {
    pub(in crate::ofi) bus_type: c_int,
    pub(in crate::ofi) domain_id: u16,
    pub(in crate::ofi) bus_id: u8,
    pub(in crate::ofi) device_id: u8,
    pub(in crate::ofi) function_id: u8,
}

#[repr(C)]
pub(in crate::ofi) struct Nic {
    pub(in crate::ofi) fid: Fid,
    pub(in crate::ofi) device_attr: *mut c_void,
    pub(in crate::ofi) bus_attr: *mut BusAttr,
    pub(in crate::ofi) link_attr: *mut c_void,
    pub(in crate::ofi) prov_attr: *mut c_void,
}

#[repr(C)]
pub(in crate::ofi) struct Fid {
    pub(in crate::ofi) fclass: usize,
    pub(in crate::ofi) context: *mut c_void,
    pub(in crate::ofi) ops: *const FidOps,
}

#[repr(C)]
pub(in crate::ofi) struct FidOps {
    pub(in crate::ofi) size: usize,
    pub(in crate::ofi) close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub(in crate::ofi) bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub(in crate::ofi) control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
    pub(in crate::ofi) ops_open: Unused,
}

#[repr(C)]
pub(in crate::ofi) struct Fabric {
    pub(in crate::ofi) fid: Fid,
    pub(in crate::ofi) ops: *const FabricOps,
    pub(in crate::ofi) api_version: u32,
}

#[repr(C)]
pub(in crate::ofi) struct FabricOps {
    pub(in crate::ofi) size: usize,
    pub(in crate::ofi) domain:
        unsafe extern "C" fn(*mut Fabric, *mut Info, *mut *mut Domain, *mut c_void) -> c_int,
    pub(in crate::ofi) passive_ep: Unused,
    pub(in crate::ofi) eq_open: Unused,
    pub(in crate::ofi) wait_open: Unused,
    pub(in crate::ofi) trywait: unsafe extern "C" fn(*mut Fabric, *mut *mut Fid, c_int) -> c_int,
}

#[repr(C)]
pub(in crate::ofi) struct Domain {
    pub(in crate::ofi) fid: Fid,
    pub(in crate::ofi) ops: *const DomainOps,
    pub(in crate::ofi) mr: *const MrOps,
}

#[repr(C)]
pub(in crate::ofi) struct DomainOps {
    pub(in crate::ofi) size: usize,
    pub(in crate::ofi) av_open:
        unsafe extern "C" fn(*mut Domain, *mut AvAttr, *mut *mut Av, *mut c_void) -> c_int,
    pub(in crate::ofi) cq_open:
        unsafe extern "C" fn(*mut Domain, *mut CqAttr, *mut *mut Cq, *mut c_void) -> c_int,
    pub(in crate::ofi) endpoint:
        unsafe extern "C" fn(*mut Domain, *mut Info, *mut *mut Ep, *mut c_void) -> c_int,
}

#[repr(C)]
pub(in crate::ofi) struct MrOps {
    pub(in crate::ofi) size: usize,
    pub(in crate::ofi) reg: unsafe extern "C" fn(
        *mut Fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut Mr,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub(in crate::ofi) struct Mr {
    pub(in crate::ofi) fid: Fid,
    pub(in crate::ofi) mem_desc: *mut c_void,
    pub(in crate::ofi) key: u64,
}

#[repr(C)]
pub(in crate::ofi) struct AvAttr {
    pub(in crate::ofi) kind: c_int,
    pub(in crate::ofi) rx_ctx_bits: c_int,
    pub(in crate::ofi) count: usize,
    pub(in crate::ofi) ep_per_node: usize,
    pub(in crate::ofi) name: *const c_char,
    pub(in crate::ofi) map_addr: *mut c_void,
    pub(in crate::ofi) flags: u64,
}

#[repr(C)]
pub(in crate::ofi) struct Av {
    pub(in crate::ofi) fid: Fid,
    pub(in crate::ofi) ops: *const AvOps,
}

#[repr(C)]
pub(in crate::ofi) struct AvOps {
    pub(in crate::ofi) size: usize,
    pub(in crate::ofi) insert:
        unsafe extern "C" fn(*mut Av, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
}

#[repr(C)]
pub(in crate::ofi) struct CqAttr {
    pub(in crate::ofi) size: usize,
    pub(in crate::ofi) flags: u64,
    pub(in crate::ofi) format: c_int,
    pub(in crate::ofi) wait_obj: c_int,
    pub(in crate::ofi) signaling_vector: c_int,
    pub(in crate::ofi) wait_cond: c_int,
    pub(in crate::ofi) wait_set: *mut c_void,
}

#[repr(C)]
pub(in crate::ofi) struct Cq {
    pub(in crate::ofi) fid: Fid,
    pub(in crate::ofi) ops: *const CqOps,
}

#[repr(C)]
pub(in crate::ofi) struct CqOps {
    pub(in crate::ofi) size: usize,
    pub(in crate::ofi) read: unsafe extern "C" fn(*mut Cq, *mut c_void, usize) -> isize,
    pub(in crate::ofi) readfrom: Unused,
    pub(in crate::ofi) readerr: unsafe extern "C" fn(*mut Cq, *mut CqErrEntry, u64) -> isize,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(in crate::ofi) struct CqDataEntry {
    pub(in crate::ofi) op_context: *mut c_void,
    pub(in crate::ofi) flags: u64,
    pub(in crate::ofi) len: usize,
    pub(in crate::ofi) buf: *mut c_void,
    pub(in crate::ofi) data: u64,
}

#[repr(C)]
pub(in crate::ofi) struct CqErrEntry {
    pub(in crate::ofi) op_context: *mut c_void,
    pub(in crate::ofi) flags: u64,
    pub(in crate::ofi) len: usize,
    pub(in crate::ofi) buf: *mut c_void,
    pub(in crate::ofi) data: u64,
    pub(in crate::ofi) tag: u64,
    pub(in crate::ofi) olen: usize,
    pub(in crate::ofi) err: c_int,
    pub(in crate::ofi) prov_errno: c_int,
    pub(in crate::ofi) err_data: *mut c_void,
    pub(in crate::ofi) err_data_size: usize,
}

#[repr(C)]
pub(in crate::ofi) struct Ep {
    pub(in crate::ofi) fid: Fid,
    pub(in crate::ofi) ops: Unused,
    pub(in crate::ofi) cm: *const CmOps,
    pub(in crate::ofi) msg: *const MsgOps,
    pub(in crate::ofi) rma: *const RmaOps,
    pub(in crate::ofi) tagged: Unused,
    pub(in crate::ofi) atomic: Unused,
    pub(in crate::ofi) collective: Unused,
}

#[repr(C)]
pub(in crate::ofi) struct CmOps {
    pub(in crate::ofi) size: usize,
    pub(in crate::ofi) setname: Unused,
    pub(in crate::ofi) getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
}

#[repr(C)]
pub(in crate::ofi) struct Msg {
    pub(in crate::ofi) msg_iov: *const libc::iovec,
    pub(in crate::ofi) desc: *mut *mut c_void,
    pub(in crate::ofi) iov_count: usize,
    pub(in crate::ofi) addr: u64,
    pub(in crate::ofi) context: *mut c_void,
    pub(in crate::ofi) data: u64,
}

#[repr(C)]
pub(in crate::ofi) struct MsgOps {
    pub(in crate::ofi) size: usize,
    pub(in crate::ofi) recv:
        unsafe extern "C" fn(*mut Ep, *mut c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
    pub(in crate::ofi) recvv: Unused,
    pub(in crate::ofi) recvmsg: Unused,
    pub(in crate::ofi) send: Unused,
    pub(in crate::ofi) sendv: Unused,
    pub(in crate::ofi) sendmsg: unsafe extern "C" fn(*mut Ep, *const Msg, u64) -> isize,
}

#[repr(C)]
pub(in crate::ofi) struct RmaIov {
    pub(in crate::ofi) addr: u64,
    pub(in crate::ofi) len: usize,
    pub(in crate::ofi) key: u64,
}

#[repr(C)]
pub(in crate::ofi) struct MsgRma {
    pub(in crate::ofi) msg_iov: *const libc::iovec,
    pub(in crate::ofi) desc: *mut *mut c_void,
    pub(in crate::ofi) iov_count: usize,
    pub(in crate::ofi) addr: u64,
    pub(in crate::ofi) rma_iov: *const RmaIov,
    pub(in crate::ofi) rma_iov_count: usize,
    pub(in crate::ofi) context: *mut c_void,
    pub(in crate::ofi) data: u64,
}

#[repr(C)]
pub(in crate::ofi) struct RmaOps {
    pub(in crate::ofi) size: usize,
    pub(in crate::ofi) read: Unused,
    pub(in crate::ofi) readv: Unused,
    pub(in crate::ofi) readmsg: unsafe extern "C" fn(*mut Ep, *const MsgRma, u64) -> isize,
    pub(in crate::ofi) write: Unused,
    pub(in crate::ofi) writev: Unused,
    pub(in crate::ofi) writemsg: unsafe extern "C" fn(*mut Ep, *const MsgRma, u64) -> isize,
}

/// Memory that a provider may use for itself while an operation is under way.
#[derive(Clone, Copy)]
#[repr(C)]
pub(in crate::ofi) struct Context {
    pub(in crate::ofi) internal: [*mut c_void; 8],
}
