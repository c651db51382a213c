//! Names of numbers, as rdma-core words them, and the arithmetic of rates.

use core::ffi::{CStr, c_char, c_int};

fn name(names: &[&'static CStr], index: c_int, unknown: &'static CStr) -> *const c_char {
    usize::try_from(index).ok().and_then(|index| names.get(index)).unwrap_or(&unknown).as_ptr()
}

pub(crate) unsafe extern "C" fn node_type_str(node_type: c_int) -> *const c_char {
    let names = [c"unknown", c"InfiniBand channel adapter", c"InfiniBand switch", c"InfiniBand router", c"iWARP NIC"];
    name(&names, node_type, c"unknown")
}

pub(crate) unsafe extern "C" fn port_state_str(state: c_int) -> *const c_char {
    let names =
        [c"no state change (NOP)", c"PORT_DOWN", c"PORT_INIT", c"PORT_ARMED", c"PORT_ACTIVE", c"PORT_ACTIVE_DEFER"];
    name(&names, state, c"unknown")
}

pub(crate) unsafe extern "C" fn event_type_str(event: c_int) -> *const c_char {
    let names = [
        c"CQ error",
        c"local work queue catastrophic error",
        c"invalid request local work queue error",
        c"local access violation work queue error",
        c"communication established",
        c"send queue drained",
        c"path migrated",
        c"path migration request error",
        c"local catastrophic error",
        c"port active",
        c"port error",
        c"LID change",
        c"P_Key change",
        c"SM change",
        c"SRQ catastrophic error",
        c"SRQ limit reached",
        c"last WQE reached",
        c"client reregistration",
        c"GID table change",
    ];
    name(&names, event, c"unknown")
}

const OPCODES: [&CStr; 7] = [
    c"RDMA_WRITE",
    c"RDMA_WRITE_WITH_IMM",
    c"SEND",
    c"SEND_WITH_IMM",
    c"RDMA_READ",
    c"ATOMIC_CMP_AND_SWP",
    c"ATOMIC_FETCH_AND_ADD",
];

pub(crate) unsafe extern "C" fn wr_opcode_str(opcode: c_int) -> *const c_char {
    name(&OPCODES, opcode, c"unknown")
}

/// The operation of a work request, for messages.
pub(crate) fn opcode(opcode: u32) -> &'static str {
    let known = OPCODES.get(opcode as usize).and_then(|name| name.to_str().ok());
    known.unwrap_or("this work request")
}

pub(crate) unsafe extern "C" fn wc_status_str(status: c_int) -> *const c_char {
    let names = [
        c"success",
        c"local length error",
        c"local QP operation error",
        c"local EE context operation error",
        c"local protection error",
        c"Work Request Flushed Error",
        c"memory management operation error",
        c"bad response error",
        c"local access error",
        c"remote invalid request error",
        c"remote access error",
        c"remote operation error",
        c"transport retry counter exceeded",
        c"RNR retry counter exceeded",
        c"local RDD violation error",
        c"remote invalid RD request",
        c"aborted error",
        c"invalid EE context number",
        c"invalid EE context state",
        c"fatal error",
        c"response timeout error",
        c"general error",
        c"TM error",
        c"TM software rendezvous",
    ];
    name(&names, status, c"unknown")
}

/// `IBV_RATE_*`, its multiple of 2.5 Gb/s (0 where it is none), its Mb/s.
const RATES: [(c_int, c_int, c_int); 22] = [
    (2, 1, 2_500),
    (5, 2, 5_000),
    (3, 4, 10_000),
    (6, 8, 20_000),
    (4, 12, 30_000),
    (7, 16, 40_000),
    (8, 24, 60_000),
    (9, 32, 80_000),
    (10, 48, 120_000),
    (11, 0, 14_062),
    (12, 0, 56_250),
    (13, 0, 112_500),
    (14, 0, 168_750),
    (15, 0, 25_781),
    (16, 0, 103_125),
    (17, 0, 206_250),
    (18, 0, 309_375),
    (19, 0, 28_125),
    (20, 0, 50_000),
    (21, 0, 400_000),
    (22, 0, 600_000),
    (23, 0, 800_000),
];

fn rate(
    find: impl Fn(&(c_int, c_int, c_int)) -> bool,
    give: impl Fn(&(c_int, c_int, c_int)) -> c_int,
) -> Option<c_int> {
    RATES.iter().find(|rate| find(rate)).map(give)
}

pub(crate) unsafe extern "C" fn rate_to_mult(code: c_int) -> c_int {
    rate(|r| r.0 == code && r.1 > 0, |r| r.1).unwrap_or(-1)
}

pub(crate) unsafe extern "C" fn mult_to_rate(mult: c_int) -> c_int {
    rate(|r| r.1 == mult && mult > 0, |r| r.0).unwrap_or(0)
}

pub(crate) unsafe extern "C" fn rate_to_mbps(code: c_int) -> c_int {
    rate(|r| r.0 == code, |r| r.2).unwrap_or(-1)
}

pub(crate) unsafe extern "C" fn mbps_to_rate(mbps: c_int) -> c_int {
    rate(|r| r.2 == mbps, |r| r.0).unwrap_or(0)
}
