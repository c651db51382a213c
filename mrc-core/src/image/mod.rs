//! The codec of live updates: how a value becomes bytes and bytes a value again. Knows primitive types and bounds; which fields
//! a struct has stands beside the struct (`stored!`), and in which order an endpoint is written is `endpoint/live_update`'s.
//!
//! Every field is listed: the macros take a struct apart without `..`, so that a new field does not compile until somebody has
//! decided whether it is stored or rebuilt.

mod values;

/// Version of the format: raised when the bytes of any stored value change.
pub(crate) const FORMAT: u16 = 16;

/// A value that an image holds.
pub(crate) trait Stored: Sized {
    /// Appends the value.
    fn save(&self, to: &mut Writer<'_>);

    /// Takes the value off; `None` when the bytes end or are no such value.
    fn load(from: &mut Reader<'_>) -> Option<Self>;
}

/// One direction: the same walk writes an endpoint and fills a fresh one.
pub(crate) trait Pass {
    /// Whether values come from the image.
    const LOADS: bool;

    /// Writes `value`, or replaces it.
    fn item<T: Stored>(&mut self, value: &mut T) -> Option<()>;
}

/// Bytes of one record.
#[derive(Debug)]
pub(crate) struct Writer<'b> {
    out: &'b mut [u8],
    /// Bytes written, or that would have been in a longer buffer.
    len: usize,
    sum: Checksum,
}

impl<'b> Writer<'b> {
    pub(crate) const fn new(out: &'b mut [u8], sum: Checksum) -> Self {
        Self { out, len: 0, sum }
    }

    /// Their number and the checksum behind them; the number alone when they did not fit.
    pub(crate) const fn finish(self) -> (usize, Option<Checksum>) {
        (self.len, if self.len <= self.out.len() { Some(self.sum) } else { None })
    }

    fn bytes<const N: usize>(&mut self, bytes: [u8; N]) {
        let room = self.out.get_mut(self.len..).and_then(<[u8]>::first_chunk_mut);
        if let Some(to) = room {
            *to = bytes;
        }
        self.len = self.len.saturating_add(N);
        self.sum.add(&bytes);
    }
}

impl Pass for Writer<'_> {
    const LOADS: bool = false;

    fn item<T: Stored>(&mut self, value: &mut T) -> Option<()> {
        value.save(self);
        Some(())
    }
}

/// The rest of one record.
#[derive(Debug)]
pub(crate) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(crate) const fn new(rest: &'b [u8]) -> Self {
        Self { rest }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }
}

impl Pass for Reader<'_> {
    const LOADS: bool = true;

    fn item<T: Stored>(&mut self, value: &mut T) -> Option<()> {
        *value = T::load(self)?;
        Some(())
    }
}

/// A list whose members lie anywhere, in its order.
pub(crate) trait Sequence {
    /// What an image has of a member.
    type Item: Stored;

    /// The first place.
    fn first(&self) -> Option<u32>;

    /// The member at a place, and the next place.
    fn at(&mut self, place: u32) -> Option<(Self::Item, Option<u32>)>;

    /// Appends a member; whether there can be such a one.
    fn append(&mut self, item: Self::Item) -> bool;
}

/// CRC-32 (reflected 0x04C1_1DB7), half a byte at a time: an update is not worth a larger table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Checksum(u32);

impl Checksum {
    pub(crate) const NEW: Self = Self(u32::MAX);

