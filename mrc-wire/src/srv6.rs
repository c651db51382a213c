//! SRv6 with micro-SIDs: destination containers, the shift, the mapping from EV to destination. paths.md section 9.
//!
//! ```text
//! bit 0           32          48          64                      112        128
//!  | locator block |  uSID 0   |  uSID 1   |  ...                  |  uSID 5   |     zero ends the list
//! ```

use crate::Ev;
use core::fmt;

/// Micro-SIDs of 16 bits that fit behind a block of 32.
pub const USIDS: usize = 6;

/// Shifts the uSID list left by one, as a node does that owns the first uSID; zero moves in at the end.
#[inline]
#[must_use]
pub const fn usid_shift(addr: &[u8; 16]) -> [u8; 16] {
    //= USID-001
    let value = u128::from_be_bytes(*addr);
    let block = !(u128::MAX >> 32);
    ((value & block) | ((value << 16) & !block)).to_be_bytes()
}

/// uSID `i` of a container, 0 from the seventh on.
#[inline]
#[must_use]
pub const fn usid(addr: &[u8; 16], i: usize) -> u16 {
    match (USIDS - 1).checked_sub(i) {
        Some(behind) => (u128::from_be_bytes(*addr).wrapping_shr((behind as u32) << 4) & 0xFFFF) as u16,
        None => 0,
    }
}

/// The locator block.
#[inline]
#[must_use]
pub const fn block(addr: &[u8; 16]) -> u32 {
    (u128::from_be_bytes(*addr) >> 96) as u32
}

/// A container of `block` and the first six of `usids`; the rest is zero.
#[inline]
#[must_use]
pub fn container(block: u32, usids: &[u16]) -> [u8; 16] {
    //= SRV6-005
    let mut value = u128::from(block) << 96;
    for (i, usid) in (0u32..).zip(usids.iter().take(USIDS)) {
        value |= u128::from(*usid).wrapping_shl(80u32.wrapping_sub(i << 4));
    }
    value.to_be_bytes()
}

/// Whether nothing follows the first uSID, so that its owner is the end of the container.
#[inline]
#[must_use]
pub const fn is_last(addr: &[u8; 16]) -> bool {
    //= USID-002
    u128::from_be_bytes(*addr) << 48 == 0
}

/// Whether a destination is the SID of node `sid`: the first 48 bits are equal and only zeros follow.
#[inline]
#[must_use]
pub const fn is_own_sid(dst: &[u8; 16], block: u32, sid: u16) -> bool {
    //= HOST-002
    u128::from_be_bytes(*dst) == ((block as u128) << 96) | ((sid as u128) << 80)
}

/// Copies `width` EV bits, from bit `ev_lsb` up, to the destination bits that start `dst_msb_offset` from the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopyOp {
    /// Lowest EV bit copied, 0 to 31.
    pub ev_lsb: u8,
    /// Bits copied, 1 to 32.
    pub width: u8,
    /// Where the highest of them goes; 0 is the top bit of the address.
    pub dst_msb_offset: u8,
}

/// Why copy operations make no template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TemplateError {
    /// More than [`EvTemplate::MAX_OPS`] operations; the number given.
    TooMany(usize),
    /// The operation of this index copies no bit, or bits beyond the 32 of an EV.
    EvBits(u8),
    /// The operation of this index writes beyond the end of the address.
    DstBits(u8),
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(n) => {
                write!(f, "SRv6 template has {n} copy operations, {} fit: join fields", EvTemplate::MAX_OPS)
            }
            Self::EvBits(i) => {
                write!(f, "SRv6 copy operation {i} reads outside the EV: keep 1 <= width and ev_lsb + width <= 32")
            }
            Self::DstBits(i) => {
                write!(f, "SRv6 copy operation {i} writes past the address: keep dst_msb_offset + width <= 128")
            }
        }
    }
}

impl core::error::Error for TemplateError {}

/// The way from an EV to an outer destination: a base address and fields copied over it.
///
/// Operations run in their order; where two write the same bit the later one wins. All masks and rotations are worked
/// out in [`EvTemplate::new`]; [`EvTemplate::apply`] is a rotation, two masks and two ors per step.
///
/// What most templates need lies together, in two lines of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct EvTemplate {
    high: u64,
    low: u64,
    /// Whether the first steps are all; those among them that no operation needs copy nothing.
    short: bool,
    first: Steps<SHORT>,
    rest: Steps<REST>,
}

/// Steps, each of which copies the fields that move equally far: the EV is rotated until they lie right, then masked for each
/// half of the address. One rotation serves both: what leaves the low half at its top comes in at the bottom of the high half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Steps<const N: usize> {
    rotations: [u32; N],
    highs: [u64; N],
    lows: [u64; N],
}

impl<const N: usize> Steps<N> {
    fn iter(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        let Self { rotations, highs, lows } = self;
        rotations.iter().zip(highs).zip(lows).map(|((rotate, high), low)| (*rotate, *high, *low))
    }

