//! `Endpoint::new` and `Import`, as firmware calls them: storage in a static.

use core::hint::black_box;

use mrc_core::path::{EvEntry, EvSlot};
use mrc_core::{
    CcProfile, Completion, CqSlot, Endpoint, EndpointConfig, EvProfileSlot, EventSlot, ImageError, Immediate, Import,
    Limits, MrSlot, PeerSlot, PlaneSlot, Qp, Qpcc, RecvWqe, Refusal, RouteSlot, RxWord, Storage, TimerSlot, TxRecord, TxWord, Wqe,
};

use crate::{any, some};

const QPS: usize = 2;
const MPR: usize = 1;
const SQ: usize = 16;
const RQ: usize = 16;
const WIMM: usize = 8;
const EVS: usize = 16;
const CQS: usize = 2;
const DEPTH: usize = 16;
const PLANES: usize = 2;

/// Everything one endpoint lives in; a few KiB in a static.
struct Memory {
    qps: [Qp; QPS],
    timers: [TimerSlot; QPS],
    tx_records: [TxRecord; QPS * MPR * 128],
    tx_words: [TxWord; QPS * MPR * 2],
    rx_words: [RxWord; QPS * MPR * 2],
    wqes: [Wqe; QPS * SQ],
    recvs: [RecvWqe; QPS * RQ],
    immediates: [Immediate; QPS * WIMM],
    ev_slots: [EvSlot; QPS * EVS],
    ev_order: [u16; QPS * EVS],
    cqs: [CqSlot; CQS],
    completions: [Completion; CQS * DEPTH],
    mrs: [MrSlot; 4],
    peers: [PeerSlot; 1],
    planes: [PlaneSlot; PLANES],
    routes: [RouteSlot; 1],
    ev_entries: [EvEntry; EVS],
    ev_profiles: [EvProfileSlot; 1],
    cc_profiles: [CcProfile; 2],
    qpccs: [Qpcc; 2],
    refusals: [Refusal; 8],
    events: [EventSlot; 8],
}

static mut MEMORY: Memory = Memory {
    qps: [const { Qp::EMPTY }; QPS],
    timers: [TimerSlot::EMPTY; QPS],
    tx_records: [TxRecord::EMPTY; QPS * MPR * 128],
    tx_words: [TxWord::EMPTY; QPS * MPR * 2],
    rx_words: [RxWord::EMPTY; QPS * MPR * 2],
    wqes: [Wqe::EMPTY; QPS * SQ],
    recvs: [RecvWqe::EMPTY; QPS * RQ],
    immediates: [Immediate::EMPTY; QPS * WIMM],
    ev_slots: [EvSlot::EMPTY; QPS * EVS],
    ev_order: [0; QPS * EVS],
    cqs: [CqSlot::EMPTY; CQS],
    completions: [Completion::EMPTY; CQS * DEPTH],
    mrs: [MrSlot::EMPTY; 4],
    peers: [PeerSlot::EMPTY; 1],
    planes: [const { PlaneSlot::EMPTY }; PLANES],
    routes: [RouteSlot::EMPTY; 1],
    ev_entries: [EvEntry::EMPTY; EVS],
    ev_profiles: [EvProfileSlot::EMPTY; 1],
    cc_profiles: [CcProfile::EMPTY; 2],
    qpccs: [Qpcc::EMPTY; 2],
    refusals: [Refusal::EMPTY; 8],
    events: [None; 8],
};

const LIMITS: Limits = Limits {
    qps: QPS,
    mpr: MPR,
    tx_packets: MPR * 128,
    send_queue: SQ,
    recv_queue: RQ,
    wimm: WIMM,
    evs: EVS,
    active_evs: EVS,
    cqs: CQS,
    cq_depth: DEPTH,
    mrs: 4,
    peers: 1,
    planes: PLANES,
    srv6_peers: 1,
    ev_profiles: 1,
    profile_evs: EVS,
    cc_profiles: 2,
    qpccs: 2,
    refusals: 8,
    events: 8,
};

images! {
    image_new(_e) new().is_some();
    image_import_new(_e) import_new().is_some();
    image_feed(_e) any::<Import<'_>>().feed(some());
    image_finish(_e) finish();
    image_image_error(_e) core::fmt::Write::write_fmt(any::<Text>(), format_args!("{}", any::<ImageError>()));
}

/// Somewhere to write text to.
struct Text(usize);

impl core::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0 = self.0.wrapping_add(text.len());
        Ok(())
    }
}

fn new() -> Option<Endpoint<'static>> {
    black_box(Endpoint::new(config(), storage(), black_box(1))).ok()
}

fn import_new() -> Option<Import<'static>> {
    black_box(Import::new(config(), storage())).ok()
}

fn finish() -> bool {
    let import = import_new();
    let complete = import.as_ref().is_some_and(Import::is_complete);
    complete && black_box(import.map(Import::finish)).is_some()
}

fn config() -> EndpointConfig {
    black_box(EndpointConfig::default())
}

fn storage() -> Storage<'static> {
    // SAFETY: the only reference ever made to the static, by the only thread there is.
    let m = unsafe { &mut *black_box(&raw mut MEMORY) };
    Storage {
        limits: black_box(LIMITS),
        qps: &mut m.qps,
        timers: &mut m.timers,
        tx_records: &mut m.tx_records,
        tx_words: &mut m.tx_words,
        rx_words: &mut m.rx_words,
        wqes: &mut m.wqes,
        recvs: &mut m.recvs,
        immediates: &mut m.immediates,
        ev_slots: &mut m.ev_slots,
        ev_order: &mut m.ev_order,
        cqs: &mut m.cqs,
        completions: &mut m.completions,
        mrs: &mut m.mrs,
        peers: &mut m.peers,
        planes: &mut m.planes,
        routes: &mut m.routes,
        ev_entries: &mut m.ev_entries,
        ev_profiles: &mut m.ev_profiles,
        cc_profiles: &mut m.cc_profiles,
        qpccs: &mut m.qpccs,
        refusals: &mut m.refusals,
        events: &mut m.events,
    }
}
