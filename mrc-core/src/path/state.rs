//! The EV state machine as one pure function, so that its whole table is one snapshot test. Owns no slot and no time.
//! Source: `paths.md` 7.

use mrc_wire::Verdict;

use super::{EvState, Feedback, LossEvAction};

//= EV-015
/// What the controller may ask of an EV (`paths.md` 7, last rows). Anything else is refused by the API layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    Good,
    Denied,
}

/// What an event does to an EV, before the invariants of `paths.md` 6 are applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reaction {
    /// No change.
    Keep,
    /// A new state.
    Become(EvState),
    /// A bad EV answered a probe well, but not yet often enough.
    CountGood,
    /// A bad EV answered a probe with ALWAYS_SKIP: the path works and is unwanted.
    CountBad,
    /// A bad EV did not answer: probe less often.
    BackOff,
}

/// The table of `paths.md` 7. `probe_ok`: good answers in a row before this one.
pub(super) fn react(
    state: EvState,
    what: Feedback,
    probe_ok: u8,
    resurrect_probes: u8,
    loss: LossEvAction,
) -> Reaction {
    use EvState::{AssumedBad, Denied, Good, Skip};
    match (what, state) {
        //= BAL-005
        (_, Denied) => Reaction::Keep,
        //= EV-002, EV-003, EV-005
        (Feedback::Sack(Verdict::SkipOnce) | Feedback::Trimmed, Good) => Reaction::Become(Skip),
        //= EV-004, EV-007
        (Feedback::Sack(Verdict::AlwaysSkip) | Feedback::Timeout, Good | Skip) => Reaction::Become(AssumedBad),
        (Feedback::Loss { trim_nack }, Good | Skip) => match (loss, state) {
            (LossEvAction::AssumedBad, _) => Reaction::Become(AssumedBad),
            //= EV-008
            (LossEvAction::ByTrimming, _) if trim_nack => Reaction::Become(AssumedBad),
            //= EV-009
            (LossEvAction::ByTrimming | LossEvAction::Skip, Good) => Reaction::Become(Skip),
            _ => Reaction::Keep,
        },
        (Feedback::ProbeAnswer(verdict), AssumedBad) => match verdict {
            //= EV-013
            Verdict::AlwaysSkip => Reaction::CountBad,
            //= EV-011
            _ if probe_ok.saturating_add(1) < resurrect_probes => Reaction::CountGood,
            //= EV-012
            Verdict::SkipOnce => Reaction::Become(Skip),
            _ => Reaction::Become(Good),
        },
        //= EV-013
        (Feedback::ProbeLost, AssumedBad) => Reaction::BackOff,
        //= EV-001, EV-006, BAL-004
        _ => Reaction::Keep,
    }
}

