//! The demo's story as text: `cargo run --release -p mrc-sim --example story [virtual milliseconds]`.

use mrc_sim::demo::{DemoConfig, run};

fn main() {
    let mut config = DemoConfig::default();
    if let Some(ms) = std::env::args().nth(1).and_then(|ms| ms.parse::<u64>().ok()) {
        config.duration_ns = ms * 1_000_000;
        config.cut_at_ns = config.duration_ns / 3;
        config.heal_at_ns = config.duration_ns / 3 * 2;
        config.samples = 15;
    }
    let wall = std::time::Instant::now();
    let mut before = 0;
    let mut last_ns = 0;
    let outcome = run(&config, &mut |sample| {
        let bytes: u64 = sample.plane_bytes.iter().sum();
        println!(
            "{:8.3} ms {:6.3} Gb/s  good {:3} skip {:2} bad {:2}  retransmitted {}",
            sample.at_ns as f64 / 1e6,
            (bytes - before) as f64 * 8.0 / (sample.at_ns - last_ns) as f64,
            sample.good,
            sample.skip,
            sample.assumed_bad,
            sample.retransmitted,
        );
        (before, last_ns) = (bytes, sample.at_ns);
    });
    let seconds = wall.elapsed().as_secs_f64();
    match outcome {
        Ok(mut outcome) => {
            let captured = std::mem::take(&mut outcome.capture).len();
            outcome.samples.clear();
            println!("{outcome:#?}\n{captured} packets captured");
            println!(
                "{:.3} Gb/s; {seconds:.1} real seconds, {:.2} M hops/s, {:.0} ns per data packet",
                outcome.gbit_per_s(),
                outcome.switch_hops as f64 / seconds / 1e6,
                seconds * 1e9 / (outcome.sent + outcome.retransmitted) as f64,
            );
        }
        Err(error) => println!("{error}"),
    }
}
