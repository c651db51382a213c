//! One direction of a connection: requester, responder and the two queues between them, as a transition system.

use std::fmt;

use stateright::{Model, Property};

use crate::{Arrival, Fault, MAX_PACKETS, Requester, Responder, rules};

/// How often each thing may still go wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Budget {
    /// Packets that the network loses, of either direction.
    pub losses: u8,
    /// Packets that arrive twice.
    pub duplicates: u8,
    /// Packets that overtake others.
    pub reorderings: u8,
    /// Packets that a switch trims.
    pub trims: u8,
    /// Packets that the responder refuses for want of a resource.
    pub refusals: u8,
    /// Packet timers that run out while something is still on its way.
    pub early_timers: u8,
}

impl Budget {
    /// All of it.
    pub fn total(self) -> u8 {
        self.losses + self.duplicates + self.reorderings + self.trims + self.refusals + self.early_timers
    }
}

/// The size of a run, and what is broken in it.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// Packets of each message, in posting order.
    pub messages: Vec<u8>,
    /// Packets that may be unacknowledged.
    pub window: u8,
    /// How many later packets must have arrived before a packet is inferred lost.
    pub reorder: u8,
    /// New packets after which the responder sends a SACK unasked.
    pub sack_every: u8,
    /// What may go wrong.
    pub budget: Budget,
    /// What is broken.
    pub fault: Option<Fault>,
}

/// A write packet on its way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Data {
    pub(crate) psn: u8,
    pub(crate) transmission: u8,
    pub(crate) ask: bool,
    pub(crate) retransmission: bool,
}

/// Why a packet was refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// A switch trimmed it.
    Trimmed,
    /// The responder had no room for it.
    NoResource,
}

/// A control packet on its way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Control {
    /// What has arrived.
    Sack {
        /// Without a hole.
        cumulative: u8,
        /// As a set.
        received: u8,
        /// The packet that triggered it.
        trigger: u8,
    },
    /// One packet was refused.
    Nack {
        /// Which.
        psn: u8,
        /// Which transmission of it.
        transmission: u8,
        /// Why.
        reason: Reason,
    },
    /// What has been executed.
    TransportAck {
        /// Without a hole.
        cumulative: u8,
    },
}

/// Everything at one moment.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// The side that writes.
    pub requester: Requester,
    /// The side that is written to.
    pub responder: Responder,
    /// Write packets on their way.
    pub forward: Vec<Data>,
    /// Control packets on their way.
    pub back: Vec<Control>,
    /// What may still go wrong.
    pub budget: Budget,
    /// The rule about a step, rather than about a state, that the last step broke.
    pub broken: Option<&'static str>,
}

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The requester retransmits its oldest lost packet.
    Retransmit(u8),
    /// The requester sends the next new packet.
    SendNew(u8),
    /// A packet timer runs out when nothing is on its way any more.
    Timer(u8),
    /// A packet timer runs out too early.
    EarlyTimer(u8),
    /// The Transport ACK is overdue: the requester repeats the last packet of its oldest message.
    RepeatTail(u8),
    /// A packet of the forward queue arrives; above 0 it overtakes others.
    Data(usize),
    /// The first packet of the forward queue is trimmed and arrives.
    Trim,
    /// The first packet of the forward queue arrives and is refused.
    Refuse,
    /// The first packet of the forward queue is lost.
    LoseData,
    /// The first packet of the forward queue will arrive once more, last.
    CopyData,
    /// A packet of the backward queue arrives; above 0 it overtakes others.
    Control(usize),
    /// The first packet of the backward queue is lost.
    LoseControl,
    /// The first packet of the backward queue will arrive once more, last.
    CopyControl,
}

