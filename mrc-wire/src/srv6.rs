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
/// Operations run in their order; where two write the same bit the later one wins. All is worked out in [`EvTemplate::new`]:
/// one product copies the EV to many places at once, and a mask keeps what operations ask for. [`EvTemplate::apply`] takes one
/// product for each half of the address, and a step for each field that fits neither.
///
/// What most templates need comes first: less than a line of memory. Pairs are of the high half and the low one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct EvTemplate {
    base: [u64; 2],
    /// A bit for each copy of the EV, at the place that it is moved to.
    times: [u64; 2],
    /// What operations write of the copies.
    keep: [u64; 2],
    /// The EV's bits that are copied, and how far down they move first.
    of: [u32; 2],
    down: [u8; 2],
    /// Steps in use, and what each moves: bits of the EV, this far up.
    steps: u8,
    step_of: [u32; EvTemplate::MAX_OPS],
    step_up: [i8; EvTemplate::MAX_OPS],
}

/// Fields of an EV that one product copies into one half of an address.
#[derive(Clone, Copy)]
struct Product {
    times: u64,
    keep: u64,
    of: u32,
    down: u32,
}

impl Product {
    const NONE: Self = Self { times: 0, keep: 0, of: 0, down: 0 };

    /// That of `fields`: which bits of the EV, and how far up each moves. `None` where no product copies them all.
    fn of(fields: &[(u32, i32)]) -> Option<Self> {
        let of = fields.iter().fold(0, |of, (bits, _)| of | bits);
        let down = of.trailing_zeros() & 31;
        let copied = u64::from(of.wrapping_shr(down));
        let (mut times, mut keep, mut taken) = (0, 0, 0);
        for &(bits, up) in fields {
            let up = u32::try_from(up.wrapping_add(down as i32)).ok().filter(|up| *up < 64)?;
            let (one, copy) = (1u64.wrapping_shl(up), copied.wrapping_shl(up));
            // Copies that overlap would be added up, unless it is the same one.
            if times & one == 0 && taken & copy != 0 {
                return None;
            }
            (times, taken) = (times | one, taken | copy);
            keep |= u64::from(bits.wrapping_shr(down)).wrapping_shl(up);
        }
        Some(Self { times, keep, of, down })
    }
}

impl EvTemplate {
    /// Most operations of a template.
    pub const MAX_OPS: usize = 16;

    /// To fill storage with: leads every EV to the unspecified address.
    pub const BLANK: Self = Self {
        base: [0; 2],
        times: [0; 2],
        keep: [0; 2],
        of: [0; 2],
        down: [0; 2],
        steps: 0,
        step_of: [0; Self::MAX_OPS],
        step_up: [0; Self::MAX_OPS],
    };

