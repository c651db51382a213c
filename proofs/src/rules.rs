//! What must hold in every state and in every step, whatever the network does.
//!
//! The graph of states has no cycle: a step either sends (and transmissions are bounded by a rule), or takes from the
//! budget, or shortens a queue, or makes a sent packet lost. So "every state without a next step is done" is the same as
//! "every behaviour ends, and ends well".

use stateright::Property;

use crate::{
    Arrival, bit,
    protocol::{Action, Protocol, State},
};

/// Every rule, by name.
pub fn all() -> Vec<Property<Protocol>> {
    vec![
        //= INV-001 test
        Property::always("the requester never sends beyond its window", |protocol: &Protocol, state: &State| {
            state.requester.next <= state.requester.unacknowledged + protocol.window
        }),
        Property::always("the payload of a packet is placed at most once", |_, state: &State| {
            state.responder.placed.iter().all(|&times| times <= 1)
        }),
        Property::always("what the responder acknowledges is placed", |_, state: &State| {
            (0..state.responder.cumulative).all(|psn| state.responder.placed[usize::from(psn)] > 0)
        }),
        Property::always(
            "the requester knows of no arrival that did not happen",
            |protocol: &Protocol, state: &State| {
                let requester = &state.requester;
                let arrived = |psn: u8| state.responder.received & bit(psn) != 0;
                requester.unacknowledged <= state.responder.cumulative
                    && requester.executed <= state.responder.cumulative
                    && (0..protocol.total()).all(|psn| !state.known(psn) || arrived(psn))
            },
        ),
        Property::always("a message completes at most once", |_, state: &State| {
            state.requester.completions.iter().all(|&count| count <= 1)
        }),
        //= INV-002 test
        Property::always("messages complete in posting order", |_, state: &State| {
            state.requester.completions.is_sorted_by(|earlier, later| (*earlier > 0) >= (*later > 0))
        }),
        Property::always(
            "a completed message is placed whole, with all before it",
            |protocol: &Protocol, state: &State| {
                let completed =
                    protocol.ends().into_iter().zip(state.requester.completions).filter(|(_, count)| *count > 0);
                let end = completed.map(|(end, _)| end).max().unwrap_or(0);
                (0..end).all(|psn| state.responder.placed[usize::from(psn)] > 0)
            },
        ),
        Property::always("transmissions are bounded by what went wrong", |protocol: &Protocol, state: &State| {
            transmissions(state) <= protocol.most_transmissions()
        }),
        Property::always("every step obeys the rules about steps", |_, state: &State| state.broken.is_none()),
        Property::always("a run that stops is done", |protocol: &Protocol, state: &State| {
            let mut actions = Vec::new();
            stateright::Model::actions(protocol, state, &mut actions);
            !actions.is_empty() || protocol.is_done(state)
        }),
    ]
}

/// Write packets sent so far.
pub fn transmissions(state: &State) -> u32 {
    state.requester.packets.iter().map(|packet| u32::from(packet.transmissions)).sum()
}

/// The rule about steps that this one breaks.
pub(crate) fn broken_by_step(before: &State, action: Action, after: &State) -> Option<&'static str> {
    let back = after.requester.unacknowledged < before.requester.unacknowledged
        || after.requester.executed < before.requester.executed
        || after.responder.cumulative < before.responder.cumulative;
    if back {
        return Some("a cumulative PSN moves back");
    }
    if before.responder.received & !after.responder.received != 0 {
        return Some("the responder forgets a packet");
    }
    if (0..before.requester.next).any(|psn| before.known(psn) && !after.known(psn)) {
        return Some("the requester forgets that a packet arrived");
    }
    match action {
        Action::Retransmit(psn) if before.known(psn) => Some("a packet that is known to have arrived is retransmitted"),
        //= INV-003 test
        Action::SendNew(psn) if before.requester.packets[usize::from(psn)].transmissions > 0 => {
            Some("a packet is sent twice without being a retransmission")
        }
        Action::Control(at) => {
            let stale = before.stale_nack(at);
            let (psn, lost) = match stale {
                Some(psn) => (psn, after.requester.packets[usize::from(psn)].arrival == Arrival::Lost),
                None => return None,
            };
            let was = before.requester.packets[usize::from(psn)].arrival == Arrival::Lost;
            (lost && !was).then_some("a NACK for an earlier transmission makes the latest one lost")
        }
        _ => None,
    }
}
