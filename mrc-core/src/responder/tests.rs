//! Decisions of the responder, one by one: what draws an answer, what is counted, when a Transport ACK is due.

use mrc_wire::{
    BthRepr, Ecn, Encap, Ev, Extension, FrameTemplate, Ip, MethRepr, Msn, NackReason, Opcode, PacketView, Psn, Qpn,
    TsethRepr, Verdict, WireConfig, WriteShape,
};

use super::{
    Acceptance, Added, Answer, AnswerKind, Immediate, PsnWindow, Responder, RxWord, ServiceTime, Stash, WritePacket,
};
use crate::{
    config::{EndpointConfig, RtrAttr},
    time::Instant,
};

const THRESHOLD: u32 = 16_384;

fn cfg() -> EndpointConfig {
    EndpointConfig { sack_gen_threshold: THRESHOLD, ..EndpointConfig::default() }
}

fn responder(first: u32) -> (Responder, [RxWord; 16]) {
    let (peer, profile) = (crate::PeerHandle::from_index(0), crate::EvProfileHandle::from_index(0));
    let attr = RtrAttr::software(peer, Qpn::new(5), Psn::new(first), profile);
    (Responder::start(&attr), [RxWord::EMPTY; 16])
}

/// A write packet, field by field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) psn: Psn,
    pub(super) nominal: u32,
    pub(super) ends_message: bool,
    pub(super) ack_req: bool,
    pub(super) rtx: bool,
    pub(super) ce: bool,
    pub(super) tseth: Option<TsethRepr>,
}

