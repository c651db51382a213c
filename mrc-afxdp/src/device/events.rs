//! Events that wait for the application. Peers cause some of them, and an application need not ask: the queue is bounded.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::DeviceEvent;

/// Events that wait; the oldest goes when there is one more.
pub(super) const WAITING: usize = 4096;

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Events(Mutex<VecDeque<DeviceEvent>>);

impl Events {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<DeviceEvent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, event: DeviceEvent) {
        let mut waiting = self.waiting();
        if waiting.len() == WAITING {
            waiting.pop_front();
        }
        waiting.push_back(event);
    }

    /// The oldest.
    pub(super) fn pop(&self) -> Option<DeviceEvent> {
        self.waiting().pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_that_never_asks_holds_the_newest_events_and_no_more() {
        let events = Events::default();
        (0..WAITING + 100).for_each(|number| events.push(DeviceEvent::Link(number.to_string())));
        let kept: Vec<String> = std::iter::from_fn(|| events.pop())
            .map(|event| match event {
                DeviceEvent::Link(text) => text,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!((kept.len(), kept[0].as_str()), (WAITING, "100"));
    }
}
