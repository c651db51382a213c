//! The path of a packet that a NACK refused: not the one that the NACK names. Source: `transport.md` 3.3, `paths.md` 8.

use mrc_wire::Ev;

use super::{Choice, EvIndex, EvSlot, EvState, PathConfig, PathSet, set::random_place};
use crate::{port::PortMask, rng::Rng, time::Instant};

/// What is there beside the EV that a NACK names.
enum Other {
    /// A healthy EV of the active set, on a free port.
    Active,
    /// A healthy EV in reserve, on a free port.
    Backup(u16),
    /// Healthy ones on ports that are busy.
    Busy,
    /// ASSUMED_BAD ones; on a free port if it is said which.
    Bad(Option<u16>),
    /// None that may be used.
    None,
}

impl PathSet {
    /// Whether what is sent again can take another path than before.
    pub(crate) fn has_choice(&self) -> bool {
        !self.is_single_path() && self.universe() > 1
    }

    /// As [`select_other`](Self::select_other), for the retransmission of a packet whose NACK echoed `nacked`. It waits for a busy
    /// port, and takes a bad EV as a last resort does, before it uses that EV again. Where nothing else may be used it does: a
    /// QP with one EV would stop. Policies that keep to one path keep to it.
    #[expect(clippy::too_many_arguments, reason = "the tables of a QP are lent separately")]
    pub fn select_after_nack(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        order: &mut [u16],
        ports: PortMask,
        nacked: Ev,
        cfg: &PathConfig,
        rng: &mut Rng,
    ) -> Option<Choice> {
        //= SND-005
        let strict = !cfg.reuse_nacked_ev && self.has_choice();
        if strict && self.rotation.active_on(ports) < 2 {
            return match self.other(slots, ports, nacked, rng) {
                Other::Active | Other::None => self.select_other(now, slots, order, ports, nacked, cfg, rng),
                Other::Backup(index) => self.choice(slots, EvIndex(index)),
                Other::Busy => None,
                Other::Bad(_) if !cfg.last_resort => self.select_other(now, slots, order, ports, nacked, cfg, rng),
                Other::Bad(bad) => {
                    let index = bad.filter(|_| self.rotation.may_resort(now, cfg))?;
                    self.choice(slots, EvIndex(index))
                }
            };
        }
        self.select_other(now, slots, order, ports, nacked, cfg, rng)
    }

    fn other(&self, slots: &[EvSlot], ports: PortMask, nacked: Ev, rng: &mut Rng) -> Other {
        let used = self.used(slots);
        let others = || used.iter().filter(|slot| slot.ev() != nacked && self.usable_ports().contains(slot.port()));
        if others().any(|slot| slot.is_active() && ports.contains(slot.port())) {
            return Other::Active;
        }
        let mut any = |wanted: fn(&EvSlot) -> bool| {
            random_place(used, rng, |slot| wanted(slot) && slot.ev() != nacked && ports.contains(slot.port()))
        };
        if let Some(backup) = any(EvSlot::is_healthy) {
            return Other::Backup(backup);
        }
        if others().any(EvSlot::is_healthy) {
            return Other::Busy;
        }
        let is_bad = |slot: &EvSlot| slot.state() == EvState::AssumedBad;
        if others().any(is_bad) { Other::Bad(any(is_bad)) } else { Other::None }
    }
}
