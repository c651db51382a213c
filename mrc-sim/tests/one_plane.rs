//! The hardest small fabric: one plane, two spines, one of them cut. Both directions must find the other spine, whichever
//! reverse path the responder happened to start on.

use mrc_sim::demo::{DemoConfig, run};

#[test]
fn a_single_plane_survives_the_cut_of_one_of_two_spines() {
    for seed in 0..40 {
        let config = DemoConfig {
            seed,
            planes: 1,
            t1: 2,
            qps: 1,
            message_bytes: 4096,
            duration_ns: 300_000_000,
            cut_at_ns: 100_000_000,
            heal_at_ns: 200_000_000,
            cut: (0, 0, (seed % 2) as u16),
            ..DemoConfig::default()
        };
        for t0 in 0..2 {
            let config = DemoConfig { cut: (0, t0, config.cut.2), ..config };
            let outcome = run(&config, &mut |_| ()).unwrap_or_else(|error| panic!("{config:?}: {error}"));
            assert_eq!(outcome.mismatch, None, "{config:?}");
        }
    }
}
