//! The demo with real packets: a fabric of kernel switches, two AF_XDP devices, a link cut underneath.

use std::time::Duration;

use mrc_lab::{Capture, CapturedPacket, Fabric, write_pcapng};

use super::{LINK, PlaneBytes, Report, Story};
use crate::interrupt::Interrupt;
use crate::out::errln;
use crate::session::DeviceArgs;
use crate::transfer::Transfer;

/// Bytes kept of a captured packet, and packets kept on each side of the cut.
const SNAPLEN: usize = 256;
const AROUND: usize = 200;

/// What the clock did to the fabric.
#[derive(Default)]
struct Changes {
    cut_s: f64,
    heal_s: f64,
    packets: Vec<CapturedPacket>,
}

/// Runs the story.
pub fn run(story: &Story, interrupt: &Interrupt) -> anyhow::Result<Report> {
    let fabric = Fabric::temporary("demo")?;
    let mut transfer = Transfer::open(&fabric, &DeviceArgs::own_fabric(false))?;
    let changes = drive(&mut transfer, &fabric, Duration::from_secs(story.seconds), interrupt)?;
    let seconds = transfer.start.elapsed().as_secs_f64();
    transfer.drain(interrupt)?;
    finish(story, &fabric, &transfer, seconds, &changes)
}

/// Transfers for `total`, cutting the link after one third and healing it after two.
fn drive(transfer: &mut Transfer, fabric: &Fabric, total: Duration, interrupt: &Interrupt) -> anyhow::Result<Changes> {
    let mut changes = Changes::default();
    let mut capture = None;
    let mut next_line = Duration::from_secs(1);
    let mut before = transfer.a.context.stats()?.engine;
    std::thread::scope(|scope| {
        // Cutting and healing run `ip`, which takes milliseconds: in threads of their own, or it would look like a stall.
        let (mut cut, mut heal) = (None, None);
        while transfer.start.elapsed() < total && !interrupt.is_set() {
            transfer.step(true)?;
            let elapsed = transfer.start.elapsed();
            if capture.is_none() && elapsed + Duration::from_millis(50) >= total / 3 {
                capture = Some(start_capture(fabric)?);
            }
            if cut.is_none() && elapsed >= total / 3 {
                if let Some(capture) = &capture {
                    capture.mark();
                }
                cut = Some(scope.spawn(|| fabric.cut(LINK)));
                changes.cut_s = elapsed.as_secs_f64();
                errln!("{:>5.1} s  link {LINK} cut", changes.cut_s);
            }
            if heal.is_none() && elapsed >= total * 2 / 3 {
                heal = Some(scope.spawn(|| fabric.heal(LINK)));
                changes.heal_s = elapsed.as_secs_f64();
                errln!("{:>5.1} s  link {LINK} healed", changes.heal_s);
            }
            if elapsed >= next_line {
                next_line += Duration::from_secs(1);
                before = live_line(transfer, elapsed, &before)?;
            }
        }
        for change in [cut, heal].into_iter().flatten() {
            change.join().map_err(|_| anyhow::anyhow!("the thread that changes the link panicked"))??;
        }
        anyhow::Ok(())
    })?;
    changes.packets = capture.map(Capture::finish).unwrap_or_default();
    Ok(changes)
}

fn start_capture(fabric: &Fabric) -> anyhow::Result<Capture> {
    // The T0 port towards host A sees what it sends on every uplink, before and after the cut.
    let namespace = fabric.shape().namespace(mrc_lab::Node::T0(0, 0));
    Ok(Capture::start(&namespace, "hA", SNAPLEN, AROUND, AROUND)?)
}

fn live_line(transfer: &Transfer, elapsed: Duration, before: &mrc_core::Stats) -> anyhow::Result<mrc_core::Stats> {
    let now = transfer.a.context.stats()?.engine;
    let sent: Vec<u64> =
        now.ports.iter().zip(&before.ports).take(2).map(|(now, was)| now.tx_bytes - was.tx_bytes).collect();
    let sum = sent.iter().sum::<u64>().max(1);
    let (mut good, mut skip, mut bad) = (0, 0, 0);
    for qp in &transfer.a.qps {
        if let Some(info) = qp.info()? {
            good += info.evs.good;
            skip += info.evs.skip;
            bad += info.evs.assumed_bad;
        }
    }
    errln!(
        "{:>5.1} s  {:>5.2} Gb/s  planes {:>2.0} % / {:>2.0} %  EVs {good} good {skip} skip {bad} bad  {} retransmitted",
        elapsed.as_secs_f64(),
        sum as f64 * 8.0 / 1e9,
        100.0 * sent[0] as f64 / sum as f64,
        100.0 * sent[1] as f64 / sum as f64,
        now.retransmitted
    );
    Ok(now)
}

fn finish(
    story: &Story,
    fabric: &Fabric,
    transfer: &Transfer,
    seconds: f64,
    changes: &Changes,
) -> anyhow::Result<Report> {
    write_pcapng(&story.pcap(), "p0-t0a hA", SNAPLEN as u32, &changes.packets)?;
    let stats = transfer.a.context.stats()?.engine;
    let planes = stats.ports.iter().take(usize::from(fabric.shape().planes)).enumerate();
    Ok(Report {
        mode: "lab",
        bytes: transfer.bytes,
        seconds,
        gbit_per_s: transfer.bytes as f64 * 8.0 / seconds / 1e9,
        integrity: transfer.wrong.clone().unwrap_or_else(|| "ok".to_owned()),
        planes: planes.map(|(plane, port)| PlaneBytes { plane, bytes: port.tx_bytes }).collect(),
        t1_packets: fabric.t1_packets()?,
        retransmitted: stats.retransmitted,
        ev_assumed_bad: stats.ev_assumed_bad,
        ev_restored: stats.ev_restored,
        longest_stall_us: transfer.longest_stall.as_micros() as u64,
        cut_s: changes.cut_s,
        heal_s: changes.heal_s,
        chart: story.chart().display().to_string(),
        pcap: story.pcap().display().to_string(),
        goodput: transfer.bins.rates(),
    })
}