/// The controller's rows of the table.
pub(super) fn obey(state: EvState, order: Order) -> Reaction {
    //= EV-014
    match (order, state) {
        (Order::Good, EvState::Good) | (Order::Denied, EvState::Denied) => Reaction::Keep,
        (Order::Good, _) => Reaction::Become(EvState::Good),
        (Order::Denied, _) => Reaction::Become(EvState::Denied),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::{format, string::String};

    use mrc_wire::Psn;

    use super::{super::PathTelemetry, *};

    /// The whole machine: any change of behaviour is a diff of this table.
    const TABLE: &str = "\
event                                  GOOD         SKIP         ASSUMED_BAD  DENIED
SACK m=0                               -            -            -            -
SACK m=1                               SKIP         -            -            -
SACK m=2                               ASSUMED_BAD  ASSUMED_BAD  -            -
NACK TRIMMED                           SKIP         -            -            -
NACK TRIMMED_LASTHOP                   -            -            -            -
NACK other                             -            -            -            -
timeout                                ASSUMED_BAD  ASSUMED_BAD  -            -
loss, trim NACK, by_trimming           ASSUMED_BAD  ASSUMED_BAD  -            -
loss, no trim NACK, by_trimming        SKIP         -            -            -
loss, trim NACK, assumed_bad           ASSUMED_BAD  ASSUMED_BAD  -            -
loss, no trim NACK, assumed_bad        ASSUMED_BAD  ASSUMED_BAD  -            -
loss, trim NACK, skip                  SKIP         -            -            -
loss, no trim NACK, skip               SKIP         -            -            -
loss, trim NACK, none                  -            -            -            -
loss, no trim NACK, none               -            -            -            -
probe answered m=0, 1 of 1             -            -            GOOD         -
probe answered m=0, 1 of 3             -            -            ok+1         -
probe answered m=0, 3 of 3             -            -            GOOD         -
probe answered m=1, 1 of 1             -            -            SKIP         -
probe answered m=1, 2 of 3             -            -            ok+1         -
probe answered m=1, 3 of 3             -            -            SKIP         -
probe answered m=2, 1 of 1             -            -            ok=0         -
probe answered m=2, 3 of 3             -            -            ok=0         -
probe unanswered                       -            -            ok=0, slower -
RTT sample                             -            -            -            -
RTT of a probe                         -            -            -            -
telemetry                              -            -            -            -
controller GOOD                        -            GOOD         GOOD         GOOD
controller DENIED                      DENIED       DENIED       DENIED       -
";

    const STATES: [EvState; 4] = [EvState::Good, EvState::Skip, EvState::AssumedBad, EvState::Denied];

    fn cell(reaction: Reaction) -> &'static str {
        match reaction {
            Reaction::Keep => "-",
            Reaction::Become(EvState::Good) => "GOOD",
            Reaction::Become(EvState::Skip) => "SKIP",
            Reaction::Become(EvState::AssumedBad) => "ASSUMED_BAD",
            Reaction::Become(EvState::Denied) => "DENIED",
            Reaction::CountGood => "ok+1",
            Reaction::CountBad => "ok=0",
            Reaction::BackOff => "ok=0, slower",
        }
    }

    fn row(out: &mut String, name: &str, f: impl Fn(EvState) -> Reaction) {
        let cells = STATES.map(|state| cell(f(state)));
        let line = format!("{name:<39}{:<13}{:<13}{:<13}{}", cells[0], cells[1], cells[2], cells[3]);
        out.push_str(line.trim_end());
        out.push('\n');
    }

    //= EV-001, EV-002, EV-003, EV-004, EV-005, EV-006, EV-007, EV-008, EV-009 test
    //= EV-011, EV-012, EV-013, EV-014, BAL-004, BAL-005 test
    #[test]
    fn the_table_is_the_reference() {
        let mut out =
            String::from("event                                  GOOD         SKIP         ASSUMED_BAD  DENIED\n");
        let with = LossEvAction::ByTrimming;
        let plain = [
            ("SACK m=0", Feedback::Sack(Verdict::None)),
            ("SACK m=1", Feedback::Sack(Verdict::SkipOnce)),
            ("SACK m=2", Feedback::Sack(Verdict::AlwaysSkip)),
            ("NACK TRIMMED", Feedback::Trimmed),
            ("NACK TRIMMED_LASTHOP", Feedback::TrimmedLastHop),
            ("NACK other", Feedback::OtherNack),
            ("timeout", Feedback::Timeout),
        ];
        for (name, what) in plain {
            row(&mut out, name, |state| react(state, what, 0, 1, with));
        }
        for (action, knob) in [
            ("by_trimming", LossEvAction::ByTrimming),
            ("assumed_bad", LossEvAction::AssumedBad),
            ("skip", LossEvAction::Skip),
            ("none", LossEvAction::None),
        ] {
            for (name, trim_nack) in [("trim NACK", true), ("no trim NACK", false)] {
                let name = format!("loss, {name}, {action}");
                row(&mut out, &name, |state| react(state, Feedback::Loss { trim_nack }, 0, 1, knob));
            }
        }
        for (m, verdict, counts) in [
            (0, Verdict::None, &[(1, 1), (1, 3), (3, 3)][..]),
            (1, Verdict::SkipOnce, &[(1, 1), (2, 3), (3, 3)]),
            (2, Verdict::AlwaysSkip, &[(1, 1), (3, 3)]),
        ] {
            for &(nth, of) in counts {
                let name = format!("probe answered m={m}, {nth} of {of}");
                row(&mut out, &name, |state| react(state, Feedback::ProbeAnswer(verdict), nth - 1, of, with));
            }
        }
        row(&mut out, "probe unanswered", |state| react(state, Feedback::ProbeLost, 0, 1, with));
        row(&mut out, "RTT sample", |state| {
            react(state, Feedback::Rtt { rtt_ns: 1, psn: Psn::new(0), behind: 0 }, 0, 1, with)
        });
        row(&mut out, "RTT of a probe", |state| react(state, Feedback::ProbeRtt { rtt_ns: 1 }, 0, 1, with));
        let told = Feedback::Telemetry(PathTelemetry { bandwidth_mbps: 1, delay_ns: 1 });
        row(&mut out, "telemetry", |state| react(state, told, 0, 1, with));
        row(&mut out, "controller GOOD", |state| obey(state, Order::Good));
        row(&mut out, "controller DENIED", |state| obey(state, Order::Denied));
        assert!(out == TABLE, "the EV state machine changed; the table is now\n{out}");
    }

    #[test]
    fn zero_resurrect_probes_means_one() {
        let answer = Feedback::ProbeAnswer(Verdict::None);
        let got = react(EvState::AssumedBad, answer, 0, 0, LossEvAction::ByTrimming);
        assert_eq!(got, Reaction::Become(EvState::Good));
    }
}
