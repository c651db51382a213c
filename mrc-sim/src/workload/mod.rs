//! What hosts send: messages, what each of them waits for, and the shapes in which applications send them. Knows neither
//! transports nor switches.
//!
//! A [`Plan`] lists messages and their dependencies before the run; an [`Exchange`] is the plan at work, shared by all hosts
//! of the run: it releases messages, hears from the transports what was placed and acknowledged, and keeps the times.

mod collective;
mod exchange;
mod open;
mod pattern;
mod plan;

pub use collective::{Collective, Ring};
pub use exchange::{Exchange, Failure, Sent, Tally};
pub use pattern::{Pairs, Poisson, PoissonEnd, SizeDistribution, Stream};
pub use plan::{Connections, Edge, Group, GroupId, Load, Message, MessageId, Pair, Plan, PlanError};
