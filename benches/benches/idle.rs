//! What an idle poll costs with 1, 64 and 4096 queue pairs: it must not depend on their number.

use std::hint::black_box;

use mrc_benches::{Side, median, per_unit, storage};
use mrc_core::{Instant, MAX_HEADER_LEN, PortMask};

const POLLS: u64 = 2_000_000;

fn main() {
    let sizes = [1usize, 64, 4096];
    let mut memories: Vec<_> = sizes.iter().map(|&qps| (storage(qps), storage(qps))).collect();
    let mut sides: Vec<_> = memories
        .iter_mut()
        .zip(sizes)
        .map(|((a, b), qps)| {
            let (mut a, b) = (Side::new(a, 0, qps), Side::new(b, 1, qps));
            a.connect(0, &b.qps);
            a
        })
        .collect();
    let mut costs = vec![Vec::new(); sizes.len()];
    for _ in 0..7 {
        for (side, costs) in sides.iter_mut().zip(&mut costs) {
            costs.push(idle(side));
        }
    }
    let medians: Vec<f64> = costs.into_iter().map(median).collect();
    for (qps, cost) in sizes.iter().zip(&medians) {
        println!("idle: {qps:>4} QPs {cost:6.2} ns for poll_transmit, poll_completion, poll_event and next_timeout");
    }
    let ratio = medians[2] / medians[0];
    println!(
        "idle: 4096 QPs / 1 QP {ratio:.2} (target flat: at most 1.25) {}",
        if ratio <= 1.25 { "PASS" } else { "MISS" }
    );
}

fn idle(side: &mut Side<'_>) -> f64 {
    let mut headers = [0u8; MAX_HEADER_LEN];
    let cq = side.cq;
    per_unit(|| {
        for n in 0..POLLS {
            let now = Instant::from_nanos(black_box(n));
            black_box(side.engine.poll_transmit(now, PortMask::ALL, &mut headers));
            black_box(side.engine.poll_completion(cq));
            black_box(side.engine.poll_event());
            black_box(side.engine.next_timeout());
        }
        POLLS
    })
}
