//! The demo with real packets: a fabric of kernel switches, two AF_XDP devices, a link cut underneath.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use mrc_lab::{Capture, CapturedPacket, Fabric, Shape, write_pcapng};
use mrc_verbs_shim::{Completion, Status, WriteWr};

use super::{Bins, Interrupt, LINK, MESSAGE, PlaneBytes, Report, Story, fill};
use crate::session::{DeviceArgs, ModeArg, Session, lab_host};

/// Queue pairs.
const QPS: usize = 2;
/// Slots of the peer's region per queue pair; a slot is written again once its message was checked.
const SLOTS: usize = 4;
/// Bytes kept of a captured packet, and packets kept on each side of the cut.
const SNAPLEN: usize = 256;
const AROUND: usize = 200;

/// Both ends of the transfer and what is known of it.
struct Transfer {
    a: Session,
    b: Session,
    remotes: Vec<mrc_verbs_shim::QpAddress>,
    /// Message number in each slot, by wr_id.
    slots: Vec<Option<u64>>,
    next_message: u64,
    scratch: Vec<u8>,
    expected: Vec<u8>,
    bytes: u64,
    wrong: Option<String>,
    bins: Bins,
    last_completion: Instant,
    longest_stall: Duration,
    start: Instant,
}

/// What the clock did to the fabric.
#[derive(Default)]
struct Changes {
    cut_s: f64,
    heal_s: f64,
    packets: Vec<CapturedPacket>,
}

/// Runs the story.
pub fn run(story: &Story, interrupt: &Interrupt) -> anyhow::Result<Report> {
    let prefix = format!("mrcdemo{}", std::process::id());
    let fabric = Fabric::up(Shape { prefix, ..Shape::default() })?.guarded();
    let mut transfer = open(&fabric)?;
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
                eprintln!("{:>5.1} s  link {LINK} cut", changes.cut_s);
            }
            if heal.is_none() && elapsed >= total * 2 / 3 {
                heal = Some(scope.spawn(|| fabric.heal(LINK)));
                changes.heal_s = elapsed.as_secs_f64();
                eprintln!("{:>5.1} s  link {LINK} healed", changes.heal_s);
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

fn open(fabric: &Fabric) -> anyhow::Result<Transfer> {
    let args =
        DeviceArgs { host_file: None, lab: None, prefix: String::new(), mode: ModeArg::Auto, spin: false, timeout: 12 };
    let (host_a, host_b) = (lab_host(fabric, "hA")?, lab_host(fabric, "hB")?);
    let bytes = QPS * SLOTS * MESSAGE;
    let a = Session::open(&host_a, &args, QPS, bytes)?;
    let b = Session::open(&host_b, &args, QPS, bytes)?;
    let addresses = |session: &Session| (0..QPS).map(|index| session.address(index)).collect::<Vec<_>>();
    let (of_a, of_b) = (addresses(&a), addresses(&b));
    let mtu = host_a.path_mtu()?.min(host_b.path_mtu()?);
    b.connect(&host_b, host_b.peer(host_a.gid)?, mtu, false, &of_a)?;
    a.connect(&host_a, host_a.peer(host_b.gid)?, mtu, false, &of_b)?;
    let now = Instant::now();
    Ok(Transfer {
        a,
        b,
        remotes: of_b,
        slots: vec![None; QPS * SLOTS],
        next_message: 1,
        scratch: vec![0; MESSAGE],
        expected: vec![0; MESSAGE],
        bytes: 0,
        wrong: None,
        bins: Bins::default(),
        last_completion: now,
        longest_stall: Duration::ZERO,
        start: now,
    })
}

impl Transfer {
    /// Takes what completed, checks it, and writes fresh data into free slots.
    fn step(&mut self, more: bool) -> anyhow::Result<()> {
        let mut idle = true;
        while let Some(completion) = self.a.cq.poll() {
            idle = false;
            self.completed(&completion)?;
        }
        for slot in 0..self.slots.len() {
            if more && self.slots[slot].is_none() {
                idle = false;
                self.post(slot)?;
            }
        }
        if idle {
            // The two cores have two devices and nine switches to run.
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    fn post(&mut self, slot: usize) -> anyhow::Result<()> {
        let number = self.next_message;
        self.next_message += 1;
        let offset = (slot * MESSAGE) as u64;
        fill(number, &mut self.scratch);
        self.a.mr.memory().place(offset, &self.scratch)?;
        let remote = &self.remotes[slot % QPS];
        let wr = WriteWr {
            wr_id: slot as u64,
            mr: &self.a.mr,
            offset,
            len: MESSAGE as u32,
            remote_va: remote.va + offset,
            rkey: remote.rkey,
            signaled: true,
        };
        anyhow::ensure!(self.a.cq.post_write(&self.a.qps[slot % QPS], &wr), "the send queue is full");
        self.slots[slot] = Some(number);
        Ok(())
    }

    /// Checks every byte of a completed message in the peer's memory.
    fn completed(&mut self, completion: &Completion) -> anyhow::Result<()> {
        let slot = completion.wr_id as usize;
        let number = self.slots.get_mut(slot).and_then(Option::take).context("completion of an unknown message")?;
        anyhow::ensure!(
            completion.status == Status::Success,
            "a write failed: {} (QP {:#08x}, {} retries)",
            completion.status.text(),
            completion.qp.value(),
            completion.retries
        );
        let now = Instant::now();
        self.longest_stall = self.longest_stall.max(now - self.last_completion);
        self.last_completion = now;
        self.b.mr.memory().gather((slot * MESSAGE) as u64, &mut self.scratch)?;
        fill(number, &mut self.expected);
        if self.scratch != self.expected {
            let at = self.scratch.iter().zip(&self.expected).position(|(have, want)| have != want).unwrap_or(0);
            self.wrong.get_or_insert(format!("message {number} differs from byte {at} on"));
        }
        self.bytes += MESSAGE as u64;
        self.bins.add((now - self.start).as_secs_f64(), MESSAGE as u64);
        Ok(())
    }

    /// Waits for what is in flight.
    fn drain(&mut self, interrupt: &Interrupt) -> anyhow::Result<()> {
        let give_up = Instant::now() + Duration::from_secs(5);
        while self.slots.iter().any(Option::is_some) && !interrupt.is_set() {
            self.step(false)?;
            anyhow::ensure!(Instant::now() < give_up, "messages in flight did not complete within 5 s");
        }
        Ok(())
    }
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
    eprintln!(
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