impl Protocol {
    /// A run without faults: `messages` of so many packets each.
    ///
    /// # Panics
    /// When there are more packets than [`MAX_PACKETS`], or a message has none.
    pub fn new(messages: &[u8], window: u8, budget: Budget) -> Self {
        let total: usize = messages.iter().map(|&n| usize::from(n)).sum();
        assert!(total <= MAX_PACKETS, "{total} packets, at most {MAX_PACKETS} are supported");
        assert!(messages.iter().all(|&n| n > 0), "a message has at least one packet");
        Self { messages: messages.to_vec(), window, reorder: 1, sack_every: 2, budget, fault: None }
    }

    /// The same with one fault.
    #[must_use]
    pub fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Packets of all messages.
    pub fn total(&self) -> u8 {
        self.messages.iter().sum()
    }

    /// The counts of packets at which the messages end.
    pub fn ends(&self) -> Vec<u8> {
        self.messages
            .iter()
            .scan(0, |end, &packets| {
                *end += packets;
                Some(*end)
            })
            .collect()
    }

    fn is_last(&self, psn: u8) -> bool {
        self.ends().contains(&(psn + 1))
    }

    /// The last packet of the oldest message, when all of that arrived and only its Transport ACK is missing.
    fn tail(&self, state: &State) -> Option<u8> {
        let requester = &state.requester;
        let end = self.ends().into_iter().find(|&end| end > requester.executed)?;
        (requester.unacknowledged >= end).then(|| end - 1)
    }

    fn sends(&self, state: &State, actions: &mut Vec<Action>) {
        let requester = &state.requester;
        if let Some(psn) = requester.oldest_lost() {
            actions.push(Action::Retransmit(psn));
        } else if requester.may_send_new(self.total(), self.window, self.fault) {
            actions.push(Action::SendNew(requester.next));
        }
    }

    fn timers(&self, state: &State, actions: &mut Vec<Action>) {
        let requester = &state.requester;
        let silent = state.forward.is_empty() && state.back.is_empty();
        let running = (0..requester.next).filter(|&psn| requester.timer_runs(psn, self.fault));
        if silent && actions.is_empty() {
            actions.extend(running.map(Action::Timer));
            if self.fault != Some(Fault::NoTailTimer) {
                actions.extend(self.tail(state).map(Action::RepeatTail));
            }
        } else if state.budget.early_timers > 0 {
            actions.extend(running.map(Action::EarlyTimer));
        }
    }

    fn network(state: &State, actions: &mut Vec<Action>) {
        let budget = &state.budget;
        let reach = |len: usize| if budget.reorderings > 0 { len } else { len.min(1) };
        actions.extend((0..reach(state.forward.len())).map(Action::Data));
        actions.extend((0..reach(state.back.len())).map(Action::Control));
        let data = !state.forward.is_empty();
        let control = !state.back.is_empty();
        let faults = [
            (data && budget.trims > 0, Action::Trim),
            (data && budget.refusals > 0, Action::Refuse),
            (data && budget.losses > 0, Action::LoseData),
            (data && budget.duplicates > 0, Action::CopyData),
            (control && budget.losses > 0, Action::LoseControl),
            (control && budget.duplicates > 0, Action::CopyControl),
        ];
        actions.extend(faults.into_iter().filter(|(possible, _)| *possible).map(|(_, action)| action));
    }

