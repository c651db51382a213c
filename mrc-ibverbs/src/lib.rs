//! `libibverbs.so.1` over the MRC userspace NIC: programs written for RDMA hardware run unmodified over AF_XDP and SRv6.
//!
//! Only RDMA WRITE and WRITE WITH IMMEDIATE exist on the wire; everything else is refused with EOPNOTSUPP. What the library
//! needs to know of the host is in one TOML file (`mrc_verbs_shim::host`). Start programs with `mrc verbs-run`, which sets
//! the library path.
//!
//! | module | owns |
//! |---|---|
//! | `exports` | which symbol has which version, and what stands behind it |
//! | `abi` | C structures and numbers |
//! | `object` | the table of live handles, `errno` |
//! | `stderr` | how the log reaches standard error |
//! | `engine` | the device under all contexts of a process: opened by the first protection domain or CQ, closed by the last |
//! | `device`, `query` | device list, contexts; what devices, ports and GIDs say of themselves |
//! | `memory`, `share` | protection domains, memory regions; several handles of one |
//! | `cq`, `qp`, `work`, `events` | queues, their state machine, posting, what sleeps and wakes |
//! | `wait` | how a thread waits for an event, so that a program can cancel it |
//! | `text` | names of numbers |
//! | `mrc` | the calls of `mrc.h` and `mrc_ctl.h` |
//!
//! **Progress** is the device's own thread (`mrc_afxdp::device`): it works while the application spins on memory or sleeps
//! in TCP. Posts and completions pass through lock-free rings, one for each QP's sends and receives and one per CQ. The
//! application's side of a ring is behind a lock as in hardware providers, since verbs allow any thread to use any object;
//! it is never contended unless the application does so.
//!
//! **One process per device.** An interface's AF_XDP queue has one owner; a second process that opens the same device is
//! told who holds it. Several processes on one host need one device (set of interfaces and addresses) each. Looking
//! (`ibv_devinfo`) needs no queue and always works.
//!
//! **`fork`**: the device stays with the parent. A child may exec or exit, destroy its copies of objects (which succeeds
//! without the device) or open a device of its own; nothing it does harms the parent.
//!
//! **`lib_mrc.so`** takes a `struct ibv_context *` made here, so that its calls run in this library: they are exported under
//! the node `IBVERBS_MRC_1`, and `lib_mrc.so` (crate `mrc-libmrc`) forwards to them.
#![deny(unsafe_op_in_unsafe_fn)]
// The signatures of the exported functions are C's; their contract is the manual page of each.
#![allow(clippy::missing_safety_doc)]

mod abi;
mod cq;
mod device;
mod engine;
mod events;
mod exports;
mod memory;
mod mrc;
mod object;
mod qp;
mod query;
mod share;
mod stderr;
mod text;
mod wait;
mod work;