    #[inline(always)]
    fn apply(&self, ev: Ev, high: &mut u64, low: &mut u64) {
        for ((rotate, highs), lows) in self.rotations.iter().zip(&self.highs).zip(&self.lows) {
            let field = u64::from(ev.0).rotate_left(*rotate);
            *high |= field & highs;
            *low |= field & lows;
        }
    }
}

/// The first steps, which run without a look at how many there are, and those behind them.
const SHORT: usize = 4;
const REST: usize = EvTemplate::MAX_OPS.wrapping_sub(SHORT);

impl EvTemplate {
    /// Most operations of a template.
    pub const MAX_OPS: usize = 16;

    /// To fill storage with: leads every EV to the unspecified address.
    pub const BLANK: Self = Self {
        high: 0,
        low: 0,
        short: true,
        first: Steps { rotations: [0; SHORT], highs: [0; SHORT], lows: [0; SHORT] },
        rest: Steps { rotations: [0; REST], highs: [0; REST], lows: [0; REST] },
    };

    /// Prepares a template; `base` holds block, static parts and the peer's downlink.
    ///
    /// # Errors
    /// See [`TemplateError`].
    pub fn new(base: [u8; 16], ops: &[CopyOp]) -> Result<Self, TemplateError> {
        //= MAP-003
        let (mut rotations, mut highs, mut lows) = ([0; Self::MAX_OPS], [0; Self::MAX_OPS], [0; Self::MAX_OPS]);
        if ops.len() > Self::MAX_OPS {
            return Err(TemplateError::TooMany(ops.len()));
        }
        let mut written: u128 = 0;
        let mut used = 0usize;
        // Backwards, so that each operation knows which bits later ones take from it.
        for (i, op) in ops.iter().enumerate().rev() {
            let (lsb, width) = (u32::from(op.ev_lsb), u32::from(op.width));
            if width == 0 || lsb.wrapping_add(width) > 32 {
                return Err(TemplateError::EvBits(i as u8));
            }
            let up = 128u32
                .checked_sub(u32::from(op.dst_msb_offset).wrapping_add(width))
                .ok_or(TemplateError::DstBits(i as u8))?;
            let field = u128::from(u32::MAX.wrapping_shr(32u32.wrapping_sub(width))).wrapping_shl(up);
            let (high, low) = halves(field & !written);
            let rotate = up.wrapping_sub(lsb) % 64;
            let alike = rotations.iter().take(used).position(|other| *other == rotate).unwrap_or(used);
            if let (Some(to), Some(highs), Some(lows)) =
                (rotations.get_mut(alike), highs.get_mut(alike), lows.get_mut(alike))
            {
                (*to, *highs, *lows) = (rotate, *highs | high, *lows | low);
            }
            used = used.max(alike.wrapping_add(1));
            written |= field;
        }
        let (high, low) = halves(u128::from_be_bytes(base) & !written);
        Ok(Self::of((high, low), used <= SHORT, rotations, highs, lows))
    }

    fn of(
        (high, low): (u64, u64),
        short: bool,
        [r0, r1, r2, r3, rotations @ ..]: [u32; Self::MAX_OPS],
        [h0, h1, h2, h3, highs @ ..]: [u64; Self::MAX_OPS],
        [l0, l1, l2, l3, lows @ ..]: [u64; Self::MAX_OPS],
    ) -> Self {
        let first = Steps { rotations: [r0, r1, r2, r3], highs: [h0, h1, h2, h3], lows: [l0, l1, l2, l3] };
        Self { high, low, short, first, rest: Steps { rotations, highs, lows } }
    }

    /// A word of each line of memory that most mappings read.
    #[inline]
    #[must_use]
    pub const fn lines(&self) -> [&u64; 2] {
        let [.., last] = &self.first.lows;
        [&self.high, last]
    }

    /// Words of [`EvTemplate::to_words`].
    pub const WORDS: usize = 3 + 3 * Self::MAX_OPS;

    /// The prepared template, to be kept by the same version of this crate.
    #[must_use]
    pub fn to_words(&self) -> [u64; Self::WORDS] {
        let Self { high, low, short, first, rest } = self;
        let mut words = [0; Self::WORDS];
        let steps = first.iter().chain(rest.iter()).flat_map(|(rotate, high, low)| [high, low, u64::from(rotate)]);
        for (to, from) in words.iter_mut().zip([*high, *low, u64::from(*short)].into_iter().chain(steps)) {
            *to = from;
        }
        words
    }

