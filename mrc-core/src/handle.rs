//! Handles: the number of a table's slot, and which of the slot's objects is meant. A handle is stale once its object is gone, also
//! when the slot has another one.

/// Most slots of a table that handles name.
pub(crate) const MOST_SLOTS: usize = 1 << 16;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $below:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name {
            slot: u16,
            generation: u16,
        }

        impl $name {
            #[doc = concat!("Slot number, below `Limits::", $below, "`.")]
            pub const fn index(self) -> usize {
                self.slot as usize
            }

            /// Which of the slot's objects, in turn, modulo 2^16.
            pub const fn generation(self) -> u16 {
                self.generation
            }

            /// A handle put together again from its parts; stale when they were never given out.
            pub const fn from_parts(index: u16, generation: u16) -> Self {
                Self { slot: index, generation }
            }

            /// The handle of a slot's first object; calls refuse it before and after.
            pub const fn from_index(index: u32) -> Self {
                if index < $crate::handle::MOST_SLOTS as u32 {
                    Self { slot: index as u16, generation: 0 }
                } else {
                    // Of the last slot's last object, which is never there when this is asked for by mistake.
                    Self { slot: u16::MAX, generation: u16::MAX }
                }
            }

            pub(crate) const fn slot(self) -> u32 {
                self.slot as u32
            }
        }

        $crate::image::stored!(struct $name { slot, generation });
    };
}

pub(crate) use handle;
