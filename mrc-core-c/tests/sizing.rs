//! The tables of `docs/embedding.md` are true: each number an upper bound, and at most a tenth above what it bounds.

use std::fs;

use mrc_core::path::{EvEntry, EvSlot};
use mrc_core::{
    CcProfile, Completion, EventSlot, Immediate, Limits, MrSlot, PeerSlot, PlaneSlot, Qp, Qpcc, RecvWqe, Refusal,
    RouteSlot, RxWord, TimerSlot, TxRecord, TxWord, Wqe,
};
use mrc_core_c::{mrc_core_bytes_per_qp, mrc_core_config_default, mrc_core_limits, mrc_core_storage_size};

/// Rows of the table behind `mark`, as cells without emphasis.
fn table(mark: &str) -> Vec<Vec<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/embedding.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once(&format!("<!-- sizing: {mark} -->\n")).unwrap();
    let rows = rest.lines().take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').replace(['*', '`'], "").split('|').map(|cell| cell.trim().into()).collect())
        .collect()
}

fn holds(what: &str, documented: usize, actual: usize) {
    println!("{what}: {actual} bytes, documented {documented}");
    assert!(actual <= documented, "docs/embedding.md promises {documented} bytes for {what}, it costs {actual}");
    assert!(
        documented <= actual + actual / 10,
        "docs/embedding.md says {documented} bytes for {what}, it costs {actual}"
    );
}

fn number(cell: &str) -> usize {
    cell.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn bytes_per_qp() {
    let rows = table("per QP");
    assert!(rows.len() >= 5);
    let mut budget = None;
    for row in rows {
        let (active, backup) = row[1].split_once('+').unwrap();
        let limits = Limits {
            mpr: number(&row[0]),
            evs: number(active) + number(backup),
            active_evs: number(active),
            send_queue: number(&row[2]),
            recv_queue: number(&row[3]),
            wimm: number(&row[4]),
            ..Limits::default()
        };
        limits.check().unwrap();
        holds(&row.join(", "), number(&row[5]), limits.bytes_per_qp());
        if limits.mpr == 8 && limits.active_evs == 128 && limits.send_queue == 64 {
            budget = Some(limits.bytes_per_qp());
        }
    }
    assert!(budget.unwrap() <= 24 * 1024, "the budget for MPR 8 with 128 EVs, both directions");
}

#[test]
fn bytes_per_element() {
    let sizes = [
        ("Qp", size_of::<Qp>()),
        ("TimerSlot", size_of::<TimerSlot>()),
        ("TxRecord", size_of::<TxRecord>()),
        ("TxWord", size_of::<TxWord>()),
        ("RxWord", size_of::<RxWord>()),
        ("Wqe", size_of::<Wqe>()),
        ("RecvWqe", size_of::<RecvWqe>()),
        ("Immediate", size_of::<Immediate>()),
        ("EvSlot", size_of::<EvSlot>()),
        ("PeerSlot", size_of::<PeerSlot>()),
        ("PlaneSlot", size_of::<PlaneSlot>()),
        ("RouteSlot", size_of::<RouteSlot>()),
        ("EvEntry", size_of::<EvEntry>()),
        ("MrSlot", size_of::<MrSlot>()),
        ("Completion", size_of::<Completion>()),
        ("EventSlot", size_of::<EventSlot>()),
        ("CcProfile", size_of::<CcProfile>()),
        ("Qpcc", size_of::<Qpcc>()),
        ("Refusal", size_of::<Refusal>()),
    ];
    let rows = table("parts");
    assert_eq!(rows.len(), sizes.len());
    for (row, (name, size)) in rows.iter().zip(sizes) {
        assert_eq!(row[0], name);
        holds(name, number(&row[1]), size);
    }
}

fn storage(limits: &mrc_core_limits) -> usize {
    // SAFETY: a reference is a pointer to limits.
    unsafe { mrc_core_storage_size(limits) }
}

#[test]
fn bytes_per_endpoint() {
    let mut config = std::mem::MaybeUninit::uninit();
    // SAFETY: filled by the call.
    let defaults = unsafe {
        mrc_core_config_default(config.as_mut_ptr());
        mrc_core_limits { qps: 1, ..config.assume_init().limits }
    };
    let of_each = mrc_core_limits {
        qps: 1,
        mpr: 8,
        tx_packets: 1024,
        send_queue: 64,
        recv_queue: 128,
        wimm: 32,
        evs: 192,
        active_evs: 128,
        cqs: 1,
        cq_depth: 64,
        mrs: 1,
        peers: 1,
        planes: 1,
        srv6_peers: 1,
        ev_profiles: 1,
        profile_evs: 192,
        cc_profiles: 1,
        qpccs: 1,
        refusals: 16,
        events: 16,
    };
    let few = mrc_core_limits {
        mpr: 1,
        tx_packets: 128,
        send_queue: 4,
        recv_queue: 0,
        wimm: 0,
        evs: 8,
        active_evs: 8,
        cq_depth: 16,
        profile_evs: 8,
        ..of_each
    };
    let rows = table("endpoints");
    assert_eq!(rows.len(), 3);
    for (row, limits) in rows.iter().zip([defaults, of_each, few]) {
        holds(&row[0], number(&row[1]), storage(&limits));
        // SAFETY: a reference is a pointer to limits.
        holds(&row[0], number(&row[2]), unsafe { mrc_core_bytes_per_qp(&limits) });
    }
    let without = |limits: mrc_core_limits| storage(&defaults) - storage(&limits);
    let parts = [
        without(mrc_core_limits { cqs: 1, ..defaults }) / 7 * 8,
        without(mrc_core_limits { ev_profiles: 1, ..defaults }) / 3 * 4,
        without(mrc_core_limits { refusals: 0, ..defaults }),
        without(mrc_core_limits { events: 0, ..defaults }),
    ];
    let rows = table("default limits");
    assert_eq!(rows.len(), parts.len());
    for (row, bytes) in rows.iter().zip(parts) {
        holds(&row[0], number(&row[1]), bytes);
    }
}
