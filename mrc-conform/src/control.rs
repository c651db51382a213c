//! The control connection of `mrc conform`: what a tester asks of a target beside the packets. One JSON object per line
//! over TCP, one answer per question. A target that offers less answers `refused`, and the scripts that need it do not
//! apply.

use serde::{Deserialize, Serialize};

use crate::{Done, Facts, Knobs, Post};

/// TCP port of the control connection unless another one is named.
pub const PORT: u16 = 4970;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A fresh QP, set up as the knobs say. The facts are complete but for the target's own. Forgets the QP before.
    Open {
        /// What the script sets; all others have their default.
        knobs: Knobs,
        /// The tester's half.
        facts: Box<Facts>,
        /// The target's timers should run so many times slower than real time, if it can.
        slow: u32,
    },
    /// The application or the driver does something.
    Act(Post),
    /// The oldest completion, if there is one.
    Done,
    /// Bytes of the region.
    Memory {
        /// First.
        offset: u64,
        /// How many.
        len: usize,
    },
    /// `qp_state`: 0 RESET, 1 INIT, 2 RTR, 3 RTS, 4 ERROR.
    Counter(String),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To `open`: the complete facts, and how many times slower than real time the timers run (1: not).
    Opened {
        /// Both halves.
        facts: Box<Facts>,
        /// Slowness.
        slow: u32,
    },
    /// To `act`.
    Ok,
    /// To `done`.
    Done(Option<Done>),
    /// To `memory`: hexadecimal digits.
    Memory(String),
    /// To `counter`.
    Counter(i64),
    /// The target cannot do this; why.
    Refused(String),
    /// Something broke.
    Broken(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What foreign agents are written against.
    #[test]
    fn the_lines_are_as_documented() {
        let line = |request: &Request| serde_json::to_string(request).unwrap();
        let write = Post::Write { id: 1, len: 64, from: 0, at: 4, imm: None, solicited: false, signaled: true };
        assert_eq!(
            line(&Request::Act(write)),
            r#"{"act":{"do":"write","id":1,"len":64,"from":0,"at":4,"imm":null,"solicited":false,"signaled":true}}"#
        );
        assert_eq!(line(&Request::Done), r#""done""#);
        assert_eq!(line(&Request::Memory { offset: 0, len: 8 }), r#"{"memory":{"offset":0,"len":8}}"#);
        let reply: Reply = serde_json::from_str(r#"{"refused":"no such knob"}"#).unwrap();
        assert_eq!(reply, Reply::Refused("no such knob".into()));
        let reply: Reply = serde_json::from_str(
            r#"{"done":{"at":0,"kind":"write","id":1,"status":"success","len":64,"imm":null,"solicited":false}}"#,
        )
        .unwrap();
        assert!(matches!(reply, Reply::Done(Some(Done { id: 1, len: 64, .. }))));
        for line in [
            r#"{"act":{"do":"recv","id":2}}"#,
            r#"{"act":{"do":"port","port":1,"up":false}}"#,
            r#"{"act":{"do":"error"}}"#,
        ] {
            assert!(serde_json::from_str::<Request>(line).is_ok(), "{line}");
        }
    }
}