    /// The template that [`EvTemplate::to_words`] told; `None` where it cannot have.
    #[must_use]
    pub fn from_words(words: &[u64; Self::WORDS]) -> Option<Self> {
        let ([high, low, short], rest) = words.split_first_chunk()?;
        let (mut rotations, mut highs, mut lows) = ([0; Self::MAX_OPS], [0; Self::MAX_OPS], [0; Self::MAX_OPS]);
        let steps = rotations.iter_mut().zip(&mut highs).zip(&mut lows);
        for (((to, highs), lows), [high, low, rotate]) in steps.zip(rest.as_chunks::<3>().0) {
            let rotate = u32::try_from(*rotate).ok().filter(|rotate| *rotate < 64)?;
            (*to, *highs, *lows) = (rotate, *high, *low);
        }
        let short = match *short {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Self::of((*high, *low), short, rotations, highs, lows))
    }

    /// The destination of packets with this EV.
    #[inline(always)]
    #[must_use]
    pub fn apply(&self, ev: Ev) -> [u8; 16] {
        //= MAP-002
        let (mut high, mut low) = (self.high, self.low);
        self.first.apply(ev, &mut high, &mut low);
        if !self.short {
            self.rest.apply(ev, &mut high, &mut low);
        }
        (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
    }
}

fn halves(bits: u128) -> (u64, u64) {
    ((bits >> 64) as u64, bits as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn addr(text: &str) -> [u8; 16] {
        text.parse::<core::net::Ipv6Addr>().unwrap().octets()
    }

    //= SRV6-005 test
    #[test]
    fn containers_hold_six() {
        let a = addr("fc00:1:e011:6501:e012:d00b::");
        assert_eq!(container(0xFC00_0001, &[0xE011, 0x6501, 0xE012, 0xD00B]), a);
        assert_eq!((0..7).map(|i| usid(&a, i)).collect::<Vec<_>>(), [0xE011, 0x6501, 0xE012, 0xD00B, 0, 0, 0]);
        assert_eq!(block(&a), 0xFC00_0001);
        assert_eq!(container(1, &[1, 2, 3, 4, 5, 6, 7]), addr("0:1:1:2:3:4:5:6"));
    }

    //= USID-001, USID-002 test
    #[test]
    fn six_shifts_empty_a_container() {
        let mut a = container(0xFC00_0001, &[1, 2, 3, 4, 5, 6]);
        for first in 1..=6 {
            assert_eq!(usid(&a, 0), first);
            assert_eq!(is_last(&a), first == 6);
            a = usid_shift(&a);
            assert_eq!(block(&a), 0xFC00_0001);
        }
        assert_eq!(a, container(0xFC00_0001, &[]));
    }

    //= HOST-002 test
    #[test]
    fn an_own_sid_has_nothing_behind_it() {
        let own = |t| is_own_sid(&addr(t), 0xFC00_0001, 0xD00B);
        assert!(own("fc00:1:d00b::"));
        assert!(!own("fc00:1:d00b::1"));
        assert!(!own("fc00:1:d00a::"));
        assert!(!own("fc00:2:d00b::"));
    }

    #[test]
    fn impossible_operations_are_refused() {
        let op =
            |ev_lsb, width, dst_msb_offset| EvTemplate::new([0; 16], &[CopyOp { ev_lsb, width, dst_msb_offset }]).err();
        assert_eq!(op(0, 0, 0), Some(TemplateError::EvBits(0)));
        assert_eq!(op(1, 32, 0), Some(TemplateError::EvBits(0)));
        assert_eq!(op(0, 32, 97), Some(TemplateError::DstBits(0)));
        assert_eq!(op(0, 32, 96), None);
        let one = CopyOp { ev_lsb: 0, width: 1, dst_msb_offset: 0 };
        assert_eq!(EvTemplate::new([0; 16], &[one; 17]), Err(TemplateError::TooMany(17)));
        assert!(EvTemplate::new([0; 16], &[one; 16]).is_ok());
    }

    /// The definition of the reference, one bit at a time.
    fn by_definition(mut dst: [u8; 16], ops: &[CopyOp], ev: u32) -> [u8; 16] {
        for op in ops {
            for k in 0..op.width {
                let bit = ev >> (op.ev_lsb + op.width - 1 - k) & 1;
                let at = usize::from(op.dst_msb_offset + k);
                dst[at / 8] = dst[at / 8] & !(0x80 >> (at % 8)) | (bit as u8) << (7 - at % 8);
            }
        }
        dst
    }

    prop_compose! {
        fn any_op()(ev_lsb in 0u8..32, width in 1u8..=32, dst in 0u8..128) -> CopyOp {
            let width = width.min(32 - ev_lsb);
            CopyOp { ev_lsb, width, dst_msb_offset: dst.min(128 - width) }
        }
    }

    proptest! {
        //= MAP-003 test
        #[test]
        fn templates_do_what_the_definition_says(base: [u8; 16], ev: u32, ops in proptest::collection::vec(any_op(), 0..=16)) {
            let t = EvTemplate::new(base, &ops).unwrap();
            prop_assert_eq!(t.apply(Ev(ev)), by_definition(base, &ops, ev));
        }
    }
}
