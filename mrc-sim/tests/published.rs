//! DCQCN against its publication (Zhu et al., SIGCOMM 2015): the fixed point of the paper's fluid model, solved here
//! without a line of the transport, and the throughput it reports for incasts.

mod common;

use mrc_sim::run::Results;

/// Bytes on the wire of a packet with 1024 bytes of payload.
const WIRE: f64 = 1102.0;
const LINE_BPS: f64 = 40e9;
const KMIN: f64 = 5_000.0;
const KMAX: f64 = 200_000.0;
const PMAX: f64 = 0.01;

/// The share of marked packets at which `flows` senders neither gain nor lose, by the model with the published parameters:
/// CNPs every 50 us, `alpha` and rises every 55 us, a rise every 10 MB, 40 Mb/s of additive increase, five rises before it.
///
/// With `m` the chance of a notification in an interval, `b` and `c` the rates of rises by bytes and by time for each packet,
/// and `d` and `e` those beyond fast recovery: `alpha m^2 = tau^2 R_AI R_C (b + c) (d + e)`.
fn fixed_point(flows: u32) -> f64 {
    let packets_per_s = |bps: f64| bps / 8.0 / WIRE;
    let (rate, increase) = (packets_per_s(LINE_BPS / f64::from(flows)), packets_per_s(40e6));
    let (cnp_s, rise_s, rise_packets, recovery) = (50e-6, 55e-6, 10e6 / WIRE, 5.0);
    let beyond = |p: f64| {
        let none_in = |packets: f64| (1.0 - p).powf(packets);
        let notified = 1.0 - none_in(cnp_s * rate);
        let alpha = 1.0 - none_in(rise_s * rate);
        let rises = |packets: f64| p / (1.0 / none_in(packets) - 1.0);
        let (bytes, time) = (rises(rise_packets), rises(rise_s * rate));
        let late = bytes * none_in(recovery * rise_packets) + time * none_in(recovery * rise_s * rate);
        alpha * notified * notified - cnp_s * cnp_s * increase * rate * (bytes + time) * late
    };
    let (mut low, mut high) = (1e-7, 0.05);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if beyond(middle) > 0.0 { high = middle } else { low = middle }
    }
    low
}

/// Flows without end into one host below one switch of 40 Gb/s, with all of RoCE's defaults.
fn incast(flows: u32) -> Results {
    let text = format!(
        "limit_us = 40000\nuntil = \"limit\"\nbin_us = 50\n[topology]\nt0 = 1\nhosts_per_t0 = {}\nhost_gbps = 40\n\
         [transport]\nkind = \"roce\"\n[transport.roce]\nmtu = 1024\n\
         [[workload]]\nkind = \"incast\"\nfan_in = {flows}\nbytes = 1000000000\n",
        flows + 1
    );
    common::play(&text, &[], Some(1))
}

/// What happened in the second half: share of marked packets, mean queue before the receiver in bytes, payload in Gb/s.
fn second_half(results: &Results) -> (f64, f64, f64) {
    let line = &results.timeline;
    let half = line.at_us.iter().position(|&at| at >= 20_000.0).unwrap();
    let last = line.at_us.len() - 1;
    let queue = &line.queue_t0_down[half..];
    let queue = queue.iter().map(|sample| sample.max_bytes as f64).sum::<f64>() / queue.len() as f64;
    let bins = &line.goodput_gbit_per_s[0][400..800];
    let goodput = bins.iter().sum::<f64>() / bins.len() as f64;
    let packets = goodput * 1e3 * (line.at_us[last] - line.at_us[half]) / 8.0 / 1024.0;
    ((line.marks[last] - line.marks[half]) as f64 / packets, queue, goodput)
}

#[test]
fn rates_and_queue_of_dcqcn_are_those_of_the_papers_fluid_model() {
    for flows in [2, 8] {
        let results = incast(flows);
        let (marked, queue, goodput) = second_half(&results);
        let model = fixed_point(flows);
        let model_queue = KMIN + model / PMAX * (KMAX - KMIN);
        println!(
            "{flows} flows: marked {marked:.5}, model {model:.5}; queue {queue:.0} B, model {model_queue:.0} B; {goodput:.2} Gb/s"
        );
        // The model is a fluid: it knows neither packets nor that a queue pair gets its notifications one by one.
        assert!((0.8..1.25).contains(&(queue / model_queue)), "{flows}: {queue} B, model {model_queue} B");
        assert!((0.8..1.5).contains(&(marked / model)), "{flows}: {marked}, model {model}");
        // Published: above 39 of 40 Gb/s in incasts of 2 to 20, and equal shares. Payload is 1024 of 1102 bytes.
        assert!(goodput * WIRE / 1024.0 > 39.0, "{flows}: {goodput} Gb/s of payload");
        assert!(results.groups[0].jain > 0.97, "{flows}: {}", results.groups[0].jain);
        assert_eq!((results.drops, results.pauses), (0, 0));
    }
}
