//! The numbers of libfabric's headers.

use core::ffi::c_int;

/// The version of the interface that is asked for: 1.17.
pub(in crate::ofi) const VERSION: u32 = 1 << 16 | 17;

pub(in crate::ofi) const FI_MSG: u64 = 1 << 1;
pub(in crate::ofi) const FI_RMA: u64 = 1 << 2;
pub(in crate::ofi) const FI_ATOMIC: u64 = 1 << 4;
pub(in crate::ofi) const FI_READ: u64 = 1 << 8;
pub(in crate::ofi) const FI_WRITE: u64 = 1 << 9;
pub(in crate::ofi) const FI_RECV: u64 = 1 << 10;
pub(in crate::ofi) const FI_SEND: u64 = 1 << 11;
pub(in crate::ofi) const FI_REMOTE_READ: u64 = 1 << 12;
pub(in crate::ofi) const FI_REMOTE_WRITE: u64 = 1 << 13;
pub(in crate::ofi) const FI_REMOTE_CQ_DATA: u64 = 1 << 17;
pub(in crate::ofi) const FI_MORE: u64 = 1 << 18;
pub(in crate::ofi) const FI_COMPLETION: u64 = 1 << 24;
pub(in crate::ofi) const FI_DELIVERY_COMPLETE: u64 = 1 << 28;
pub(in crate::ofi) const FI_SOURCE: u64 = 1 << 57;

pub(in crate::ofi) const FI_MR_LOCAL: c_int = 1 << 2;
pub(in crate::ofi) const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub(in crate::ofi) const FI_MR_ALLOCATED: c_int = 1 << 5;
pub(in crate::ofi) const FI_MR_PROV_KEY: c_int = 1 << 6;
pub(in crate::ofi) const FI_MR_ENDPOINT: c_int = 1 << 9;

pub(in crate::ofi) const FI_ORDER_WAW: u64 = 1 << 4;
pub(in crate::ofi) const FI_ORDER_SAW: u64 = 1 << 7;
pub(in crate::ofi) const FI_ORDER_SAS: u64 = 1 << 8;

pub(in crate::ofi) const FI_CONTEXT: u64 = 1 << 59;
pub(in crate::ofi) const FI_CONTEXT2: u64 = 1 << 52;

pub(in crate::ofi) const FI_EP_RDM: c_int = 3;
pub(in crate::ofi) const FI_THREAD_DOMAIN: c_int = 3;
pub(in crate::ofi) const FI_PROGRESS_UNSPEC: c_int = 0;
pub(in crate::ofi) const FI_PROGRESS_AUTO: c_int = 1;
pub(in crate::ofi) const FI_PROGRESS_MANUAL: c_int = 2;
pub(in crate::ofi) const FI_RM_ENABLED: c_int = 2;
pub(in crate::ofi) const FI_AV_TABLE: c_int = 2;
pub(in crate::ofi) const FI_WAIT_NONE: c_int = 0;
pub(in crate::ofi) const FI_WAIT_FD: c_int = 3;
pub(in crate::ofi) const FI_CQ_FORMAT_DATA: c_int = 3;
pub(in crate::ofi) const FI_BUS_PCI: c_int = 1;
pub(in crate::ofi) const FI_GETWAIT: c_int = 5;
pub(in crate::ofi) const FI_ENABLE: c_int = 6;
pub(in crate::ofi) const FI_ADDR_UNSPEC: u64 = u64::MAX;

pub(in crate::ofi) const FI_EAGAIN: isize = 11;
pub(in crate::ofi) const FI_EAVAIL: isize = 259;
