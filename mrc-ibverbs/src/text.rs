//! Names of numbers, as rdma-core words them, and the arithmetic of rates.

use core::ffi::{CStr, c_char, c_int};

fn name(names: &[&'static CStr], index: c_int, unknown: &'static CStr) -> *const c_char {
    usize::try_from(index).ok().and_then(|index| names.get(index)).unwrap_or(&unknown).as_ptr()
}

pub(crate) unsafe extern "C" fn node_type_str(node_type: c_int) -> *const c_char {
    let names = [
        c"unknown",
        c"InfiniBand channel adapter",
        c"InfiniBand switch",
        c"InfiniBand router",
        c"iWARP NIC",
        c"usNIC",
        c"usNIC UDP",
        c"unspecified",
    ];
    name(&names, node_type, c"unknown")
}

pub(crate) unsafe extern "C" fn port_state_str(state: c_int) -> *const c_char {
    let names = [c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];
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
        c"WQ fatal",
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
const RATES: [(c_int, c_int, c_int); 23] = [
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
    (19, 11, 28_125),
    (20, 20, 53_125),
    (21, 160, 425_000),
    (22, 240, 637_500),
    (23, 320, 850_000),
    (24, 480, 1_275_000),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes from 19 on are those of lanes with 28, 53 and 106 Gb/s, which are not round.
    #[test]
    fn rates_are_those_of_rdma_core() {
        let of = |code| {
            // SAFETY: these functions take any number.
            let (mult, mbps) = unsafe { (rate_to_mult(code), rate_to_mbps(code)) };
            // SAFETY: as above.
            let back = unsafe { (mult_to_rate(mult), mbps_to_rate(mbps)) };
            (mult, mbps, back)
        };
        assert_eq!(of(2), (1, 2_500, (2, 2)));
        assert_eq!(of(18), (-1, 309_375, (0, 18)));
        assert_eq!(of(19), (11, 28_125, (19, 19)));
        assert_eq!(of(20), (20, 53_125, (20, 20)));
        assert_eq!(of(23), (320, 850_000, (23, 23)));
        assert_eq!(of(24), (480, 1_275_000, (24, 24)));
        assert_eq!(of(25), (-1, -1, (0, 0)));
    }

    #[test]
    fn every_number_that_verbs_name_has_its_name() {
        // SAFETY: a constant string with a final zero.
        let text = |pointer| unsafe { CStr::from_ptr(pointer) }.to_str().unwrap();
        // SAFETY: these functions take any number.
        unsafe {
            assert_eq!(
                [4, 5, 6, 7, 8].map(|node| text(node_type_str(node))),
                ["iWARP NIC", "usNIC", "usNIC UDP", "unspecified", "unknown"]
            );
            assert_eq!(
                [0, 1, 4, 5, 6].map(|state| text(port_state_str(state))),
                ["no state change (NOP)", "down", "active", "active defer", "unknown"]
            );
            assert_eq!(
                [18, 19, 20].map(|event| text(event_type_str(event))),
                ["GID table change", "WQ fatal", "unknown"]
            );
        }
    }
}
