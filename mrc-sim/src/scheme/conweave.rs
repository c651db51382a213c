//! ConWeave (Song et al., SIGCOMM 2023): the source leaf measures the round trip of every flow and reroutes it when the reply
//! is late; the destination leaf holds what the new path brought too early, so that hosts see no reordering.
//!
//! ```text
//! source leaf         first packet of an epoch asks (RTT_REQUEST); no RTT_REPLY in time: the next packet is the TAIL on
//!                     the old path, all after it are REROUTED on the new one, until CLEAR begins the next epoch
//! destination leaf    RTT_REPLY to a request; REROUTED waits in a queue of its flow until the TAIL came (or should have
//!                     come); CLEAR when the TAIL came; NOTIFY for a marked packet: its path is busy
//! ```
//! The four control messages are RTT_REQUEST, a flag of a data packet, and RTT_REPLY, CLEAR and NOTIFY, packets of 64 bytes
//! in the control class. When TAIL or CLEAR is lost, a flow stays on its new path, and is not measured, until it is silent for
//! `inactive_us`: only that begins a new epoch, as in the simulator that the authors published. What data packets carry stands in their scratch area: the paper takes reserved bits of the RoCE
//! header. Four things differ from the paper: the number of queues for reordering is not limited; a leaf repeats the NOTIFY
//! for a path only after half of the time that the first one lasts; and packets of earlier epochs, too, put off the time at
//! which held packets go without the TAIL. Leaves do not know the size of packets: the idle round trip, to which `reply_us` is
//! added, is that of one of 4200 bytes. Where packets carry 1 KiB, it is 0.5 us longer than theirs at 100 Gb/s.

use std::collections::HashMap;

use mrc_core::Instant;

use super::{
    ip,
    leaf_spine::{self, Place, Role},
};
use crate::fabric::{
    Clos, NoForward, Packet, Param, PathNames, PortId, SchemeInfo, SwitchCtx, SwitchScheme, Verdict, table_bytes,
};

pub(super) static INFO: SchemeInfo = SchemeInfo {
    name: "conweave",
    about: "ConWeave: flows leave a path whose round trip is late; the last leaf restores the order.",
    paths: PathNames::Entropy,
    params: &[
        Param {
            name: "reply_us",
            about: "Time beyond the round trip of the idle fabric in which the reply must come, in microseconds.",
            default: 4.0,
            range: (0.1, 1e6),
            whole: false,
        },
        Param {
            name: "busy_us",
            about: "How long a path counts as busy after a mark, in microseconds.",
            default: 16.0,
            range: (0.1, 1e6),
            whole: false,
        },
        Param {
            name: "inactive_us",
            about: "Silence that begins a new epoch on a new path, in microseconds; longer than `resume_us`.",
            default: 300.0,
            range: (1.0, 1e9),
            whole: false,
        },
        Param {
            name: "resume_us",
            about: "Time beyond its estimate for which the last packet of the old path is awaited, in microseconds.",
            default: 16.0,
            range: (0.1, 1e6),
            whole: false,
        },
        Param {
            name: "wait_us",
            about: "The same when no packet of the old path came first, in microseconds.",
            default: 200.0,
            range: (1.0, 1e6),
            whole: false,
        },
    ],
    check: Some(check),
    build: |site, values| {
        let ns = |nth: usize| (values[nth] * 1e3) as u64;
        Box::new(ConWeave {
            place: Place::of(site),
            reply_ns: idle_rtt_ns(site.clos) + ns(0),
            busy_ns: ns(1),
            inactive_ns: ns(2),
            resume_ns: ns(3),
            wait_ns: ns(4),
            tx: HashMap::new(),
            busy: HashMap::new(),
            rx: HashMap::new(),
            notified: HashMap::new(),
            queues: Vec::new(),
        })
    },
};

fn check(clos: &Clos, values: &[f64]) -> Result<(), &'static str> {
    leaf_spine::check(clos, values)?;
    if values[2] <= values[3] {
        return Err("inactive_us must be above resume_us: a new epoch would overtake packets that are still awaited");
    }
    Ok(())
}