    /// Prepares a template; `base` holds block, static parts and the peer's downlink.
    ///
    /// # Errors
    /// See [`TemplateError`].
    pub fn new(base: [u8; 16], ops: &[CopyOp]) -> Result<Self, TemplateError> {
        //= MAP-003
        if ops.len() > Self::MAX_OPS {
            return Err(TemplateError::TooMany(ops.len()));
        }
        let mut written: u128 = 0;
        let mut template = Self::BLANK;
        let mut products = [Product::NONE; 2];
        let (mut fields, mut counts) = ([[(0, 0); Self::MAX_OPS]; 2], [0usize; 2]);
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
            let up = (up as i32).wrapping_sub(lsb as i32);
            let mine = field & !written;
            written |= field;
            for (half, lowest) in [64i32, 0].into_iter().enumerate() {
                let part = mine & u128::from(u64::MAX).wrapping_shl(lowest as u32);
                let bits = moved(part, up.wrapping_neg()) as u32;
                let (Some(fields), Some(count), Some(product)) =
                    (fields.get_mut(half), counts.get_mut(half), products.get_mut(half))
                else {
                    continue;
                };
                let (Some(last), true) = (fields.get_mut(*count), bits != 0) else { continue };
                *last = (bits, up.wrapping_sub(lowest));
                let with_it = count.wrapping_add(1);
                match Product::of(fields.get(..with_it).unwrap_or_default()) {
                    Some(all) => (*product, *count) = (all, with_it),
                    None => template.add_step(bits, up),
                }
            }
        }
        let free = u128::from_be_bytes(base) & !written;
        let [high, low] = products;
        template.base = [(free >> 64) as u64, free as u64];
        template.times = [high.times, low.times];
        template.keep = [high.keep, low.keep];
        template.of = [high.of, low.of];
        template.down = [high.down as u8, low.down as u8];
        Ok(template)
    }

    /// One more step; a field that goes to both halves may take two.
    fn add_step(&mut self, bits: u32, up: i32) {
        let used = usize::from(self.steps);
        let alike = self.step_up.iter().take(used).position(|other| i32::from(*other) == up).unwrap_or(used);
        if let (Some(to), Some(of)) = (self.step_up.get_mut(alike), self.step_of.get_mut(alike)) {
            (*to, *of) = (up as i8, *of | bits);
            self.steps = self.steps.max(alike.wrapping_add(1) as u8);
        }
    }

    /// A word of each line of memory that most mappings read.
    #[inline]
    #[must_use]
    pub const fn lines(&self) -> [&u64; 2] {
        let ([first, _], [_, last]) = (&self.base, &self.keep);
        [first, last]
    }

    /// Words of [`EvTemplate::to_words`].
    pub const WORDS: usize = 9 + Self::MAX_OPS;

    /// The prepared template, to be kept by the same version of this crate.
    #[must_use]
    pub fn to_words(&self) -> [u64; Self::WORDS] {
        let Self { base, times, keep, of, down, steps, step_of, step_up } = self;
        let [of, down] = [of.map(u64::from), down.map(u64::from)];
        let sources = [of[0] << 32 | down[0], of[1] << 32 | down[1], (*steps).into()];
        let steps = step_of.iter().zip(step_up).map(|(of, up)| u64::from(*of) << 32 | u64::from(*up as u8));
        let mut words = [0; Self::WORDS];
        let all = [base, times, keep].into_iter().flatten().copied().chain(sources).chain(steps);
        for (to, from) in words.iter_mut().zip(all) {
            *to = from;
        }
        words
    }

    /// The template that [`EvTemplate::to_words`] told; `None` where it cannot have.
    #[must_use]
    pub fn from_words(words: &[u64; Self::WORDS]) -> Option<Self> {
        let ([b0, b1, t0, t1, k0, k1, s0, s1, steps], rest) = words.split_first_chunk()?;
        let source = |word: u64| Some(((word >> 32) as u32, u8::try_from(word as u32).ok()?));
        let ((of_high, down_high), (of_low, down_low)) = (source(*s0)?, source(*s1)?);
        let (mut step_of, mut step_up) = ([0; Self::MAX_OPS], [0; Self::MAX_OPS]);
        for ((of, up), word) in step_of.iter_mut().zip(&mut step_up).zip(rest) {
            let (bits, by) = source(*word)?;
            (*of, *up) = (bits, by as i8);
        }
        let sound = down_high < 32 && down_low < 32 && *steps <= Self::MAX_OPS as u64;
        sound.then_some(Self {
            base: [*b0, *b1],
            times: [*t0, *t1],
            keep: [*k0, *k1],
            of: [of_high, of_low],
            down: [down_high, down_low],
            steps: *steps as u8,
            step_of,
            step_up,
        })
    }

    /// The destination of packets with this EV.
    #[inline]
    #[must_use]
    pub fn apply(&self, ev: Ev) -> [u8; 16] {
        self.destination(ev).to_be_bytes()
    }

    /// The same as a number, whose highest bits come first in the address.
    #[inline(always)]
    #[must_use]
    pub fn destination(&self, ev: Ev) -> u128 {
        //= MAP-002
        let ([h, l], [times_h, times_l], [keep_h, keep_l]) = (self.base, self.times, self.keep);
        let ([of_h, of_l], [down_h, down_l]) = (self.of, self.down);
        let copies =
            |of: u32, down: u8, times: u64| u64::from((ev.0 & of).wrapping_shr(down.into())).wrapping_mul(times);
        let high = h | copies(of_h, down_h, times_h) & keep_h;
        let low = l | copies(of_l, down_l, times_l) & keep_l;
        let mut dst = u128::from(high) << 64 | u128::from(low);
        if self.steps > 0 {
            dst = self.take_steps(ev, dst);
        }
        dst
    }

    /// Out of line, so that templates without steps stay short.
    #[inline(never)]
    fn take_steps(&self, ev: Ev, mut dst: u128) -> u128 {
        for (of, up) in self.step_of.iter().zip(&self.step_up).take(self.steps.into()) {
            dst |= moved((ev.0 & of).into(), (*up).into());
        }
        dst
    }
}

/// `bits`, so far up, or down where it is less than 0.
const fn moved(bits: u128, up: i32) -> u128 {
    if up < 0 { bits.wrapping_shr(up.unsigned_abs()) } else { bits.wrapping_shl(up.unsigned_abs()) }
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
