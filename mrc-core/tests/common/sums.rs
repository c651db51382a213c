//! The sums of states against a walk over the queue pairs.

use mrc_core::path::{EvCounts, EvState};
use mrc_core::{Endpoint, QpState};

const QPS: [QpState; 5] = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Error];
const EVS: [EvState; 4] = [EvState::Good, EvState::Skip, EvState::AssumedBad, EvState::Denied];

/// Queue pairs by state, and EVs by state, as the sums say; both are what a walk finds.
pub(crate) fn assert_sums(engine: &Endpoint<'_>) -> ([u64; 5], [u64; 4]) {
    let (mut qps, mut evs) = ([0; 5], [0; 4]);
    for info in engine.qps().filter_map(|qp| engine.qp_info(qp)) {
        qps[QPS.iter().position(|&state| state == info.state).unwrap()] += 1;
        let EvCounts { good, skip, assumed_bad, denied, .. } = info.evs;
        for (sum, count) in evs.iter_mut().zip([good, skip, assumed_bad, denied]) {
            *sum += u64::from(count);
        }
    }
    let states = &engine.stats().states;
    let sums = (QPS.map(|state| states.qps(state)), EVS.map(|state| states.evs(state)));
    assert_eq!(sums, (qps, evs), "the sums, and what a walk finds");
    sums
}
