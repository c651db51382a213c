//! Refusals of the engine: one small `Copy` enum per operation, no strings. Owns the list of discard reasons,
//! which is also the list of discard counters.

use core::fmt;

/// Why an endpoint could not be built from the storage and configuration it was lent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The named storage slice is shorter than `Limits` say.
    Storage {
        /// Field of [`crate::Storage`].
        what: &'static str,
        /// Elements needed.
        need: usize,
        /// Elements lent.
        have: usize,
    },
    /// The named limit or configuration value is outside its range.
    Range {
        /// Field of [`crate::Limits`] or [`crate::EndpointConfig`].
        what: &'static str,
    },
}

/// Why a table operation (create, register, look up) was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TableError {
    /// Every slot of the named table is taken.
    Full(&'static str),
    /// The handle is stale or was never given out.
    Unknown(&'static str),
    /// The object is still used by another one.
    Busy(&'static str),
    /// A value is outside its range.
    Range(&'static str),
}

/// Why a QP refused a change of state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ModifyError {
    /// The transition does not exist from the QP's state.
    Transition {
        /// State the QP is in.
        from: crate::QpState,
        /// State asked for.
        to: crate::QpState,
    },
    /// The handle is stale or was never given out.
    Unknown,
    /// An attribute is outside its range.
    Range(&'static str),
    /// The peer, profile or queue named in the attributes does not exist.
    Missing(&'static str),
    /// The EV profile has no usable entry for this QP.
    NoUsableEv,
    /// Every slot of the named table is taken.
    Full(&'static str),
}

/// Why a work request was refused; nothing was queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PostError {
    /// The handle is stale or was never given out.
    UnknownQp,
    /// The QP cannot take this request in its state.
    State(crate::QpState),
    /// The queue is full; it drains when completions are produced.
    Full,
    /// The L_Key names no region, or one of another protection domain.
    LocalKey,
    /// The local range leaves its region.
    LocalBounds,
    /// The message needs more than 2^23 packets, half the PSN space: its first and last packet could not be told apart from
    /// those of its neighbours. Happens at a path MTU of 256 only: from 512 bytes on the longest message, 2^32 - 1 bytes, fits.
    TooLong {
        /// Longest message at the QP's path MTU.
        max: u64,
    },
    /// The message is empty, and `reject_zero_len` refuses those.
    Empty,
    /// The peer takes no writes with immediate (its `max_wimm_dest` is 0).
    NoWriteImm,
}

/// Why an endpoint operation was refused; nothing was queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OpError {
    /// The peer's handle is stale.
    Peer,
    /// A port without a way to the peer, a code point above 63, or a path with an outer destination where the peer's
    /// route needs none (or without one where it does).
    Range,
    /// As many operations as there is room for are under way, or ended and were not taken.
    Busy,
}

/// Why a report about a placement was refused; it had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PlaceError {
    /// The QP of the placement was reset or destroyed since.
    Stale,
    /// No such placement is open: its end was reported before, or the engine never asked for it.
    NotOpen,
    /// The endpoint takes no reports: it was configured with `PlacementMode::BeforePoll`.
    NotReported,
}

/// Why a message of another shard had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ShardError {
    /// It is for another shard, or from one that does not exist.
    Misdirected,
    /// No peer with these addresses is registered here.
    Peer,
    /// There is no such EV profile here, or it is not ONLINE, or has no such entry.
    Profile,
    /// Nothing waits for this answer any more.
    Late,
}

/// Why an image of an endpoint is refused ([`crate::Import`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ImageError {
    /// The bytes are no image of an endpoint.
    Foreign,
    /// Another version of the format.
    Format {
        /// That of the image.
        have: u16,
        /// The one this engine reads.
        known: u16,
    },
    /// The exporting endpoint had other limits.
    Limits,
    /// The exporting endpoint had another configuration.
    Config,
    /// This part of the image holds what no endpoint of these limits can.
    Damaged(&'static str),
    /// Bytes are not those that were exported.
    Checksum,
    /// The image has no end.
    Truncated,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => {
                f.write_str("image: not one of an MRC endpoint; hand over what export wrote, from its first byte")
            }
            Self::Format { have, known } => write!(
                f,
                "image: format {have}, this engine reads {known}; update to an engine of the same format, or restart the queue pairs"
            ),
            Self::Limits => {
                f.write_str("image: made with other limits; set up the new endpoint with those of the old one")
            }
            Self::Config => {
                f.write_str("image: made with another configuration; set up the new endpoint with that of the old one")
            }
            Self::Damaged(what) => write!(f, "image: the part \"{what}\" is damaged; export again"),
            Self::Checksum => f.write_str("image: wrong checksum; export again"),
            Self::Truncated => f.write_str("image: its end is missing; hand over all that export wrote"),
        }
    }
}

impl core::error::Error for ImageError {}

