//! Turns: how many bytes a controller and each of its QPs may still send (deficit round robin).

/// Bytes that may still leave in a turn. Not positive between two turns: what the last one sent too much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit(i32);

/// More has only who is alone.
const ALONE: i32 = i32::MAX / 2;

impl Credit {
    pub(crate) const NONE: Self = Self(0);

    /// A turn of `turn_bytes` begins, or goes on; while nobody else waits (`alone`) it has no end: the credit is counted down from
    /// the most that there is. At least one packet may leave.
    //= SCHED-001
    #[inline]
    pub(crate) fn begin(&mut self, turn_bytes: u32, alone: bool) {
        let full = i32::try_from(turn_bytes).unwrap_or(i32::MAX).max(1);
        self.0 = match self.0 {
            left if alone => {
                if left > ALONE {
                    left
                } else {
                    i32::MAX
                }
            }
            spent @ ..=0 => spent.saturating_add(full).max(1),
            left => left.min(full),
        };
    }

    /// As how many turns counts what left alone since the last call.
    pub(crate) fn take_turns(&mut self, turn_bytes: u32) -> u32 {
        let gone = i32::MAX.abs_diff(self.0);
        if self.0 <= ALONE || gone < turn_bytes {
            return 0;
        }
        self.0 = i32::MAX.saturating_sub_unsigned(gone.checked_rem(turn_bytes).unwrap_or(0));
        gone.checked_div(turn_bytes).unwrap_or(0)
    }

    /// Whether the turn goes on.
    #[inline]
    pub(crate) const fn is_left(self) -> bool {
        self.0 > 0
    }

    #[inline]
    pub(super) fn spend(&mut self, bytes: u32) {
        self.0 = self.0.saturating_sub_unsigned(bytes);
    }

    /// Bytes left; not positive when the turn is over.
    #[inline]
    pub(super) const fn left(self) -> i32 {
        self.0
    }
}

crate::image::stored!(newtype Credit);

#[cfg(test)]
mod tests {
    use super::*;

    /// What a queue pair sent while it was alone counts in whole turns; the rest counts the next time.
    //= SCHED-001 test
    #[test]
    fn bytes_sent_alone_count_as_turns() {
        let mut credit = Credit::NONE;
        credit.begin(100, true);
        credit.spend(99);
        assert_eq!(credit.take_turns(100), 0);
        credit.spend(1);
        assert_eq!(credit.take_turns(100), 1);
        credit.spend(250);
        assert_eq!((credit.take_turns(100), credit.take_turns(100)), (2, 0));
        credit.spend(50);
        assert_eq!(credit.take_turns(100), 1);
        assert_eq!(Credit(100).take_turns(100), 0, "a turn that others share");
    }

    /// Alone, the credit is filled again before it could be taken for that of a shared turn.
    //= SCHED-001 test
    #[test]
    fn the_credit_of_one_alone_is_filled_again() {
        for (left, want) in [(ALONE + 1, ALONE + 1), (ALONE, i32::MAX), (0, i32::MAX)] {
            let mut credit = Credit(left);
            credit.begin(100, true);
            assert_eq!(credit.0, want);
        }
    }
}
