//! Texts that people read in logs and on terminals: each refusal has one of its own, which names what it is about.

use std::collections::BTreeSet;
use std::fmt::Display;

use mrc_core::{
    ConfigError, Discard, ErrorCause, ImageError, KnobError, ModifyError, OpError, PlaceError, PostError, QpState,
    ShardError, Status, TableError,
};

/// No text is empty, and no two are the same.
fn assert_each_has_its_own<T: Display>(all: &[T]) {
    let texts: BTreeSet<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), all.len(), "{texts:?}");
    assert!(texts.iter().all(|text| text.len() > 2), "{texts:?}");
}

#[test]
fn each_refusal_has_a_text_of_its_own() {
    assert_each_has_its_own(&[KnobError::Unknown, KnobError::Range]);
    assert_each_has_its_own(&[OpError::Peer, OpError::Range, OpError::Busy]);
    assert_each_has_its_own(&[PlaceError::Stale, PlaceError::NotOpen, PlaceError::NotReported]);
    assert_each_has_its_own(&[ShardError::Misdirected, ShardError::Peer, ShardError::Profile, ShardError::Late]);
    assert_each_has_its_own(&[
        PostError::UnknownQp,
        PostError::State(QpState::Init),
        PostError::State(QpState::Rtr),
        PostError::Full,
        PostError::LocalKey,
        PostError::LocalBounds,
        PostError::TooLong { max: 77 },
        PostError::Empty,
        PostError::NoWriteImm,
    ]);
    assert_each_has_its_own(&[
        ModifyError::Transition { from: QpState::Init, to: QpState::Rts },
        ModifyError::Unknown,
        ModifyError::Range("some thing"),
        ModifyError::Missing("some thing"),
        ModifyError::NoUsableEv,
        ModifyError::Full("some thing"),
    ]);
    assert_each_has_its_own(&[
        TableError::Full("some thing"),
        TableError::Unknown("some thing"),
        TableError::Busy("some thing"),
        TableError::Range("some thing"),
    ]);
    assert_each_has_its_own(&[
        ImageError::Foreign,
        ImageError::Format { have: 3, known: 4 },
        ImageError::Limits,
        ImageError::Config,
        ImageError::Damaged("some thing"),
        ImageError::Checksum,
        ImageError::Truncated,
    ]);
    assert_each_has_its_own(Discard::ALL);
}

#[test]
fn a_text_names_what_it_is_about() {
    let text = ConfigError::Storage { what: "wqes", need: 4_096, have: 1_023 }.to_string();
    assert!(["wqes", "4096", "1023"].iter().all(|part| text.contains(part)), "{text}");
    let texts = [
        ConfigError::Range { what: "some thing" }.to_string(),
        TableError::Full("some thing").to_string(),
        TableError::Unknown("some thing").to_string(),
        TableError::Busy("some thing").to_string(),
        TableError::Range("some thing").to_string(),
        ModifyError::Range("some thing").to_string(),
        ModifyError::Missing("some thing").to_string(),
        ModifyError::Full("some thing").to_string(),
        ImageError::Damaged("some thing").to_string(),
    ];
    assert!(texts.iter().all(|text| text.contains("some thing")), "{texts:?}");
    assert!(PostError::Empty.to_string().contains("reject_zero_len"));
    assert!(PostError::TooLong { max: 1_234_567 }.to_string().contains("1234567"));
    let text = ModifyError::Transition { from: QpState::Init, to: QpState::Rts }.to_string();
    assert!(text.contains("Init") && text.contains("Rts"), "{text}");
    let text = ImageError::Format { have: 31, known: 47 }.to_string();
    assert!(text.contains("31") && text.contains("47"), "{text}");
    // Operators find the counter by the reason, and the reason by the counter.
    assert!(Discard::ALL.iter().all(|why| why.to_string() == why.name()));
}

/// Why a queue pair failed, for the operator who looks for the fault at this host, the other one, or between.
#[test]
fn each_cause_of_an_error_has_its_text() {
    use ErrorCause::*;
    let local = [LocalProtection, RequestInvalid, RequestAccess, RequestWimm, RequestNoReceive, RequestFailed];
    let remote = [RetryExceeded, NoUsablePort, PeerSilent, RemoteInvalidRequest, RemoteAccess, RemoteOperation];
    let texts: Vec<_> = local.iter().chain(&remote).chain(&[Application, PostRefused]).map(|why| why.text()).collect();
    assert_each_has_its_own(&texts);
    assert!(remote.iter().all(|why| why.text().contains("peer")), "{texts:?}");
}

/// Completion statuses under the names that users of verbs know.
#[test]
fn each_status_of_a_completion_has_its_text() {
    let texts = [
        (Status::Success, "success"),
        (Status::LocalProtection, "local protection"),
        (Status::LocalLength, "local length"),
        (Status::LocalOperation, "local QP operation"),
        (Status::Flushed, "flushed"),
        (Status::RemoteInvalidRequest, "remote invalid request"),
        (Status::RemoteAccess, "remote access"),
        (Status::RemoteOperation, "remote operation"),
        (Status::RetryExceeded, "retry counter exceeded"),
    ];
    for (status, part) in texts {
        assert!(status.text().contains(part), "{status:?}: {}", status.text());
    }
}