macro_rules! discards {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Why a received frame had no further effect. Each reason is a counter of the same name.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Discard { $($(#[$doc])* $variant,)* }

        impl Discard {
            /// Every reason, in the order of the counters.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The counter's name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

discards! {
    /// Step 1: EtherType, IP version, header length or total length.
    L3Bad = "l3_bad",
    /// Step 2: the destination is not ours, or the routing header is not acceptable.
    L3Dst = "l3_dst",
    /// Step 3: the IP payload length exceeds what arrived.
    L3Len = "l3_len",
    /// Step 4: not UDP, foreign port, or bad UDP length.
    UdpBad = "udp_bad",
    /// Steps 5 and 9: a header is cut short.
    Short = "short",
    /// Step 6: unknown opcode.
    Opcode = "opcode",
    /// Step 7: transport version.
    Tver = "tver",
    /// Step 10: ICRC mismatch.
    Icrc = "icrc",
    /// Step 11: no such queue pair.
    Qpn = "qpn",
    /// Step 12: partition key.
    Pkey = "pkey",
    /// Step 12: the source is not the QP's peer.
    Peer = "peer",
    /// Step 12: the QP is in a state that takes no such packet.
    State = "state",
    /// A write above the window, refused silently.
    OutOfWindow = "psn_oor_window",
    /// A trimmed packet that asks for nothing.
    Trimmed = "trimmed",
    /// A control packet that names a PSN never sent or long gone.
    StalePsn = "stale_psn",
    /// A NACK for a packet that is not outstanding, or for an earlier copy of it.
    StaleNack = "stale_nack",
    /// An AETH syndrome that MRC does not use.
    Syndrome = "syndrome",
    /// A probe answer that matches no outstanding probe.
    StaleProbe = "stale_probe",
    /// An endpoint operation of an address that belongs to no peer.
    Stranger = "stranger",
    /// An endpoint operation beyond the rate that is answered.
    EndpointRate = "endpoint_rate",
    /// The driver asked for every new write to be refused.
    Refused = "refused",
    /// A responder refused the write with a transport NAK.
    Nak = "nak_sent",
    /// A duplicate of a packet already placed.
    Duplicate = "duplicate",
}

impl Discard {
    /// Number of reasons.
    pub const COUNT: usize = Self::ALL.len();
}

impl fmt::Display for Discard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage { what, need, have } => {
                write!(f, "storage `{what}` holds {have} elements, the limits need {need}")
            }
            Self::Range { what } => write!(f, "`{what}` is outside its range"),
        }
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(what) => write!(f, "no free {what}: raise its limit or release one"),
            Self::Unknown(what) => write!(f, "unknown or stale {what} handle"),
            Self::Busy(what) => write!(f, "the {what} is still in use"),
            Self::Range(what) => write!(f, "`{what}` is outside its range"),
        }
    }
}

impl fmt::Display for ModifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transition { from, to } => write!(f, "a QP in {from:?} cannot go to {to:?}"),
            Self::Unknown => f.write_str("unknown or stale QP handle"),
            Self::Range(what) => write!(f, "attribute `{what}` is outside its range"),
            Self::Missing(what) => write!(f, "the QP's {what} does not exist"),
            Self::NoUsableEv => f.write_str("the EV profile has no usable entry for this QP"),
            Self::Full(what) => write!(f, "no free {what}: raise its limit or release one"),
        }
    }
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownQp => f.write_str("unknown or stale QP handle"),
            Self::State(state) => write!(f, "a QP in {state:?} takes no such request"),
            Self::Full => f.write_str("the queue is full; poll its completions first"),
            Self::LocalKey => f.write_str("the L_Key names no region of this protection domain"),
            Self::LocalBounds => f.write_str("the local range leaves its memory region"),
            Self::TooLong { max } => write!(f, "the message exceeds {max} bytes at this path MTU"),
            Self::Empty => f.write_str("empty messages are refused (reject_zero_len)"),
            Self::NoWriteImm => f.write_str("the peer accepts no write with immediate"),
        }
    }
}

impl fmt::Display for ShardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Misdirected => "the message is for another shard, or from none of this NIC",
            Self::Peer => "no such peer here: register every peer with the first shard and with those that use it",
            Self::Profile => "no such EV profile here: create the same ones in the same order in every shard",
            Self::Late => "nothing waits for this answer any more",
        })
    }
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stale => "the QP of this placement was reset or destroyed since",
            Self::NotOpen => "no such placement is open: report each token once",
            Self::NotReported => "the endpoint takes no reports: set `placement` to `Reported`",
        })
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Peer => "unknown or stale peer handle",
            Self::Range => "no such path to the peer, or a code point above 63",
            Self::Busy => "too many endpoint operations under way; take the outcomes of earlier ones first",
        })
    }
}

impl core::error::Error for ConfigError {}
impl core::error::Error for TableError {}
impl core::error::Error for ModifyError {}
impl core::error::Error for PostError {}
impl core::error::Error for OpError {}
impl core::error::Error for PlaceError {}
impl core::error::Error for ShardError {}
impl core::error::Error for Discard {}

impl From<mrc_wire::Reject> for Discard {
    fn from(reject: mrc_wire::Reject) -> Self {
        match reject {
            mrc_wire::Reject::L3Bad => Self::L3Bad,
            mrc_wire::Reject::L3Dst => Self::L3Dst,
            mrc_wire::Reject::L3Len => Self::L3Len,
            mrc_wire::Reject::UdpBad => Self::UdpBad,
            mrc_wire::Reject::Opcode => Self::Opcode,
            mrc_wire::Reject::Tver => Self::Tver,
            _ => Self::Short,
        }
    }
}