/// From leaf to leaf and back: a full packet there, a control packet back.
fn idle_rtt_ns(clos: &Clos) -> u64 {
    let link = clos.fabric_link;
    let hop = |bytes: u64| bytes * 8_000_000_000 / link.rate_bps.max(1) + u64::from(link.delay_ns);
    2 * (hop(4_200) + hop(CONTROL_BYTES.into())) + 4 * u64::from(clos.switch_latency_ns)
}

const CONTROL_BYTES: u32 = 64;

// Flags of the first byte of the scratch area.
const DATA: u8 = 1;
const REQUEST: u8 = 2;
const TAIL: u8 = 4;
const REROUTED: u8 = 8;
const REPLY: u8 = 0x81;
const CLEAR: u8 = 0x82;
const NOTIFY: u8 = 0x83;

/// What a packet carries in its scratch area. Times are in units of 16 ns.
struct Tag {
    flags: u8,
    epoch: u8,
    path: u8,
    from: u8,
    sent: u32,
    tail: u32,
}

impl Tag {
    fn write(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        (bytes[0], bytes[1], bytes[2], bytes[3]) = (self.flags, self.epoch, self.path, self.from);
        bytes[4..8].copy_from_slice(&self.sent.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.tail.to_be_bytes());
        bytes
    }

    fn read(bytes: &[u8; 16]) -> Self {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self { flags: bytes[0], epoch: bytes[1], path: bytes[2], from: bytes[3], sent: word(4), tail: word(8) }
    }
}

/// Scratch area of a control packet.
fn message(kind: u8, epoch: u8, path: u8, from: u8, flow: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    (bytes[0], bytes[1], bytes[2], bytes[3]) = (kind, epoch, path, from);
    bytes[8..].copy_from_slice(&flow.to_be_bytes());
    bytes
}

fn ticks(at: Instant) -> u32 {
    (at.as_nanos() >> 4) as u32
}

/// A flow at its source leaf.
#[derive(Clone, Copy)]
struct Tx {
    epoch: u8,
    rerouted: bool,
    path: PortId,
    active: Instant,
    /// When the reply counts as late; `Instant::FAR` when none is awaited.
    deadline: Instant,
    /// The next packet begins an epoch on the same path.
    settled: bool,
    tail: u32,
}

/// A flow at its destination leaf.
#[derive(Clone, Copy, Default)]
struct Rx {
    epoch: u8,
    /// The last packet of the old path came, or is no longer awaited.
    tail_seen: bool,
    /// When the latest packet of the old path left the source leaf, and when it came.
    old: Option<(u32, Instant)>,
    queue: Option<u32>,
}

/// A queue in which packets of a flow wait.
struct Queue {
    flow: u64,
    /// When it is let go; `None` when it is empty.
    flush_at: Option<Instant>,
}

/// Maps are looked up only, so that their order is without effect.
struct ConWeave {
    place: Place,
    reply_ns: u64,
    busy_ns: u64,
    inactive_ns: u64,
    resume_ns: u64,
    wait_ns: u64,
    tx: HashMap<u64, Tx>,
    /// Until when a path, by destination leaf and uplink, counts as busy.
    busy: HashMap<(u8, u8), Instant>,
    rx: HashMap<u64, Rx>,
    /// When a source leaf was last told of a busy path.
    notified: HashMap<(u8, u8), Instant>,
    queues: Vec<Queue>,
}

impl ConWeave {
    /// The first of two random paths that is not busy (section 3.2).
    fn good_path(&self, ctx: &mut SwitchCtx<'_>, to: u8) -> Option<PortId> {
        for _ in 0..2 {
            let port = leaf_spine::random_uplink(ctx);
            let path = (to, leaf_spine::number_of(ctx, port));
            if self.busy.get(&path).is_none_or(|&until| until <= ctx.now()) {
                return Some(port);
            }
        }
        None
    }

