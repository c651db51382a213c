//! The packet filter as programs: XDP (`xdp`) and classic socket filter (`classic`).
//!
//! Both are assembled at load time with the addresses and ports baked in, so that they need no map lookup, no compiler
//! and no object file. `mrc_xdp.bpf.c` is the same rule in C; a test compares the two where clang is present.

pub(crate) mod classic;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod tests;
pub(crate) mod xdp;
