//! The CRC register: `crc32fast` where the feature is on, [`super::soft`] elsewhere.

/// CRC-32 of eight bytes FF, as a finished value: the register 0xDEBB20E3 complemented.
pub(super) const AFTER_EIGHT_ONES: u32 = !0xDEBB_20E3;

#[cfg(not(feature = "crc32fast"))]
pub(super) use super::soft::Crc;
#[cfg(feature = "crc32fast")]
pub(super) use fast::Crc;

#[cfg(feature = "crc32fast")]
mod fast {
    use super::AFTER_EIGHT_ONES;

    #[derive(Clone, Debug)]
    pub(in super::super) struct Crc(crc32fast::Hasher);

    impl Crc {
        #[inline]
        pub(in super::super) fn after_eight_ones() -> Self {
            Self(crc32fast::Hasher::new_with_initial(AFTER_EIGHT_ONES))
        }

        #[inline]
        pub(in super::super) fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        #[inline]
        pub(in super::super) fn finish(self) -> u32 {
            self.0.finalize()
        }
    }
}
