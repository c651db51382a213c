//! Fields that become those of another value, while others stay: a value written as a whole writes all of its lines of memory.

/// `renew!(to = from; { a, b } but { c })`: the fields `a` and `b` of `to` become those of `from`. All fields have to be named.
macro_rules! renew {
    ($to:ident = $from:expr; { $($field:ident),+ $(,)? } but { $($kept:ident),* $(,)? }) => {
        let Self { $($field,)+ $($kept: _,)* } = $from;
        $($to.$field = $field;)+
    };
}

pub(crate) use renew;