impl Write {
    /// As it is received.
    pub(super) fn read<R>(&self, then: impl FnOnce(WritePacket<'_>) -> R) -> R {
        let (wire, ip, mut out) = (WireConfig::default(), Ip::V6([1; 16]), [0; 192]);
        let template = FrameTemplate::new(&Encap::plain([0; 6], [0; 6], ip, ip), &wire);
        let ecn = if self.ce { Ecn::Ce } else { Ecn::Ect0 };
        let start = template.emit(&mut out, Ev(1), wire.dscp.no_trim, ecn, self.nominal as usize - 48, None).unwrap();
        let opcode = if self.ends_message { Opcode::WriteLast } else { Opcode::WriteMiddle };
        let (ack_req, rtx, ts) = (self.ack_req, self.rtx, self.tseth.is_some());
        let bth = BthRepr { ack_req, rtx, ts, ..BthRepr::new(opcode, Qpn::new(5), self.psn) };
        let (to, rest) = out[start..].split_first_chunk_mut().unwrap();
        bth.emit(to);
        if let Some(tseth) = self.tseth {
            tseth.emit(rest[MethRepr::LEN..].first_chunk_mut().unwrap());
        }
        let view = PacketView::parse(&out, 10_000, &wire, |_| true).unwrap();
        let Extension::Write(headers) = *view.extension() else { panic!("{view:?}") };
        let (ce, now) = (view.ce(), Instant::ZERO);
        let shape = WriteShape::of(&view, &view.payload());
        then(WritePacket { packet: *view, headers, shape, sound: false, ce, now })
    }
}

fn middle(psn: u32) -> Write {
    Write {
        psn: Psn::new(psn),
        nominal: 1_200,
        ends_message: false,
        ack_req: false,
        rtx: false,
        ce: false,
        tseth: Some(TsethRepr::ns128(7)),
    }
}

fn last(psn: u32) -> Write {
    Write { ends_message: true, ..middle(psn) }
}

pub(super) fn on_write(
    r: &mut Responder,
    write: &WritePacket<'_>,
    bits: &mut [RxWord],
    cfg: &EndpointConfig,
) -> Acceptance {
    match r.on_next::<false>(write, cfg) {
        Some(owes) => Acceptance::New { owes },
        None => r.on_gap::<false>(&write.arrived(cfg, r.svc_time), bits, cfg),
    }
}

fn take(r: &mut Responder, bits: &mut [RxWord], write: &Write) -> Acceptance {
    let verdict = write.read(|write| on_write(r, &write, bits, &cfg()));
    r.settle(&[]);
    verdict
}

/// Answers owed, taken.
fn answers(r: &mut Responder) -> usize {
    let mut count = 0;
    while r.answers.front().is_some() {
        r.answers.pop();
        count += 1;
    }
    count
}

//= ACK-002, SACK-001 test
#[test]
fn a_packet_is_answered_for_its_flags_or_after_enough_bytes() {
    let (mut r, mut bits) = responder(1);
    assert!(!r.owes());
    assert!(matches!(take(&mut r, &mut bits, &middle(1)), Acceptance::New { .. }));
    assert!(!r.owes(), "one packet in the middle of a message");
    let flagged =
        [Write { ack_req: true, ..middle(2) }, Write { ce: true, ..middle(3) }, Write { rtx: true, ..middle(4) }];
    for write in flagged {
        take(&mut r, &mut bits, &write);
        assert_eq!(answers(&mut r), 1, "{write:?}");
    }
    // 13 packets of 1200 bytes stay below 16 KiB, the 14th does not.
    for psn in 5..18 {
        take(&mut r, &mut bits, &middle(psn));
    }
    assert_eq!(answers(&mut r), 0);
    take(&mut r, &mut bits, &middle(18));
    assert_eq!(answers(&mut r), 1);
    take(&mut r, &mut bits, &middle(19));
    assert_eq!(answers(&mut r), 0, "the count starts again");
}

/// The counter that users read grows by the nominal bytes of each new packet, and by nothing else.
//= RBYT-001 test
#[test]
fn received_bytes_count_each_new_packet_once() {
    let (mut r, mut bits) = responder(1);
    for write in [middle(1), Write { nominal: 300, ..middle(3) }, middle(1)] {
        take(&mut r, &mut bits, &write);
    }
    assert_eq!(r.received_bytes(), 1_500);
}

/// An image may name every queue pair that the storage can hold, and no other.
#[test]
fn a_responder_of_an_image_fits_its_storage() {
    let (r, _) = responder(1);
    let attr = RtrAttr::software(
        crate::PeerHandle::from_index(0),
        Qpn::new(5),
        Psn::new(1),
        crate::EvProfileHandle::from_index(0),
    );
    let (packets, wimm) = (u32::from(attr.mpr_dest) * 128, usize::from(attr.max_wimm_dest));
    assert!(packets > 0 && wimm > 0);
    assert!(r.fits(packets, wimm));
    assert!(!r.fits(packets - 1, wimm) && !r.fits(packets, wimm - 1));
}

//= RSP-004, RSP-005 test
#[test]
fn above_the_window_is_refused_unless_told_not_to_or_absurd() {
    let ask = |distance: u32, silent| {
        let (mut r, mut bits) = responder(1);
        let psn = Psn::new(0).add(distance);
        let write = Write { psn, ..middle(0) };
        assert!(matches!(take(&mut r, &mut bits, &write), Acceptance::OutOfWindow));
        let cfg = EndpointConfig { oor_silent: silent, ..cfg() };
        write.read(|write| r.out_of_window(&write.arrived(&cfg, r.svc_time), &cfg)).map(|answer| answer.kind)
    };
    let nack = Some(AnswerKind::Nack(NackReason::PsnOorWindow));
    assert_eq!(ask(1_025, false), nack);
    assert_eq!(ask(1 << 22, false), nack);
    assert_eq!(ask((1 << 22) + 1, false), None);
    assert_eq!(ask(1_025, true), None);
}

//= ACK-001, ACK-003 test
#[test]
fn a_transport_ack_is_due_when_the_front_passes_what_asked_for_one() {
    let (mut r, mut bits) = responder(1);
    take(&mut r, &mut bits, &middle(1));
    assert!(!r.tack_due, "no message ends here");
    take(&mut r, &mut bits, &last(3));
    assert!(!r.tack_due, "the end is here, the middle is not");
    assert_eq!((r.messages_done(), r.tack_psn()), (0, Psn::new(1)));
    take(&mut r, &mut bits, &middle(2));
    assert!(r.tack_due);
    assert_eq!((r.messages_done(), r.tack_psn()), (1, Psn::new(3)));
    r.tack_due = false;
    take(&mut r, &mut bits, &Write { ack_req: true, ..middle(4) });
    assert!(r.tack_due, "asked for in the middle of a message");
}

//= ACK-001 test
#[test]
fn without_transport_acks_within_messages_only_their_ends_draw_one() {
    let (mut r, mut bits) = responder(1);
    let cfg = EndpointConfig { tack_within_message: false, ..cfg() };
    let mut take = |write: &Write| {
        write.read(|write| on_write(&mut r, &write, &mut bits, &cfg));
        r.settle(&[]);
        (r.tack_due, answers(&mut r))
    };
    assert_eq!(take(&Write { ack_req: true, ..middle(1) }), (false, 1), "a SACK is the answer");
    assert_eq!(take(&Write { ack_req: true, ..last(2) }), (true, 1));
}

//= SACK-001, SACK-007 test
#[test]
fn sacks_that_wait_merge_unless_one_has_something_of_its_own_to_say() {
    let (mut r, mut bits) = responder(1);
    let cfg = EndpointConfig { merge_sacks: true, ..cfg() };
    let mut take = |write: Write| {
        write.read(|write| on_write(&mut r, &write, &mut bits, &cfg));
        r.answers.len()
    };
    let asks = |psn| Write { ack_req: true, ..middle(psn) };
    assert_eq!([1, 2, 3].map(|psn| take(asks(psn))), [1; 3]);
    assert_eq!(take(Write { ce: true, ..asks(4) }), 2, "a mark is told");
    assert_eq!([5, 6].map(|psn| take(asks(psn))), [3; 2]);
    assert_eq!(take(Write { rtx: true, ..asks(7) }), 4, "so is a retransmission");
    assert_eq!([9, 10].map(|psn| take(asks(psn))), [5, 6], "and the state while packets are missing");
    let newest = r.answers.front().unwrap();
    assert_eq!(newest.psn, Psn::new(3), "the newest of those that merged");
}

//= RSP-008 test
#[test]
fn messages_are_counted_modulo_two_to_the_24() {
    let (mut r, mut bits) = responder(1);
    r.msn_done = 0xFF_FFFE;
    for (psn, done) in [(1, 0xFF_FFFF), (2, 0), (3, 1)] {
        take(&mut r, &mut bits, &last(psn));
        assert_eq!(r.messages_done(), done);
    }
}

//= WIMM-007 test
#[test]
fn receive_numbers_are_followed_not_trusted() {
    let (mut r, _) = responder(1);
    assert!(r.in_sequence(Msn(0xFFFF)), "the first one sets the count");
    assert!(r.in_sequence(Msn(0)));
    assert!(!r.in_sequence(Msn(2)));
    assert!(r.in_sequence(Msn(3)), "the count goes on from what came");
}

/// Service time is taken out of a timestamp only where both sides agreed, and where there is one in our unit.
//= CAP-002 test
#[test]
fn service_time_needs_consent_and_a_timestamp() {
    for case in 0..8 {
        let (mut r, mut bits) = responder(1);
        r.svc_time = if case & 1 != 0 { ServiceTime::Standard } else { ServiceTime::Never };
        let added = if case == 7 { Added::Ticks } else { Added::Nothing };
        let tseth = (case & 4 != 0).then_some(TsethRepr { tsr: case & 2 == 0, ..TsethRepr::ns128(9) });
        let write = Write { ack_req: true, tseth, ..middle(1) };
        take(&mut r, &mut bits, &write);
        assert_eq!(r.answers.front().unwrap().added, added, "SACK, case {case}");
        r.answers.pop();
        let beyond = Write { psn: Psn::new(5_000), ..write };
        assert_eq!(take(&mut r, &mut bits, &beyond), Acceptance::OutOfWindow);
        assert_eq!(
            beyond.read(|write| r.out_of_window(&write.arrived(&cfg(), r.svc_time), &cfg())).unwrap().added,
            added,
            "NACK, case {case}"
        );
    }
    let (peer, profile) = (crate::PeerHandle::from_index(0), crate::EvProfileHandle::from_index(0));
    let attr = RtrAttr::software(peer, Qpn::new(5), Psn::new(1), profile);
    let started = |private_stamps_us| Responder::start(&RtrAttr { svc_time: true, private_stamps_us, ..attr }).svc_time;
    assert_eq!((started(false), started(true)), (ServiceTime::Standard, ServiceTime::Any));
    let private = TsethRepr { tsr: true, ..TsethRepr::ns128(9) };
    assert_eq!(started(false).on(&private), Added::Nothing);
    assert_eq!(started(true).on(&private), Added::Microseconds);
}

//= MFLD-001 test
#[test]
fn a_row_of_marks_on_one_path_condemns_it() {
    let (mut r, _) = responder(1);
    let mut mark = |ev, ce| r.verdict(Ev(ev), ce, 3);
    assert_eq!(
        [mark(1, true), mark(1, true), mark(1, true)],
        [Verdict::SkipOnce, Verdict::SkipOnce, Verdict::AlwaysSkip]
    );
    assert_eq!(mark(2, false), Verdict::None);
    assert_eq!(mark(1, true), Verdict::AlwaysSkip, "a good packet elsewhere changes nothing");
    assert_eq!(mark(1, false), Verdict::None);
    assert_eq!(mark(1, true), Verdict::SkipOnce, "a good packet here ends the row");
    assert_eq!([mark(2, true), mark(1, true)], [Verdict::SkipOnce, Verdict::SkipOnce], "a row is of one path");
    for _ in 0..300 {
        assert_eq!(r.verdict(Ev(1), true, 0), Verdict::SkipOnce, "0 never condemns");
    }
}

/// PSN of bit 0 of the next SACK.
fn base(r: &mut Responder, bits: &[RxWord]) -> Psn {
    let kind = AnswerKind::Sack { verdict: Verdict::None, probe_id: None };
    let answer = Answer { psn: r.window.cack(), ..Answer::of(kind) };
    let sack = r.sack(&answer, (5, 6), 0, bits, 63).unwrap();
    sack.cack.offset(sack.sack_offset.into())
}

/// The first bitmap of a connection starts at its first PSN, wherever the numbers wrap.
//= SACK-011 test
#[test]
fn the_first_slice_starts_where_the_connection_does() {
    let first = 0xFF_FF00;
    let (mut r, mut bits) = responder(first);
    take(&mut r, &mut bits, &Write { psn: Psn::new(first).add(300), ..middle(0) });
    assert_eq!(base(&mut r, &bits), Psn::new(first));
    assert_eq!(base(&mut r, &bits), Psn::new(first).add(64));
}

//= SACK-011 test
#[test]
fn the_newest_64_are_one_slice_and_65_are_two() {
    let (mut r, mut bits) = responder(100);
    take(&mut r, &mut bits, &middle(163));
    assert_eq!([base(&mut r, &bits), base(&mut r, &bits)].map(Psn::value), [100, 100]);
    take(&mut r, &mut bits, &middle(164));
    assert_eq!([base(&mut r, &bits), base(&mut r, &bits)].map(Psn::value), [100, 101]);
}

/// The ring of bits repeats; a bitmap does not.
//= SACK-012 test
#[test]
fn a_bitmap_ends_at_the_newest_packet() {
    let mut bits = [RxWord::EMPTY; 2];
    let mut window = PsnWindow::new(Psn::new(0), 128);
    window.insert(Psn::new(2), false, &mut bits);
    assert_eq!(window.bitmap(Psn::new(2), &bits), 1);
    assert_eq!(window.bitmap(Psn::new(3), &bits), 0);
    assert_eq!(window.bitmap(Psn::new(130), &bits), 0, "the same bit of the ring, another packet");
}

#[test]
fn nothing_comes_out_of_an_empty_stash() {
    let mut ring = [Immediate::EMPTY; 2];
    let mut stash = Stash::new(2);
    stash.pop(ring.len());
    assert!(stash.is_empty() && stash.front(&ring).is_none());
    assert!(stash.insert(&mut ring, Immediate { psn: Psn::new(1), ..Immediate::EMPTY }));
    assert_eq!(stash.front(&ring).map(|imm| imm.psn), Some(Psn::new(1)));
}

/// At a path MTU of 256 a message of 2^32 - 1 bytes takes all PSNs there are.
//= LEN-009, ACK-001 test
#[test]
fn the_end_of_the_longest_message_is_acknowledged() {
    let (mut r, mut bits) = responder(7);
    let first = Psn::new(7);
    take(&mut r, &mut bits, &Write { ends_message: true, ..middle(7) });
    assert!(core::mem::take(&mut r.tack_due), "the message before it");
    for done in (0..1 << 24).step_by(1 << 20) {
        r.window = PsnWindow::new(first.add(done), 1_024);
        take(&mut r, &mut bits, &middle(first.add(done + 1).value()));
        assert!(!r.tack_due, "nothing ends {done} packets on");
    }
    r.window = PsnWindow::new(first.sub(1), 1_024);
    take(&mut r, &mut bits, &Write { ends_message: true, ..middle(first.value()) });
    assert!(r.tack_due);
}

/// Half the PSN space behind the last message that asked for one, packets that come in order have left no Transport ACK to send.
//= LEN-009, ACK-001 test
#[test]
fn the_middle_of_the_longest_message_owes_nothing_out_of_order_either() {
    let (mut r, mut bits) = responder(7);
    // Nothing holds Transport ACKs back.
    let mut take = |r: &mut Responder, write: Write| {
        write.read(|write| {
            if r.on_next::<true>(&write, &cfg()).is_none() {
                r.on_gap::<true>(&write.arrived(&cfg(), r.svc_time), &mut bits, &cfg());
            }
        });
        core::mem::take(&mut r.tack_due)
    };
    assert!(take(&mut r, Write { ends_message: true, ..middle(7) }));
    let mut psn = Psn::new(7);
    for _ in 0..12 {
        psn = psn.add(1 << 20);
        r.window = PsnWindow::new(psn, 1_024);
        assert!(!take(&mut r, middle(psn.add(1).value())));
    }
    assert_eq!([4, 3, 2].map(|later| take(&mut r, middle(psn.add(later).value()))), [false; 3]);
    assert!(take(&mut r, Write { ends_message: true, ..middle(psn.add(5).value()) }));
}
