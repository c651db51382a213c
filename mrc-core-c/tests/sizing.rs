//! The tables of `docs/embedding.md` are true: each number an upper bound, and at most a tenth above what it bounds.

use std::fs;

use mrc_core::path::{EvEntry, EvSlot};
use mrc_core::{
    CcProfile, Completion, EventSlot, Immediate, Limits, MrSlot, PeerSlot, PlaneSlot, Qp, Qpcc, RecvWqe, Refusal,
    RouteSlot, RxWord, TimerSlot, TxRecord, TxWord, Wqe,
};

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