    fn step(&self, state: &mut State, action: Action) {
        let fault = self.fault;
        match action {
            Action::Retransmit(psn) | Action::SendNew(psn) => {
                let data = state.requester.send(psn, self.is_last(psn));
                state.forward.push(data);
            }
            Action::RepeatTail(psn) => {
                let data = state.requester.repeat_tail(psn);
                state.forward.push(data);
            }
            Action::Timer(psn) => state.requester.timer(psn),
            Action::EarlyTimer(psn) => {
                state.budget.early_timers -= 1;
                state.requester.timer(psn);
            }
            Action::Data(at) => {
                state.budget.reorderings -= u8::from(at > 0);
                let data = state.forward.remove(at);
                state.back.extend(state.responder.receive(&data, false, self.sack_every, fault));
            }
            Action::Refuse => {
                state.budget.refusals -= 1;
                let data = state.forward.remove(0);
                state.back.extend(state.responder.receive(&data, true, self.sack_every, fault));
            }
            Action::Trim => {
                state.budget.trims -= 1;
                let data = state.forward.remove(0);
                state.back.extend(state.responder.trimmed(&data, fault));
            }
            Action::LoseData => {
                state.budget.losses -= 1;
                state.forward.remove(0);
            }
            Action::CopyData => {
                state.budget.duplicates -= 1;
                state.forward.push(state.forward[0]);
            }
            Action::Control(at) => {
                state.budget.reorderings -= u8::from(at > 0);
                let control = state.back.remove(at);
                state.requester.receive(&control, &self.ends(), self.reorder, fault);
            }
            Action::LoseControl => {
                state.budget.losses -= 1;
                state.back.remove(0);
            }
            Action::CopyControl => {
                state.budget.duplicates -= 1;
                state.back.push(state.back[0]);
            }
        }
    }

    /// Whether every message completed and nothing is left on its way.
    pub fn is_done(&self, state: &State) -> bool {
        state.forward.is_empty()
            && state.back.is_empty()
            && state.requester.executed == self.total()
            && state.requester.completions.iter().take(self.messages.len()).all(|&count| count > 0)
    }

    /// Transmissions that no behaviour may exceed: each fault of the network costs at most a window, or one repetition
    /// of a tail.
    pub fn most_transmissions(&self) -> u32 {
        u32::from(self.total()) + u32::from(self.window + 1) * u32::from(self.budget.total())
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            requester: Requester::default(),
            responder: Responder::default(),
            forward: Vec::new(),
            back: Vec::new(),
            budget: self.budget,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.sends(state, actions);
        self.timers(state, actions);
        Self::network(state, actions);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut after = before.clone();
        self.step(&mut after, action);
        after.broken = rules::broken_by_step(before, action, &after);
        Some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        rules::all()
    }

    /// A specification that is broken may go on for ever; what is beyond the bound is found broken and not followed.
    fn within_boundary(&self, state: &State) -> bool {
        rules::transmissions(state) <= self.most_transmissions() + 1
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retransmit(psn) => write!(f, "retransmit packet {psn}"),
            Self::SendNew(psn) => write!(f, "send packet {psn}"),
            Self::Timer(psn) => write!(f, "the timer of packet {psn} runs out"),
            Self::EarlyTimer(psn) => write!(f, "the timer of packet {psn} runs out early"),
            Self::RepeatTail(psn) => write!(f, "repeat packet {psn}: its Transport ACK is overdue"),
            Self::Data(0) => write!(f, "the next write packet arrives"),
            Self::Data(at) => write!(f, "a write packet overtakes {at} others and arrives"),
            Self::Trim => write!(f, "the next write packet arrives trimmed"),
            Self::Refuse => write!(f, "the responder refuses the next write packet"),
            Self::LoseData => write!(f, "the next write packet is lost"),
            Self::CopyData => write!(f, "the next write packet is duplicated"),
            Self::Control(0) => write!(f, "the next control packet arrives"),
            Self::Control(at) => write!(f, "a control packet overtakes {at} others and arrives"),
            Self::LoseControl => write!(f, "the next control packet is lost"),
            Self::CopyControl => write!(f, "the next control packet is duplicated"),
        }
    }
}

impl State {
    /// Whether packet `psn` is known to have arrived.
    pub(crate) fn known(&self, psn: u8) -> bool {
        self.requester.packets[usize::from(psn)].arrival == Arrival::Sacked
    }
    /// The packet that control packet `at` refuses, when that NACK belongs to an earlier transmission of it.
    pub(crate) fn stale_nack(&self, at: usize) -> Option<u8> {
        match self.back.get(at) {
            Some(&Control::Nack { psn, transmission, .. }) => {
                (self.requester.packets[usize::from(psn)].transmissions != transmission).then_some(psn)
            }
            _ => None,
        }
    }
}