    fn leave(&mut self, ctx: &mut SwitchCtx<'_>, to: u8, packet: &mut Packet) -> PortId {
        let (now, flow) = (ctx.now(), ip::flow(packet));
        let good = self.good_path(ctx, to);
        let any = good.unwrap_or_else(|| leaf_spine::random_uplink(ctx));
        let (reply_ns, inactive_ns) = (self.reply_ns, self.inactive_ns);
        let known = self.tx.get(&flow).copied();
        let mut tx = known.unwrap_or(Tx {
            epoch: 0,
            rerouted: false,
            path: any,
            active: now,
            deadline: Instant::FAR,
            settled: true,
            tail: 0,
        });
        let silent = now.since(tx.active) > inactive_ns || !ctx.is_up(tx.path);
        let mut flags = DATA;
        let mut path = tx.path;
        if silent || tx.settled {
            if silent {
                path = good.unwrap_or(if ctx.is_up(tx.path) { tx.path } else { any });
            }
            tx = Tx { epoch: tx.epoch.wrapping_add(1), rerouted: false, path, settled: false, tail: 0, ..tx };
            tx.deadline = now.after(reply_ns);
            flags |= REQUEST;
        } else if tx.deadline < now {
            // The reply is late; without a better path the flow stays, and asks no more in this epoch.
            tx.deadline = Instant::FAR;
            if let Some(better) = good.filter(|&better| better != tx.path) {
                tx = Tx { rerouted: true, path: better, tail: ticks(now), ..tx };
                flags |= TAIL;
            } else {
                tx.settled = true;
            }
        } else if tx.rerouted {
            flags |= REROUTED;
        }
        tx.active = now;
        self.tx.insert(flow, tx);
        let path_id = leaf_spine::number_of(ctx, path);
        let tag =
            Tag { flags, epoch: tx.epoch, path: path_id, from: self.place.index, sent: ticks(now), tail: tx.tail };
        packet.scratch = tag.write();
        path
    }

    /// A control packet for this leaf.
    fn hear(&mut self, now: Instant, bytes: &[u8; 16]) {
        let flow = u64::from_be_bytes([8, 9, 10, 11, 12, 13, 14, 15].map(|at: usize| bytes[at]));
        let [kind, epoch, path, from] = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if kind == NOTIFY {
            self.busy.insert((from, path), now.after(self.busy_ns));
            return;
        }
        let Some(tx) = self.tx.get_mut(&flow).filter(|tx| tx.epoch == epoch) else { return };
        if kind == CLEAR || (kind == REPLY && !tx.rerouted && now < tx.deadline) {
            (tx.settled, tx.deadline) = (true, Instant::FAR);
        }
    }

    fn tell(&self, ctx: &mut SwitchCtx<'_>, to: u8, scratch: [u8; 16]) {
        if ctx.all_uplinks().iter().any(|&port| ctx.is_up(port)) {
            let port = leaf_spine::random_uplink(ctx);
            ctx.emit(port, self.place.control_packet(to, CONTROL_BYTES, scratch));
        }
    }

    /// When the last packet of the old path should have come: as long after the latest one as it left after that.
    fn tail_due(&self, now: Instant, rx: &Rx, tag: &Tag) -> Instant {
        match rx.old {
            Some((sent, came)) => {
                let behind = (tag.tail.wrapping_sub(sent) as i32).max(0) as u64;
                came.after((behind << 4) + self.resume_ns).max(now)
            }
            None => now.after(self.wait_ns + self.resume_ns),
        }
    }

    fn queue_for(&mut self, flow: u64) -> u32 {
        match self.queues.iter().position(|queue| queue.flush_at.is_none()) {
            Some(at) => {
                self.queues[at].flow = flow;
                at as u32
            }
            None => {
                self.queues.push(Queue { flow, flush_at: None });
                self.queues.len() as u32 - 1
            }
        }
    }

    /// One more packet of the old path came: the last one cannot be far behind it.
    fn await_more(&mut self, ctx: &mut SwitchCtx<'_>, rx: &Rx) {
        if let Some(queue) = rx.queue {
            let at = ctx.now().after(self.resume_ns);
            let at = self.queues[queue as usize].flush_at.map_or(at, |set| set.max(at));
            self.set_flush(ctx, queue, at);
        }
    }

    fn set_flush(&mut self, ctx: &mut SwitchCtx<'_>, queue: u32, at: Instant) {
        self.queues[queue as usize].flush_at = Some(at);
        ctx.set_timer(at, queue);
    }

