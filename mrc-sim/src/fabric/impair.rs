//! What a bad link does to packets that a good one would deliver: loss, corruption, jitter. Probabilities become integer
//! thresholds of 32-bit draws when the link is set up, so that no packet meets a float.

use mrc_core::Rng;

/// A probability as a threshold of a 32-bit draw: resolution 2.3e-10.
fn threshold(probability: f64) -> u32 {
    // Saturating: 1.0 becomes the largest threshold, which every draw but one in 2^32 passes.
    (probability * 4_294_967_296.0) as u32
}

/// How a link loses packets.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Loss {
    /// It does not.
    #[default]
    None,
    /// Each packet alike.
    Bernoulli {
        /// Probability in `[0, 1]`.
        probability: f64,
    },
    /// Bursts: a good and a bad state, each with its loss; the state may change after every packet.
    GilbertElliott {
        /// Probability of leaving the good state.
        to_bad: f64,
        /// Probability of leaving the bad state.
        to_good: f64,
        /// Loss in the good state.
        loss_good: f64,
        /// Loss in the bad state.
        loss_bad: f64,
    },
}

/// What is wrong with a link. The default is nothing.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Impairment {
    /// Packets that vanish.
    pub loss: Loss,
    /// Only frames of more bytes vanish, as behind a port with too small an MTU. 0: any.
    pub longer_than: u32,
    /// Probability that a packet arrives with wrong bits which the link's own checksum does not see: the receiver's ICRC
    /// must.
    pub corruption: f64,
    /// Each packet is delayed by up to this much, in nanoseconds; a link never reorders.
    pub jitter_ns: u32,
}

impl Impairment {
    /// Whether the link is as good as any.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens to one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fate {
    pub(crate) lost: bool,
    pub(crate) corrupt: bool,
}

/// An impairment at work on one direction of a link.
#[derive(Clone, Debug)]
pub(crate) struct Impaired {
    /// Thresholds: leave good, leave bad, loss when good, loss when bad.
    leave: [u32; 2],
    loss: [u32; 2],
    longer_than: u32,
    bad: bool,
    corruption: u32,
    jitter_ns: u32,
    /// Latest arrival so far: the next packet does not overtake it.
    last_arrival: u64,
}

impl Impaired {
    pub(crate) fn new(spec: &Impairment) -> Self {
        let (leave, loss) = match spec.loss {
            Loss::None => ([0; 2], [0; 2]),
            Loss::Bernoulli { probability } => ([0; 2], [threshold(probability); 2]),
            Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                ([threshold(to_bad), threshold(to_good)], [threshold(loss_good), threshold(loss_bad)])
            }
        };
        let corruption = threshold(spec.corruption);
        let (longer_than, jitter_ns) = (spec.longer_than, spec.jitter_ns);
        Self { leave, loss, longer_than, bad: false, corruption, jitter_ns, last_arrival: 0 }
    }

    /// Something else is wrong from now on: what is on the link stays in order, and a burst goes on.
    pub(crate) fn change(&mut self, spec: &Impairment) {
        let bad = self.bad && matches!(spec.loss, Loss::GilbertElliott { .. });
        *self = Self { bad, last_arrival: self.last_arrival, ..Self::new(spec) };
    }

    /// Whether it does nothing to any packet, and draws nothing for it.
    pub(crate) fn is_idle(&self) -> bool {
        let good = !self.bad && self.leave[0] == 0 && self.loss[0] == 0;
        good && self.corruption == 0 && self.jitter_ns == 0
    }

    /// Of a frame of `bytes`.
    pub(crate) fn fate(&mut self, bytes: u32, rng: &mut Rng) -> Fate {
        let mut hit = |threshold: u32| threshold != 0 && ((rng.next_u64() >> 32) as u32) < threshold;
        let state = usize::from(self.bad);
        let exposed = bytes > self.longer_than;
        let lost = exposed && hit(self.loss[state]);
        if exposed && hit(self.leave[state]) {
            self.bad = !self.bad;
        }
        Fate { lost, corrupt: !lost && hit(self.corruption) }
    }

    /// The arrival with jitter.
    pub(crate) fn delay(&mut self, arrives_at: u64, rng: &mut Rng) -> u64 {
        let extra = if self.jitter_ns == 0 { 0 } else { u64::from(rng.below(self.jitter_ns + 1)) };
        self.last_arrival = (arrives_at + extra).max(self.last_arrival);
        self.last_arrival
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(loss: Loss, packets: u32) -> (u32, u32) {
        let (mut rng, mut link) = (Rng::new(9), Impaired::new(&Impairment { loss, ..Impairment::default() }));
        let (mut lost, mut bursts, mut before) = (0, 0, false);
        for _ in 0..packets {
            let now = link.fate(1, &mut rng).lost;
            lost += u32::from(now);
            bursts += u32::from(now && !before);
            before = now;
        }
        (lost, bursts)
    }

    #[test]
    fn bernoulli_loses_its_share() {
        let (lost, bursts) = losses(Loss::Bernoulli { probability: 0.2 }, 100_000);
        assert!((19_500..20_500).contains(&lost), "{lost}");
        assert!(bursts > 15_000, "{bursts}");
        assert_eq!(losses(Loss::Bernoulli { probability: 1.0 }, 1_000).0, 1_000);
        assert_eq!(losses(Loss::None, 1_000).0, 0);
    }

    #[test]
    fn a_small_mtu_loses_what_is_longer() {
        let spec =
            Impairment { loss: Loss::Bernoulli { probability: 1.0 }, longer_than: 1_514, ..Impairment::default() };
        let (mut rng, mut link) = (Rng::new(9), Impaired::new(&spec));
        for (bytes, lost) in [(64, false), (1_514, false), (1_515, true), (4_266, true)] {
            assert_eq!(link.fate(bytes, &mut rng), Fate { lost, corrupt: false }, "{bytes}");
        }
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts() {
        // A tenth of the time bad, for 100 packets at a time, and then everything is lost.
        let loss = Loss::GilbertElliott { to_bad: 1.0 / 900.0, to_good: 0.01, loss_good: 0.0, loss_bad: 1.0 };
        let (lost, bursts) = losses(loss, 1_000_000);
        assert!((80_000..120_000).contains(&lost), "{lost}");
        assert!((70..140).contains(&(lost / bursts)), "{lost} in {bursts}");
    }

    #[test]
    fn jitter_delays_and_never_reorders() {
        let (mut rng, mut link) = (Rng::new(1), Impaired::new(&Impairment { jitter_ns: 500, ..Impairment::default() }));
        let mut last = 0;
        for sent in (0..100_000u64).step_by(20) {
            let arrival = link.delay(sent, &mut rng);
            assert!(arrival >= sent && arrival >= last && arrival <= sent + 520, "{sent} {arrival}");
            last = arrival;
        }
        link.change(&Impairment::default());
        assert_eq!(link.delay(last - 400, &mut rng), last, "what comes after the jitter does not overtake it");
        assert_eq!(link.delay(last + 1, &mut rng), last + 1);
    }
}
