//! How many queue pairs and EVs are in which state: the sums of the counters are what a walk over the queue pairs finds, whatever
//! happens to them.

mod common;

use common::sums::assert_sums;
use common::{Net, Setup, Weather, net};
use mrc_core::path::{EvState, SkipMode};
use mrc_core::{Endpoint, EvReport, EvSpec, Export, Import, OwnedStorage, Pd, QpInit, Trimming};

const QPS: usize = 6;

fn both(net: &Net<'_>) -> [([u64; 5], [u64; 4]); 2] {
    [0, 1].map(|side| assert_sums(&net.sides[side].engine))
}

/// Writes on every queue pair until all have arrived, or for a time.
fn traffic(net: &mut Net<'_>, ns: u64) {
    for qp in 0..QPS {
        for from in 0..2 {
            let _ = net.post_from(from, qp, qp as u64, qp * 20_000, 20_000);
        }
    }
    let end = net.now.as_nanos() + ns;
    net.run(end, |net| {
        both(net);
        false
    });
}

fn replace(engine: &mut Endpoint<'_>) {
    let (mut export, mut image, mut out) = (Export::new(), vec![], vec![0; 1 << 16]);
    while !export.is_done() {
        let len = engine.export(&mut export, &mut out).unwrap();
        image.extend(&out[..len]);
    }
    let (cfg, limits) = (engine.config().clone(), *engine.limits());
    // Lives as long as the test, as the network's own storage does.
    let storage = Box::leak(Box::new(OwnedStorage::new(limits).unwrap()));
    let mut import = Import::new(cfg, storage.lend()).unwrap();
    assert_eq!(import.feed(&image), Ok(image.len()));
    *engine = import.finish().unwrap();
}

fn first_ev(net: &mut Net<'_>) -> EvSpec {
    let profile = net.sides[0].profile.unwrap();
    let mut reports = [EvReport::EMPTY];
    net.sides[0].engine.query_evs(profile, 0, &mut reports).unwrap();
    reports[0].ev
}

/// What traffic, a controller and the application do to queue pairs of which all are in RTS.
fn life(net: &mut Net<'_>) {
    assert_eq!(both(net)[0], ([0, 0, 0, QPS as u64, 0], [16 * QPS as u64, 0, 0, 0]));
    let mut seen = [0; 4];
    for _ in 0..4 {
        traffic(net, 300_000);
        for (most, sum) in seen.iter_mut().zip(both(net)[0].1) {
            *most = sum.max(*most);
        }
    }
    assert!(seen[1] > 0 && seen[2] > 0, "the weather skips and retires EVs: {seen:?}");

    let (now, profile, ev) = (net.now, net.sides[0].profile.unwrap(), first_ev(net));
    let failed = net.sides[0].qps[1];
    net.sides[0].engine.modify_to_error(now, failed).unwrap();
    assert_eq!(both(net)[0].0, [0, 0, 0, QPS as u64 - 1, 1]);
    // Of the one that failed, too; nobody counts that.
    net.sides[0].engine.set_ev_state(now, profile, &ev, EvState::Denied, true).unwrap();
    assert_eq!(both(net)[0].1[3], QPS as u64 - 1);

    replace(&mut net.sides[0].engine);
    let before = both(net)[0];
    traffic(net, 300_000);
    assert_eq!((before.0, before.1[3]), (both(net)[0].0, QPS as u64 - 1));

    net.sides[0].engine.set_ev_state(net.now, profile, &ev, EvState::Good, true).unwrap();
    let (failed, sending, last) = (net.sides[0].qps[1], net.sides[0].qps[2], net.sides[0].qps[3]);
    let init = QpInit { pd: Pd(0), send_cq: net.sides[0].cq, recv_cq: net.sides[0].cq };
    let engine = &mut net.sides[0].engine;
    engine.modify_to_reset(failed).unwrap();
    engine.modify_to_reset(sending).unwrap();
    engine.destroy_qp(last).unwrap();
    assert_eq!(assert_sums(engine).0, [2, 0, 0, QPS as u64 - 3, 0]);
    // The image remembers what was destroyed, too.
    replace(engine);
    assert_eq!(assert_sums(engine).0, [2, 0, 0, QPS as u64 - 3, 0]);
    engine.modify_to_init(failed).unwrap();
    let fresh = engine.create_qp(&init).unwrap();
    assert_eq!(assert_sums(engine).0, [2, 1, 0, QPS as u64 - 3, 0]);
    replace(engine);
    engine.destroy_qp(fresh).unwrap();
    engine.destroy_qp(failed).unwrap();
    for qp in engine.qps().collect::<Vec<_>>() {
        engine.destroy_qp(qp).unwrap();
    }
    assert_eq!(assert_sums(engine), ([0; 5], [0; 4]));
}

#[test]
fn the_sums_are_what_a_walk_finds() {
    let storm = Weather { loss: 20, reorder: 50, duplicate: 10, trim: 20, mark: 150, busy: 100, ..Weather::default() };
    let setups = [
        Setup { qps: QPS, ..Setup::default() },
        Setup { qps: QPS, share_bad: true, trimming: Trimming::On, plane_lead: 2, ..Setup::default() },
        Setup { qps: QPS, rts: |rts| rts.paths.skip_mode = SkipMode::Time { ns: 20_000 }, ..Setup::default() },
    ];
    for setup in &setups {
        for seed in 0..3 {
            net(seed, setup, storm, life);
        }
    }
}

/// Nobody is left but those that failed by themselves.
#[test]
fn queue_pairs_that_fail_are_counted() {
    net(1, &Setup { qps: QPS, ..Setup::default() }, Weather { dead: true, ..Weather::default() }, |net| {
        traffic(net, 60_000_000_000);
        assert_eq!(both(net)[0], ([0, 0, 0, 0, QPS as u64], [0; 4]));
    });
}
