//! What happened and the application has not taken yet: bounded, the oldest goes first.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::DeviceEvent;

/// Events that wait.
pub(super) const KEPT: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct EventQueue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<DeviceEvent>,
    /// Events dropped since one was taken.
    dropped: u64,
}

impl EventQueue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, event: DeviceEvent) {
        let mut waiting = self.waiting();
        if waiting.events.len() == KEPT {
            waiting.events.pop_front();
            waiting.dropped += 1;
            if waiting.dropped == 1 {
                log::debug!("the program takes no events of its device: the newest {KEPT} are kept");
            }
        }
        waiting.events.push_back(event);
    }

    pub(super) fn pop(&self) -> Option<DeviceEvent> {
        let mut waiting = self.waiting();
        waiting.dropped = 0;
        waiting.events.pop_front()
    }
}
