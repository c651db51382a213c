//! Random schedules: what a pair of endpoints is set up with, and what happens to it, as plain data that follows from a
//! seed. Every number in an operation is taken modulo what is there, so any subsequence is a schedule too.

use mrc_core::path::{LossEvAction, SkipMode};
use mrc_core::{NoReceive, RetryConfig, Rng};
use mrc_wire::NackReason;

/// Widest window the storage has room for, units of 128 PSNs.
pub(crate) const WIDEST: u8 = 2;
/// Bytes one side can write.
pub(crate) const MEMORY: usize = 48 << 10;

/// Attributes and knobs of both sides.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) first_psn: [u32; 2],
    pub(crate) first_msn: u16,
    pub(crate) mtu: u16,
    /// Requesters' windows and responders' windows, units of 128 PSNs.
    pub(crate) mpr: u8,
    pub(crate) mpr_dest: u8,
    pub(crate) dynamic_mpr: bool,
    pub(crate) svc_time: bool,
    pub(crate) trimming: bool,
    pub(crate) trim_nack: bool,
    pub(crate) retry: RetryConfig,
    pub(crate) base_rtt_ns: u64,
    pub(crate) target_delay_ns: u64,
    pub(crate) probe_rate_limit_ns: u64,
    /// `None`: no congestion control.
    pub(crate) window_bytes: Option<u64>,
    pub(crate) max_wimm: u16,
    pub(crate) max_wimm_dest: u16,
    pub(crate) no_receive: NoReceive,
    pub(crate) tail_retry_lenient: bool,
    pub(crate) tail_retry_paced: bool,
    pub(crate) silent_packets: u8,
    pub(crate) sack_gen_threshold: u32,
    pub(crate) merge_sacks: bool,
    pub(crate) tack_within_message: bool,
    pub(crate) ask_each_message: bool,
    pub(crate) turn_bytes: u32,
    pub(crate) oor_silent: bool,
    pub(crate) complete_on_sack: bool,
    pub(crate) retry_strict: bool,
    pub(crate) timestamps: bool,
    pub(crate) ctl_ect: bool,
    pub(crate) always_skip_after: u8,
    pub(crate) reorder_pkts_min: u16,
    pub(crate) reorder_factor: u16,
    pub(crate) reorder_delay_ns: u64,
    pub(crate) reorder_tolerance: u16,
    pub(crate) reorder_floor_ns: u64,
    pub(crate) cq_depth: usize,
    pub(crate) loss_ev_action: LossEvAction,
    pub(crate) loss_streak: u8,
    pub(crate) plane_lead: u8,
    pub(crate) resurrect_probes: u8,
    pub(crate) relapse_backoff: bool,
    pub(crate) skip_mode: SkipMode,
    pub(crate) v4: bool,
    /// Nanoseconds that pass with every frame delivered.
    pub(crate) flight_ns: u64,
    pub(crate) start_ns: u64,
    /// Drivers report when a payload is in memory, which may be late and in any order.
    pub(crate) delayed_placement: bool,
}

/// Something that happens. Frames in flight are numbered from the oldest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// The oldest frames arrive, and both drivers send what they can after each.
    Flow {
        frames: u32,
    },
    Deliver {
        nth: u32,
    },
    Drop {
        nth: u32,
    },
    Duplicate {
        nth: u32,
    },
    Corrupt {
        nth: u32,
        bit: u32,
    },
    Trim {
        nth: u32,
        last_hop: bool,
    },
    Mark {
        nth: u32,
    },
    /// A frame of long ago comes again.
    Replay {
        nth: u32,
    },
    Wait {
        ns: u64,
    },
    /// Time passes until a timer of either side is due.
    Timer,
    Post {
        side: usize,
        len: u32,
        imm: bool,
        signaled: bool,
        bad_key: bool,
    },
    Receive {
        side: usize,
    },
    /// The driver takes at most so many frames, through some ports.
    Poll {
        side: usize,
        frames: u32,
        ports: u32,
    },
    /// The application takes at most so many completions.
    Reap {
        side: usize,
        completions: u32,
    },
    Port {
        side: usize,
        plane: u8,
        up: bool,
    },
    Window {
        side: usize,
        mpr: u8,
    },
    Refuse {
        side: usize,
        reason: Option<NackReason>,
    },
    /// Payloads reach memory, the one with this number among those under way first.
    Placed {
        side: usize,
        nth: u32,
        payloads: u32,
    },
    /// The driver could not place a payload.
    PlaceFails {
        side: usize,
        nth: u32,
    },
    Kill {
        side: usize,
    },
    /// The firmware of a side is replaced: a new endpoint goes on from the image of the old one.
    Update {
        side: usize,
        buffer: u32,
    },
}

