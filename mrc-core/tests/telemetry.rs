//! What switches wrote into probes comes to the path that a probe took, where the selector keeps a load of each path.

mod common;

use common::{Setup, Weather, net};
use mrc_core::path::{FlowingJumpingConfig, PathLoad, PathTelemetry, Selector};
use mrc_wire::Ev;

const SECOND: u64 = 1_000_000_000;

//= FLJ-009, FLJ-010 test
#[test]
fn telemetry_reaches_the_path_of_its_ev() {
    let flowing: fn(&mut _) =
        |rts: &mut mrc_core::RtsAttr| rts.selector = Selector::FlowingJumping(FlowingJumpingConfig::default());
    net(1, &Setup { rts: flowing, ..Setup::default() }, Weather::default(), |net| {
        net.post(0, 1, 0, 50_000).unwrap();
        assert!(net.run(SECOND, |net| net.completed(1)));
        let (qp, now) = (net.sides[0].qps[0], net.now);
        let engine = &mut net.sides[0].engine;
        let told = PathTelemetry { bandwidth_mbps: 40_000, delay_ns: 3_000 };
        let before: Vec<PathLoad> = engine.path_loads(qp).collect();
        engine.report_telemetry(now, qp, Ev(0xFFF), told);
        assert!(engine.path_loads(qp).eq(before.iter().copied()), "no path has this EV");
        engine.report_telemetry(now, qp, before[1].ev, told);
        for (old, new) in before.iter().zip(engine.path_loads(qp)) {
            if new.ev == before[1].ev {
                // In steps of 100 Mb/s and 128 ns.
                assert_eq!((new.bandwidth_mbps, new.delay_ns), (40_000, 2_944));
            } else {
                assert_eq!(new.delay_ns, old.delay_ns, "{new:?}");
            }
            assert!(new.telemetry);
        }
    });
}
