//! What the engine says about itself: every discard, state change and retransmission is an event on request, and events
//! and counters agree.

mod common;

use common::{Setup, Weather, net};
use mrc_core::path::EvState::{Good, Skip};
use mrc_core::{Discard, ErrorCause, Event, EventMask, LossCause, QpState, RetryConfig, Trimming};

const SECOND: u64 = 1_000_000_000;

//= ERR-004 test
#[test]
fn every_retransmission_and_discard_is_an_event_and_a_count() {
    let weather =
        Weather { loss: 30, reorder: 100, duplicate: 30, corrupt: 20, trim: 30, mark: 30, ..Weather::default() };
    for seed in 0..10 {
        let trimming = if seed % 2 == 0 { Trimming::On } else { Trimming::Off };
        let setup = Setup { trimming, events: EventMask::ALL, v4: seed % 3 == 0, ..Setup::default() };
        net(seed, &setup, weather, |net| {
            for id in 0..8 {
                net.post(0, id, id as usize * 30_000, 30_000).unwrap();
            }
            assert!(net.run(20 * SECOND, |net| net.completed(8)));
            let stats = net.sides[0].engine.stats();
            let losses = |wanted: fn(LossCause) -> bool| {
                let events = net.sides[0].events.iter();
                events.filter(|event| matches!(event, Event::Loss { cause, .. } if wanted(*cause))).count() as u64
            };
            assert_eq!(losses(|cause| cause == LossCause::Inferred), stats.lost_inferred);
            assert_eq!(losses(|cause| cause == LossCause::Timeout), stats.lost_timeout);
            assert_eq!(losses(|cause| cause == LossCause::Tail), stats.tail_resent);
            assert_eq!(losses(|cause| matches!(cause, LossCause::Nack(_))), stats.lost_nack);
            assert!(stats.retransmitted > 0 && stats.events_lost == 0);
            for side in &net.sides {
                for &reason in Discard::ALL {
                    let told = side.events.iter().filter(|e| matches!(e, Event::Discard { why, .. } if *why == reason));
                    assert_eq!(told.count() as u64, side.engine.stats().discarded(reason), "{reason}");
                }
            }
        });
    }
}

//= QP-001, ERR-001 test
#[test]
fn a_life_is_told_from_reset_to_error() {
    let retry = RetryConfig { timeout: 4, linear: 1, exponential: 1 };
    let setup = Setup { events: EventMask::ALL, retry, ..Setup::default() };
    net(1, &setup, Weather { dead: true, ..Weather::default() }, |net| {
        net.post(0, 0, 0, 1_000).unwrap();
        assert!(net.run(SECOND, |net| net.completed(1)));
        let states: Vec<_> = net.sides[0]
            .events
            .iter()
            .filter_map(|event| if let Event::QpState { from, to, .. } = event { Some((*from, *to)) } else { None })
            .collect();
        use QpState::{Error, Init, Reset, Rtr, Rts};
        assert_eq!(states, [(Reset, Init), (Init, Rtr), (Rtr, Rts), (Rts, Error)]);
        assert!(
            net.sides[0]
                .events
                .iter()
                .any(|event| matches!(event, Event::QpError { cause: ErrorCause::RetryExceeded, .. }))
        );
        // In ERROR nothing is sent, no timer runs.
        let sent = net.tx_packets();
        net.run(net.now.as_nanos() + SECOND, |_| false);
        assert_eq!((net.tx_packets(), net.sides[0].engine.next_timeout()), (sent, None));
    });
}

#[test]
fn by_default_only_what_an_operator_needs_is_told() {
    net(1, &Setup::default(), Weather { loss: 50, mark: 100, ..Weather::default() }, |net| {
        net.post(0, 0, 0, 100_000).unwrap();
        assert!(net.run(SECOND, |net| net.completed(1)));
        assert!(net.sides[0].engine.stats().retransmitted > 0 && net.sides[0].engine.stats().ev_skipped > 0);
        assert!(net.sides[0].events.iter().all(|event| EventMask::default().contains(event.kind())));
        let tells_of_skips = |event: &Event| match event {
            Event::Ev { transition, .. } => [transition.from, transition.to].iter().all(|s| [Good, Skip].contains(s)),
            _ => false,
        };
        assert!(!net.sides[0].events.iter().any(tells_of_skips), "marks come and go");
        assert!(!EventMask::default().contains(EventMask::LOSS.with(EventMask::DISCARD)));
    });
}

/// A set goes through one byte of a host's configuration and comes back.
#[test]
fn sets_of_events_are_sets() {
    let (loss, path) = (EventMask::LOSS, EventMask::PATH);
    let both = loss.with(path);
    assert_eq!((both.with(loss), both.with(both)), (both, both));
    assert_eq!((both.bits(), EventMask::NONE.bits(), EventMask::ALL.bits()), (loss.bits() + path.bits(), 0, u8::MAX));
    assert_eq!(EventMask::from_bits(both.bits()), both);
    assert!(both.contains(loss) && both.contains(path) && !both.contains(EventMask::DISCARD));
}