/// A setup and what happens.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) setup: Setup,
    pub(crate) ops: Vec<Op>,
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u32) as usize]
}

fn chance(rng: &mut Rng, percent: u32) -> bool {
    rng.below(100) < percent
}

impl Setup {
    fn random(seed: u64, rng: &mut Rng) -> Self {
        let near_wrap = chance(rng, 60);
        let mut first_psn = || if near_wrap { 0x100_0000 - rng.below(200) - 1 } else { rng.below(1 << 24) };
        let first_psn = [first_psn(), first_psn()];
        // 25 is without limit; a short interval then, or the last packet of a bad time would be waited for too long.
        let exponential = pick(rng, &[0, 2, 5, 25, 25, 25]);
        let timeout = 6 + rng.below(if exponential == 25 { 2 } else { 6 }) as u8;
        let retry = RetryConfig { timeout, linear: rng.below(8) as u8, exponential };
        Self {
            seed,
            first_psn,
            first_msn: pick(rng, &[0, 1, 0xFFFD]),
            mtu: pick(rng, &[256, 256, 512]),
            mpr: 1 + rng.below(WIDEST.into()) as u8,
            mpr_dest: 1 + rng.below(WIDEST.into()) as u8,
            dynamic_mpr: chance(rng, 30),
            svc_time: chance(rng, 20),
            trimming: chance(rng, 50),
            trim_nack: chance(rng, 80),
            retry,
            base_rtt_ns: pick(rng, &[1_600, 10_000, 50_000]),
            target_delay_ns: pick(rng, &[0, 10_000]),
            probe_rate_limit_ns: pick(rng, &[1_024, 10_000]),
            window_bytes: pick(rng, &[None, None, None, Some(1), Some(4_000), Some(64_000)]),
            max_wimm: pick(rng, &[1, 2, 4]),
            max_wimm_dest: pick(rng, &[4, 4, 4, 4, 2]),
            no_receive: if chance(rng, 10) { NoReceive::Nak } else { NoReceive::Hold },
            tail_retry_lenient: chance(rng, 50),
            sack_gen_threshold: pick(rng, &[1, 4_096, 16_384]),
            merge_sacks: chance(rng, 50),
            tack_within_message: chance(rng, 50),
            ask_each_message: chance(rng, 50),
            turn_bytes: pick(rng, &[0, 0, 1, 2_500, 65_536]),
            oor_silent: chance(rng, 20),
            complete_on_sack: chance(rng, 15),
            retry_strict: chance(rng, 15),
            timestamps: chance(rng, 80),
            ctl_ect: chance(rng, 20),
            always_skip_after: pick(rng, &[0, 0, 0, 1, 3]),
            reorder_pkts_min: pick(rng, &[1, 3, 3, 8]),
            reorder_factor: pick(rng, &[0, 128, 384]),
            reorder_delay_ns: pick(rng, &[0, 0, 2_048, 20_000]),
            cq_depth: pick(rng, &[1, 2, 16]),
            loss_ev_action: pick(
                rng,
                &[LossEvAction::ByTrimming, LossEvAction::AssumedBad, LossEvAction::Skip, LossEvAction::None],
            ),
            loss_streak: pick(rng, &[0, 1, 2]),
            resurrect_probes: pick(rng, &[0, 1, 3]),
            skip_mode: pick(rng, &[SkipMode::Rotation, SkipMode::Rotation, SkipMode::Time { ns: 50_000 }]),
            v4: chance(rng, 20),
            flight_ns: pick(rng, &[0, 64, 1_024, 5_120]),
            // Timestamps (16 bits of 128 ns) and ticks (32 bits of 16 ns) wrap under way.
            start_ns: pick(rng, &[0, (1 << 23) - 20_480, (1 << 36) - 102_400]),
            plane_lead: pick(rng, &[0, 0, 1, 4]),
            reorder_tolerance: pick(rng, &[0, 256, 512]),
            reorder_floor_ns: pick(rng, &[0, 0, 5_120]),
            delayed_placement: chance(rng, 40),
            tail_retry_paced: chance(rng, 50),
            silent_packets: pick(rng, &[0, 0, 1, 4]),
            relapse_backoff: chance(rng, 50),
        }
    }
}

