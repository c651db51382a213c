//! System calls that rustix does not cover, each behind a safe function: bpf(2), packet sockets, ethtool, mappings,
//! what belongs to one process only.

pub(crate) mod bpf;
pub(crate) mod ethtool;
pub(crate) mod mmap;
pub(crate) mod packet;
pub(crate) mod private_fd;
pub(crate) mod process;
