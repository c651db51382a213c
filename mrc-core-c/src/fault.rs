//! Refusals as numbers: one code per kind, and the name of what was at fault.

use mrc_core::{
    ConfigError, Discard, ImageError, ModifyError, OpError, PlaceError, PostError, ShardError, TableError,
    path::ProfileError,
};

use crate::{codes::*, mrc_core_text};

/// A refusal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) code: i32,
    /// The field, table or handle at fault.
    pub(crate) what: &'static str,
}

pub(crate) const fn fault(code: i32, what: &'static str) -> Fault {
    Fault { code, what }
}

impl From<ConfigError> for Fault {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Storage { what, .. } => fault(MRC_CORE_E_MEMORY, what),
            ConfigError::Range { what } => fault(MRC_CORE_E_RANGE, what),
            _ => fault(MRC_CORE_E_OTHER, ""),
        }
    }
}

impl From<TableError> for Fault {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Full(what) => fault(MRC_CORE_E_FULL, what),
            TableError::Unknown(what) => fault(MRC_CORE_E_UNKNOWN, what),
            TableError::Busy(what) => fault(MRC_CORE_E_BUSY, what),
            TableError::Range(what) => fault(MRC_CORE_E_RANGE, what),
            _ => fault(MRC_CORE_E_OTHER, ""),
        }
    }
}

/// The field of the C struct that holds an attribute of this name.
fn field(what: &'static str) -> &'static str {
    match what {
        "retry.timeout" => "timeout",
        "retry.linear" => "retry_linear",
        "retry.exponential" => "retry_exponential",
        same => same,
    }
}

impl From<ModifyError> for Fault {
    fn from(error: ModifyError) -> Self {
        match error {
            ModifyError::Transition { .. } => fault(MRC_CORE_E_STATE, "queue pair"),
            ModifyError::Unknown => fault(MRC_CORE_E_UNKNOWN, "queue pair"),
            ModifyError::Range(what) => fault(MRC_CORE_E_RANGE, field(what)),
            ModifyError::Missing(what @ "Dynamic MPR") => fault(MRC_CORE_E_STATE, what),
            ModifyError::Missing(what) => fault(MRC_CORE_E_UNKNOWN, what),
            ModifyError::Full(what) => fault(MRC_CORE_E_FULL, what),
            ModifyError::NoUsableEv => fault(MRC_CORE_E_NO_USABLE_EV, "EV profile"),
            _ => fault(MRC_CORE_E_OTHER, ""),
        }
    }
}

impl From<PostError> for Fault {
    fn from(error: PostError) -> Self {
        match error {
            PostError::UnknownQp => fault(MRC_CORE_E_UNKNOWN, "queue pair"),
            PostError::State(_) => fault(MRC_CORE_E_STATE, "queue pair"),
            PostError::Full => fault(MRC_CORE_E_FULL, "work queue"),
            PostError::LocalKey => fault(MRC_CORE_E_LOCAL_KEY, "lkey"),
            PostError::LocalBounds => fault(MRC_CORE_E_LOCAL_BOUNDS, "local_va"),
            PostError::TooLong { .. } => fault(MRC_CORE_E_TOO_LONG, "len"),
            PostError::Empty => fault(MRC_CORE_E_EMPTY, "len"),
            PostError::NoWriteImm => fault(MRC_CORE_E_NO_WRITE_IMM, "imm"),
            _ => fault(MRC_CORE_E_OTHER, ""),
        }
    }
}

impl From<OpError> for Fault {
    fn from(error: OpError) -> Self {
        match error {
            OpError::Peer => fault(MRC_CORE_E_UNKNOWN, "peer"),
            OpError::Range => fault(MRC_CORE_E_RANGE, "path"),
            OpError::Busy => fault(MRC_CORE_E_BUSY, "endpoint operations"),
            _ => fault(MRC_CORE_E_OTHER, ""),
        }
    }
}

impl From<PlaceError> for Fault {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Stale => fault(MRC_CORE_E_UNKNOWN, "queue pair"),
            PlaceError::NotOpen => fault(MRC_CORE_E_UNKNOWN, "token"),
            PlaceError::NotReported => fault(MRC_CORE_E_STATE, "placement_reported"),
            _ => fault(MRC_CORE_E_OTHER, ""),
        }
    }
}

impl From<ShardError> for Fault {
    fn from(error: ShardError) -> Self {
        match error {
            ShardError::Misdirected => fault(MRC_CORE_E_RANGE, "to"),
            ShardError::Peer => fault(MRC_CORE_E_UNKNOWN, "peer"),
            ShardError::Profile => fault(MRC_CORE_E_UNKNOWN, "EV profile"),
            ShardError::Late => fault(MRC_CORE_E_UNKNOWN, "id"),
            _ => fault(MRC_CORE_E_OTHER, ""),
        }
    }
}