    fn arrive(&mut self, ctx: &mut SwitchCtx<'_>, port: PortId, packet: &mut Packet) -> Verdict {
        let (now, flow) = (ctx.now(), ip::flow(packet));
        let tag = Tag::read(&std::mem::take(&mut packet.scratch));
        if packet.is_trimmed() {
            // It overtook what was sent before it, and carries no data: it neither waits nor ends the wait of others. Where it
            // was the TAIL, they go when that should have come.
            if tag.flags & REQUEST != 0 {
                self.tell(ctx, tag.from, message(REPLY, tag.epoch, 0, self.place.index, flow));
            }
            return Verdict::To(port);
        }
        let mut rx = self.rx.get(&flow).copied().unwrap_or(Rx { epoch: tag.epoch, ..Rx::default() });
        let ahead = tag.epoch.wrapping_sub(rx.epoch) as i8;
        if ahead < 0 {
            // Of an epoch before: what waits came too early, and its own old path brings more.
            self.await_more(ctx, &rx);
            return Verdict::To(port);
        }
        let overtaken = rx.queue.filter(|_| ahead > 0);
        if ahead > 0 {
            rx = Rx { epoch: tag.epoch, ..Rx::default() };
        }
        if is_marked(packet) {
            let told = self.notified.get(&(tag.from, tag.path)).copied();
            if told.is_none_or(|at| now.since(at) >= self.busy_ns / 2) {
                self.notified.insert((tag.from, tag.path), now);
                self.tell(ctx, tag.from, message(NOTIFY, 0, tag.path, self.place.index, flow));
            }
        }
        if tag.flags & REQUEST != 0 {
            self.tell(ctx, tag.from, message(REPLY, tag.epoch, 0, self.place.index, flow));
        }
        let mut verdict = Verdict::To(port);
        if let Some(queue) = overtaken {
            // The epoch before has ended: what waits goes first, then this packet.
            self.queues[queue as usize].flush_at = None;
            ctx.release(queue);
            verdict = Verdict::Hold { queue, port };
        }
        if tag.flags & TAIL != 0 {
            rx.tail_seen = true;
            self.tell(ctx, tag.from, message(CLEAR, tag.epoch, 0, self.place.index, flow));
            if let Some(queue) = rx.queue.take() {
                self.queues[queue as usize].flush_at = None;
                ctx.release(queue);
            }
        } else if tag.flags & REROUTED == 0 {
            rx.old = Some((tag.sent, now));
            self.await_more(ctx, &rx);
        } else if !rx.tail_seen {
            let queue = match rx.queue {
                Some(queue) => queue,
                None => {
                    let queue = self.queue_for(flow);
                    self.set_flush(ctx, queue, self.tail_due(now, &rx, &tag));
                    rx.queue = Some(queue);
                    queue
                }
            };
            verdict = Verdict::Hold { queue, port };
        }
        self.rx.insert(flow, rx);
        verdict
    }
}

/// Whether a switch marked the packet.
fn is_marked(packet: &Packet) -> bool {
    packet.header().get(15).is_some_and(|byte| byte >> 4 & 0b11 == 0b11)
}

impl SwitchScheme for ConWeave {
    fn forward(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> Result<Verdict, NoForward> {
        let flags = packet.scratch[0];
        match self.place.role(ctx, packet)? {
            // Acknowledgements and the like are neither rerouted nor held.
            Role::Source { .. } if packet.control => Ok(Verdict::To(leaf_spine::by_hash(ctx, packet))),
            Role::Source { to } => Ok(Verdict::To(self.leave(ctx, to, packet))),
            Role::Down(port) if self.place.spine || flags == 0 => Ok(Verdict::To(port)),
            Role::Down(_) if flags & 0x80 != 0 => {
                self.hear(ctx.now(), &packet.scratch);
                Ok(Verdict::Consume)
            }
            Role::Down(port) => Ok(self.arrive(ctx, port, packet)),
        }
    }

    fn on_timer(&mut self, ctx: &mut SwitchCtx<'_>, timer: u32) {
        let queue = &mut self.queues[timer as usize];
        if queue.flush_at.is_none_or(|at| at > ctx.now()) {
            return;
        }
        queue.flush_at = None;
        let flow = queue.flow;
        if let Some(rx) = self.rx.get_mut(&flow) {
            (rx.queue, rx.tail_seen) = (None, true);
        }
        ctx.release(timer);
    }

    fn state_bytes(&self) -> usize {
        table_bytes::<u64, Tx>(self.tx.len())
            + table_bytes::<u64, Rx>(self.rx.len())
            + table_bytes::<(u8, u8), Instant>(self.busy.len() + self.notified.len())
            + self.queues.len() * size_of::<Queue>()
    }
}