    const TABLE: [u32; 16] = [
        0x0000_0000,
        0x1DB7_1064,
        0x3B6E_20C8,
        0x26D9_30AC,
        0x76DC_4190,
        0x6B6B_51F4,
        0x4DB2_6158,
        0x5005_713C,
        0xEDB8_8320,
        0xF00F_9344,
        0xD6D6_A3E8,
        0xCB61_B38C,
        0x9B64_C2B0,
        0x86D3_D2D4,
        0xA00A_E278,
        0xBDBD_F21C,
    ];

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            for nibble in [byte & 15, byte >> 4] {
                let at = (self.0 ^ u32::from(nibble)) & 15;
                self.0 = self.0 >> 4 ^ Self::TABLE.get(at as usize).copied().unwrap_or(0);
            }
        }
    }

    pub(crate) const fn value(self) -> u32 {
        !self.0
    }

    /// The checksum of a value as an image holds it.
    pub(crate) fn of(value: &impl Stored) -> u32 {
        let mut to = Writer::new(&mut [], Self::NEW);
        value.save(&mut to);
        to.sum.value()
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Stored for $number {
            fn save(&self, to: &mut Writer<'_>) {
                to.bytes(self.to_le_bytes());
            }

            fn load(from: &mut Reader<'_>) -> Option<Self> {
                Some(Self::from_le_bytes(from.bytes()?))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i32, i64);

impl Stored for usize {
    fn save(&self, to: &mut Writer<'_>) {
        (*self as u64).save(to);
    }

    fn load(from: &mut Reader<'_>) -> Option<Self> {
        u64::load(from)?.try_into().ok()
    }
}

impl Stored for bool {
    fn save(&self, to: &mut Writer<'_>) {
        u8::from(*self).save(to);
    }

    fn load(from: &mut Reader<'_>) -> Option<Self> {
        match u8::load(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl<T: Stored> Stored for Option<T> {
    fn save(&self, to: &mut Writer<'_>) {
        self.is_some().save(to);
        if let Some(value) = self {
            value.save(to);
        }
    }

    fn load(from: &mut Reader<'_>) -> Option<Self> {
        Some(if bool::load(from)? { Some(T::load(from)?) } else { None })
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn save(&self, to: &mut Writer<'_>) {
        let (a, b) = self;
        a.save(to);
        b.save(to);
    }

    fn load(from: &mut Reader<'_>) -> Option<Self> {
        Some((A::load(from)?, B::load(from)?))
    }
}

impl<A: Stored, B: Stored, C: Stored> Stored for (A, B, C) {
    fn save(&self, to: &mut Writer<'_>) {
        let (a, b, c) = self;
        a.save(to);
        b.save(to);
        c.save(to);
    }

    fn load(from: &mut Reader<'_>) -> Option<Self> {
        Some((A::load(from)?, B::load(from)?, C::load(from)?))
    }
}

impl<T: Stored + Copy, const N: usize> Stored for [T; N] {
    fn save(&self, to: &mut Writer<'_>) {
        for element in self {
            element.save(to);
        }
    }

    fn load(from: &mut Reader<'_>) -> Option<Self> {
        // Every array of the engine has an element.
        let mut array = [T::load(from)?; N];
        for slot in array.iter_mut().skip(1) {
            *slot = T::load(from)?;
        }
        Some(array)
    }
}

/// Lists the fields of a struct or the variants of an enum for images.
///
/// * `stored!(struct Name { stored, fields } rebuilt { other: what it is until it is rebuilt })`, then `where |value| condition`
///   for what the types of the fields do not say;
/// * `stored!(newtype Name)` of a struct with one unnamed field;
/// * `stored!(enum Name { 0 => Variant, 1 => Variant(value), 2 => Variant { field } })`: numbers stay with their variants.
macro_rules! stored {
    (
        struct $name:ty { $($field:ident),* $(,)? }
        $(rebuilt { $($late:ident: $empty:expr),* $(,)? })?
        $(where |$value:ident| $holds:expr)?
    ) => {
        impl $crate::image::Stored for $name {
            fn save(&self, to: &mut $crate::image::Writer<'_>) {
                let Self { $($field,)* $($($late: _,)*)? } = self;
                $($crate::image::Stored::save($field, to);)*
            }

            fn load(from: &mut $crate::image::Reader<'_>) -> Option<Self> {
                let value = Self {
                    $($field: $crate::image::Stored::load(from)?,)*
                    $($($late: $empty,)*)?
                };
                $(let $value = &value;
                if !$holds {
                    return None;
                })?
                Some(value)
            }
        }
    };
    (newtype $name:ty) => {
        impl $crate::image::Stored for $name {
            fn save(&self, to: &mut $crate::image::Writer<'_>) {
                let Self(inner) = self;
                $crate::image::Stored::save(inner, to);
            }

            fn load(from: &mut $crate::image::Reader<'_>) -> Option<Self> {
                Some(Self($crate::image::Stored::load(from)?))
            }
        }
    };
    (
        enum $name:ty {
            $($tag:literal => $variant:ident $(($($inner:ident),*))? $({ $($field:ident),* })?),* $(,)?
        }
    ) => {
        impl $crate::image::Stored for $name {
            fn save(&self, to: &mut $crate::image::Writer<'_>) {
                match self {
                    $(Self::$variant $(($($inner),*))? $({ $($field),* })? => {
                        <u8 as $crate::image::Stored>::save(&$tag, to);
                        $($($crate::image::Stored::save($inner, to);)*)?
                        $($($crate::image::Stored::save($field, to);)*)?
                    })*
                }
            }

            fn load(from: &mut $crate::image::Reader<'_>) -> Option<Self> {
                match <u8 as $crate::image::Stored>::load(from)? {
                    $($tag => {
                        $($(let $inner = $crate::image::Stored::load(from)?;)*)?
                        Some(Self::$variant
                            $(($($inner),*))?
                            $({ $($field: $crate::image::Stored::load(from)?),* })?)
                    })*
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use stored;

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Kind {
        Plain,
        Pair(u16, bool),
        Named { to: u64 },
    }

    stored!(enum Kind { 0 => Plain, 3 => Pair(a, b), 4 => Named { to } });

    #[derive(PartialEq, Debug)]
    struct Thing {
        kinds: [Kind; 3],
        maybe: Option<i32>,
        cache: u8,
    }

    stored!(struct Thing { kinds, maybe } rebuilt { cache: 7 } where |thing| thing.maybe != Some(0));

    const THING: Thing =
        Thing { kinds: [Kind::Named { to: 1 << 40 }, Kind::Pair(9, true), Kind::Plain], maybe: Some(-2), cache: 9 };

    fn bytes(thing: &Thing) -> vec::Vec<u8> {
        let mut out = vec![0; 64];
        let mut to = Writer::new(&mut out, Checksum::NEW);
        thing.save(&mut to);
        let (len, sum) = to.finish();
        out.truncate(len);
        let mut again = Checksum::NEW;
        again.add(&out);
        assert_eq!(sum, Some(again));
        out
    }

    #[test]
    fn a_value_comes_back_and_what_is_rebuilt_is_not_stored() {
        let image = bytes(&THING);
        assert_eq!(image.len(), 9 + 4 + 1 + 5);
        let mut from = Reader::new(&image);
        assert_eq!(Thing::load(&mut from), Some(Thing { cache: 7, ..THING }));
        assert!(from.is_empty());
        for len in 0..image.len() {
            assert_eq!(Thing::load(&mut Reader::new(&image[..len])), None, "{len} bytes");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let unknown = |at: usize, byte| {
            let mut image = bytes(&THING);
            image[at] = byte;
            Thing::load(&mut Reader::new(&image))
        };
        assert_eq!(unknown(0, 1), None, "no variant has this number");
        assert_eq!(unknown(12, 2), None, "neither true nor false");
        assert_eq!(unknown(14, 9), None, "neither some nor none");
        assert_eq!(Thing::load(&mut Reader::new(&bytes(&Thing { maybe: Some(0), ..THING }))), None, "the condition");
    }

    #[test]
    fn a_short_buffer_says_how_long_it_should_be() {
        let mut out = [0; 10];
        let mut to = Writer::new(&mut out, Checksum::NEW);
        THING.save(&mut to);
        assert_eq!(to.finish(), (19, None));
    }

    /// The check value of CRC-32.
    #[test]
    fn the_published_checksum() {
        let mut sum = Checksum::NEW;
        sum.add(b"123456789");
        assert_eq!(sum.value(), 0xCBF4_3926);
    }
}