impl From<ImageError> for Fault {
    fn from(error: ImageError) -> Self {
        fault(
            MRC_CORE_E_IMAGE,
            match error {
                ImageError::Foreign => "no image of an endpoint",
                ImageError::Format { .. } => "another format",
                ImageError::Limits => "limits",
                ImageError::Config => "config",
                ImageError::Damaged(what) => what,
                ImageError::Checksum => "checksum",
                ImageError::Truncated => "end",
                _ => "",
            },
        )
    }
}

impl From<ProfileError> for Fault {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::Unknown => fault(MRC_CORE_E_UNKNOWN, "EV profile"),
            ProfileError::NoSuchEv => fault(MRC_CORE_E_UNKNOWN, "EV"),
            ProfileError::Commands => fault(MRC_CORE_E_BUSY, "commands to EVs"),
            ProfileError::Busy { .. } => fault(MRC_CORE_E_BUSY, "EV profile"),
            ProfileError::State { .. } => fault(MRC_CORE_E_STATE, "EV profile"),
            ProfileError::NotExplicit => fault(MRC_CORE_E_STATE, "mode"),
            ProfileError::Unpopulated { .. } => fault(MRC_CORE_E_STATE, "EV without a value"),
            ProfileError::Size { .. } | ProfileError::TooFew { .. } => fault(MRC_CORE_E_RANGE, "count"),
            ProfileError::MinActive { .. } => fault(MRC_CORE_E_RANGE, "min_active"),
            ProfileError::NoFields | ProfileError::Field(_) => fault(MRC_CORE_E_RANGE, "fields"),
            ProfileError::TooWide { .. } | ProfileError::Width { .. } => fault(MRC_CORE_E_RANGE, "widths"),
            ProfileError::EvState => fault(MRC_CORE_E_RANGE, "state"),
            ProfileError::Port { .. } | ProfileError::Planes { .. } => fault(MRC_CORE_E_RANGE, "port"),
            _ => fault(MRC_CORE_E_OTHER, ""),
        }
    }
}

impl From<Discard> for Fault {
    fn from(why: Discard) -> Self {
        fault(code_of(why), why.name())
    }
}

/// The return code of a discard.
const fn code_of(why: Discard) -> i32 {
    MRC_CORE_E_DISCARDED.wrapping_sub(why as i32)
}

pub(crate) fn text(text: &'static str) -> mrc_core_text {
    mrc_core_text { ptr: text.as_ptr().cast(), len: text.len() }
}

/// What a return code means; a discard's code gives the name of its counter.
#[unsafe(no_mangle)]
pub extern "C" fn mrc_core_error_text(code: i32) -> mrc_core_text {
    text(match code {
        MRC_CORE_OK => "done, or nothing there",
        MRC_CORE_SOME => "the out struct was filled",
        MRC_CORE_E_NULL => "a pointer is NULL",
        MRC_CORE_E_ALIGN => "a pointer is not aligned",
        MRC_CORE_E_MEMORY => "the memory lent is too small for the limits",
        MRC_CORE_E_NO_ENDPOINT => "the memory holds no endpoint",
        MRC_CORE_E_ABI => "the configuration is of another interface version",
        MRC_CORE_E_RANGE => "a value is outside its range",
        MRC_CORE_E_FULL => "no free slot or entry",
        MRC_CORE_E_UNKNOWN => "unknown or stale handle",
        MRC_CORE_E_BUSY => "the object is still in use",
        MRC_CORE_E_STATE => "not allowed in the state of the QP or profile",
        MRC_CORE_E_NO_USABLE_EV => "the EV profile has no usable entry for this QP",
        MRC_CORE_E_LOCAL_KEY => "the L_Key names no region of this protection domain",
        MRC_CORE_E_LOCAL_BOUNDS => "the local range leaves its memory region",
        MRC_CORE_E_TOO_LONG => "the message is too long for this path MTU",
        MRC_CORE_E_EMPTY => "empty messages are refused (reject_zero_len)",
        MRC_CORE_E_NO_WRITE_IMM => "the peer accepts no write with immediate",
        MRC_CORE_E_OTHER => "refused",
        MRC_CORE_E_IMAGE => "the image of an endpoint is refused",
        _ => {
            let reason = Discard::ALL.iter().find(|&&why| code_of(why) == code);
            reason.map_or("no code of this interface", |why| why.name())
        }
    })
}