/// How often each kind of operation comes up; a climate multiplies the bad ones.
fn random_op(rng: &mut Rng, climate: &[u32; 11]) -> Op {
    let [loss, copies, damage, trim, mark, replay, ports, window, refuse, fatal, updates] = *climate;
    let weights = [
        60,
        60,
        6 * loss,
        4 * copies,
        3 * damage,
        5 * trim,
        5 * mark,
        3 * replay,
        20,
        16,
        24,
        10,
        40,
        10,
        2 * ports,
        3 * window,
        2 * refuse,
        fatal,
        40,
        updates,
    ];
    let mut left = rng.below(weights.iter().sum());
    let mut kind = 0;
    while left >= weights[kind] {
        left -= weights[kind];
        kind += 1;
    }
    let side = rng.below(2) as usize;
    // Mostly near the oldest, so that reordering is common and starvation is not.
    let near = |rng: &mut Rng| if chance(rng, 70) { rng.below(3) } else { rng.below(64) };
    let nth = near(rng);
    match kind {
        0 => Op::Flow { frames: 1 + rng.below(12) },
        1 => Op::Deliver { nth },
        2 => Op::Drop { nth },
        3 => Op::Duplicate { nth },
        4 => Op::Corrupt { nth, bit: rng.below(1 << 16) },
        5 => Op::Trim { nth, last_hop: chance(rng, 30) },
        6 => Op::Mark { nth },
        7 => Op::Replay { nth: rng.below(64) },
        8 => {
            let longest = pick(rng, &[8, 256, 8_192]);
            Op::Wait { ns: u64::from(1 + rng.below(longest)) * 64 }
        }
        9 => Op::Timer,
        10 => {
            let len = match rng.below(20) {
                0 => 0,
                1..=9 => rng.below(300),
                10..=18 => rng.below(3_000),
                _ => rng.below(40_000),
            };
            let bad_key = fatal > 0 && chance(rng, 3);
            Op::Post { side, len, imm: chance(rng, 35), signaled: chance(rng, 85), bad_key }
        }
        11 => Op::Receive { side },
        12 => Op::Poll { side, frames: pick(rng, &[1, 2, 5, 200, 200]), ports: pick(rng, &[6, 6, 6, 2, 4]) },
        13 => Op::Reap { side, completions: pick(rng, &[1, 100]) },
        14 => Op::Port { side, plane: rng.below(2) as u8, up: chance(rng, 50) },
        15 => Op::Window { side, mpr: 1 + rng.below(WIDEST.into()) as u8 },
        16 => Op::Refuse {
            side,
            reason: pick(
                rng,
                &[None, Some(NackReason::NoBitmap), Some(NackReason::NoPktBuffer), Some(NackReason::NoResource)],
            ),
        },
        19 => Op::Update { side, buffer: rng.below(12_000) },
        18 => Op::Placed { side, nth, payloads: pick(rng, &[1, 1, 4, 64]) },
        _ => match rng.below(4) {
            0 => Op::Kill { side },
            1 => Op::Refuse { side, reason: Some(NackReason::UnexpEvent) },
            _ => Op::PlaceFails { side, nth },
        },
    }
}

impl Schedule {
    /// The schedule of `seed`.
    pub(crate) fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let setup = Setup::random(seed, &mut rng);
        let mut climate = [0; 11];
        for factor in &mut climate {
            *factor = pick(&mut rng, &[0, 0, 1, 3]);
        }
        // What ends a connection ends the schedule, more or less.
        climate[9] = u32::from(chance(&mut rng, 10));
        let most = pick(&mut rng, &[40, 120, 300]);
        let count = 20 + rng.below(most);
        let ops = (0..count).map(|_| random_op(&mut rng, &climate)).collect();
        Self { setup, ops }
    }
}
