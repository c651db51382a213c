//! AF_XDP userspace NIC for the MRC engine: ports, packet memory, rings, link events, registered memory.
//!
//! * [`Port`] is one interface (one plane): [`XskPort`] through AF_XDP, [`RawPort`] through a packet socket.
//! * [`PacketFilter`] says which packets are taken; all others stay with the kernel.
//! * [`LinkMonitor`] reports carrier loss and vanished interfaces.
//! * [`spsc`] queues and [`Doorbell`] connect application threads with the progress thread.
//! * [`MemRegion`] is registered memory: raw bytes under the placement contract.
//!
//! Unsafe code lives in `umem`, `ring` and `sys` only. Root tests skip by name and reason without rights; the loom
//! tests run with `RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p mrc-afxdp --lib loom`.

#![deny(unsafe_code)]

mod absent_port;
mod bpf;
mod config;
pub mod device;
mod error;
mod filter;
mod frame;
mod interface;
mod link;
mod netlink;
mod port;
pub mod probe;
mod raw_port;
#[allow(unsafe_code)]
mod ring;
mod socket;
#[allow(unsafe_code)]
mod sys;
#[allow(unsafe_code)]
mod umem;
mod xsk_port;

pub use absent_port::AbsentPort;
pub use config::{Attach, CHUNK_BYTES, Mode, Obtained, RawConfig, TX_SLOT_BYTES, XskConfig};
pub use error::{Problem, SetupError};
pub use filter::{PacketFilter, Sid, UDP_PORT_ALTERNATE, UDP_PORT_ROCE};
pub use interface::{AttachedXdp, Interface};
pub use link::{LinkEvent, LinkMonitor, LinkState};
pub use port::{AnyPort, MAX_FRAGMENTS, Port, PortError, PortStats, RxFrame, TxSlot};
pub use raw_port::RawPort;
pub use ring::doorbell::Doorbell;
pub use ring::spsc;
pub use sys::private_fd::Private;
pub use sys::process::{Owner, trusted_env, without_signals};
pub use umem::mem::{MemRegion, OutOfBounds};
pub use xsk_port::XskPort;
