//! Where everything lies in libfabric's structures, to be compared with its headers.

use core::mem::offset_of;

use super::sys;

/// An expression of C, and the value that it must have.
pub type LayoutFact = (&'static str, u64);

macro_rules! facts {
    ($(struct $ours:ident is $theirs:literal { $($field:ident is $name:literal),* $(,)? })*
     tables { $($table:ident is $table_name:literal { $($entry:ident),* $(,)? })* }
     values { $($constant:ident),* $(,)? }) => {
        &[
            $(
                (concat!("sizeof(struct ", $theirs, ")"), size_of::<sys::$ours>() as u64),
                $((concat!("offsetof(struct ", $theirs, ", ", $name, ")"),
                    offset_of!(sys::$ours, $field) as u64),)*
            )*
            $($((concat!("offsetof(struct ", $table_name, ", ", stringify!($entry), ")"),
                offset_of!(sys::$table, $entry) as u64),)*)*
            $((stringify!($constant), sys::$constant as u64),)*
        ]
    };
}

/// Sizes and offsets that the headers must agree with. Tables of functions are listed without their size: later releases append to
/// them.
pub const LAYOUT: &[LayoutFact] = facts! {
    struct TxAttr is "fi_tx_attr" { msg_order is "msg_order", inject_size is "inject_size", size is "size",
        tclass is "tclass" }
    struct RxAttr is "fi_rx_attr" { msg_order is "msg_order", size is "size", iov_limit is "iov_limit" }
    struct EpAttr is "fi_ep_attr" { kind is "type", max_msg_size is "max_msg_size",
        msg_prefix_size is "msg_prefix_size", auth_key is "auth_key" }
    struct DomainAttr is "fi_domain_attr" { name is "name", threading is "threading",
        control_progress is "control_progress", data_progress is "data_progress",
        resource_mgmt is "resource_mgmt", av_type is "av_type", mr_mode is "mr_mode",
        mr_key_size is "mr_key_size", cq_data_size is "cq_data_size", caps is "caps", tclass is "tclass" }
    struct FabricAttr is "fi_fabric_attr" { name is "name", prov_name is "prov_name",
        prov_version is "prov_version" }
    struct Info is "fi_info" { next is "next", caps is "caps", mode is "mode", addr_format is "addr_format",
        src_addrlen is "src_addrlen", src_addr is "src_addr", tx_attr is "tx_attr", rx_attr is "rx_attr",
        ep_attr is "ep_attr", domain_attr is "domain_attr", fabric_attr is "fabric_attr", nic is "nic" }
    struct BusAttr is "fi_bus_attr" { bus_type is "bus_type" }
    struct Nic is "fid_nic" { bus_attr is "bus_attr" }
    struct Fid is "fid" { ops is "ops" }
    struct Fabric is "fid_fabric" { ops is "ops" }
    struct Domain is "fid_domain" { ops is "ops", mr is "mr" }
    struct Mr is "fid_mr" { mem_desc is "mem_desc", key is "key" }
    struct AvAttr is "fi_av_attr" { kind is "type", count is "count", flags is "flags" }
    struct Av is "fid_av" { ops is "ops" }
    struct CqAttr is "fi_cq_attr" { size is "size", format is "format", wait_obj is "wait_obj" }
    struct Cq is "fid_cq" { ops is "ops" }
    struct CqDataEntry is "fi_cq_data_entry" { op_context is "op_context", flags is "flags", len is "len",
        data is "data" }
    struct CqErrEntry is "fi_cq_err_entry" { op_context is "op_context", err is "err",
        prov_errno is "prov_errno", err_data_size is "err_data_size" }
    struct Ep is "fid_ep" { cm is "cm", msg is "msg", rma is "rma" }
    struct Msg is "fi_msg" { desc is "desc", addr is "addr", context is "context", data is "data" }
    struct RmaIov is "fi_rma_iov" { addr is "addr", len is "len", key is "key" }
    struct MsgRma is "fi_msg_rma" { desc is "desc", addr is "addr", rma_iov is "rma_iov",
        context is "context", data is "data" }
    struct Context is "fi_context2" { internal is "internal" }
    tables {
        FidOps is "fi_ops" { close, bind, control }
        FabricOps is "fi_ops_fabric" { domain, trywait }
        DomainOps is "fi_ops_domain" { av_open, cq_open, endpoint }
        MrOps is "fi_ops_mr" { reg }
        AvOps is "fi_ops_av" { insert }
        CqOps is "fi_ops_cq" { read, readerr }
        CmOps is "fi_ops_cm" { getname }
        MsgOps is "fi_ops_msg" { recv, sendmsg }
        RmaOps is "fi_ops_rma" { readmsg, writemsg }
    }
    values {
        FI_MSG, FI_RMA, FI_ATOMIC, FI_READ, FI_WRITE, FI_RECV, FI_SEND, FI_REMOTE_READ, FI_REMOTE_WRITE,
        FI_REMOTE_CQ_DATA, FI_MORE, FI_COMPLETION, FI_DELIVERY_COMPLETE, FI_SOURCE, FI_MR_LOCAL, FI_MR_VIRT_ADDR,
        FI_MR_ALLOCATED, FI_MR_PROV_KEY, FI_MR_ENDPOINT, FI_ORDER_WAW, FI_ORDER_SAW, FI_ORDER_SAS, FI_CONTEXT, FI_CONTEXT2,
        FI_EP_RDM, FI_THREAD_DOMAIN, FI_PROGRESS_UNSPEC, FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL, FI_RM_ENABLED, FI_AV_TABLE, FI_WAIT_NONE,
        FI_WAIT_FD, FI_CQ_FORMAT_DATA, FI_BUS_PCI, FI_GETWAIT, FI_ENABLE, FI_ADDR_UNSPEC, FI_EAGAIN, FI_EAVAIL,
    }
};
