//! The demo in virtual time: the same engine on a simulated fabric.

use std::time::Duration;

use mrc_lab::{CapturedPacket, write_pcapng};
use mrc_sim::demo::{self, DemoConfig, Sample};

use super::{Bins, PlaneBytes, Report, Story};
use crate::interrupt::{self, Interrupt};
use crate::out::errln;

/// Runs the story. It takes a few real seconds; Ctrl-C ends the program, there is nothing to clean up.
pub fn run(story: &Story, interrupt: &Interrupt) -> anyhow::Result<Report> {
    let duration_ns = story.seconds * 1_000_000_000;
    let config = DemoConfig {
        duration_ns,
        cut_at_ns: duration_ns / 3,
        heal_at_ns: duration_ns * 2 / 3,
        samples: story.seconds as u32 * (1.0 / Bins::WIDTH_S) as u32,
        ..DemoConfig::default()
    };
    let mut last = Sample {
        at_ns: 0,
        plane_bytes: vec![0; usize::from(config.planes)],
        messages: 0,
        retransmitted: 0,
        good: 0,
        skip: 0,
        assumed_bad: 0,
    };
    let outcome = demo::run(&config, &mut |sample| {
        if sample.at_ns >= last.at_ns + 1_000_000_000 {
            live_line(&last, sample);
            last = sample.clone();
        }
        if interrupt.is_set() {
            std::process::exit(interrupt::EXIT_CODE.into());
        }
    })?;
    let packets: Vec<CapturedPacket> = outcome
        .capture
        .iter()
        .map(|packet| CapturedPacket {
            at: Duration::from_nanos(packet.at.as_nanos()),
            len: packet.wire_len,
            bytes: packet.header.clone(),
        })
        .collect();
    write_pcapng(&story.pcap(), &outcome.capture_port, 256, &packets)?;
    let integrity = outcome.mismatch.map_or_else(
        || "ok".to_owned(),
        |wrong| format!("message {} of QP {:#x} differs from byte {} on", wrong.message, wrong.qp, wrong.offset),
    );
    let planes = outcome.plane_bytes.iter().enumerate().map(|(plane, &bytes)| PlaneBytes { plane, bytes });
    let mut before = (0.0, 0);
    let goodput = outcome
        .samples
        .iter()
        .map(|sample| {
            let (at, bytes) = (sample.at_ns as f64 / 1e9, sample.plane_bytes.iter().sum::<u64>());
            let rate = bytes.saturating_sub(before.1) as f64 * 8.0 / (at - before.0).max(1e-9) / 1e9;
            before = (at, bytes);
            (at, rate)
        })
        .collect();
    Ok(Report {
        mode: "sim",
        bytes: outcome.bytes,
        seconds: outcome.elapsed_ns as f64 / 1e9,
        gbit_per_s: outcome.gbit_per_s(),
        integrity,
        planes: planes.collect(),
        t1_packets: outcome.t1_packets.iter().cloned().collect(),
        retransmitted: outcome.retransmitted,
        ev_assumed_bad: outcome.ev_assumed_bad,
        ev_restored: outcome.ev_restored,
        longest_stall_us: outcome.longest_stall_ns / 1_000,
        cut_s: config.cut_at_ns as f64 / 1e9,
        heal_s: config.heal_at_ns as f64 / 1e9,
        chart: story.chart().display().to_string(),
        pcap: story.pcap().display().to_string(),
        goodput,
    })
}

fn live_line(before: &Sample, now: &Sample) {
    let sent: Vec<u64> = now.plane_bytes.iter().zip(&before.plane_bytes).map(|(now, was)| now - was).collect();
    let sum = sent.iter().sum::<u64>().max(1);
    let shares: Vec<String> = sent.iter().map(|bytes| format!("{:.0} %", 100.0 * *bytes as f64 / sum as f64)).collect();
    errln!(
        "{:>5.1} s  {:>5.2} Gb/s  planes {}  EVs {} good {} skip {} bad  {} retransmitted",
        now.at_ns as f64 / 1e9,
        sum as f64 * 8.0 / (now.at_ns - before.at_ns) as f64,
        shares.join(" / "),
        now.good,
        now.skip,
        now.assumed_bad,
        now.retransmitted
    );
}
