//! Errors that the user mends: a command line, a scenario or a file that cannot be. They exit with 2.

use std::fmt;

use mrc_lab::LabError;
use mrc_verbs_shim::host::HostError;

/// Exit code of a command that was asked for what cannot be.
pub const EXIT_CODE: u8 = 2;

/// What the user asked for cannot be.
#[derive(Debug)]
pub struct Usage(anyhow::Error);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::chain(&self.0))
    }
}

impl std::error::Error for Usage {}

/// Marks an error as the user's to mend.
pub fn usage(error: impl Into<anyhow::Error>) -> anyhow::Error {
    anyhow::Error::new(Usage(error.into()))
}

/// Whether the user is to mend it: marked so, a host file that cannot be, or a fabric, link or host that cannot be.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let lab = cause.downcast_ref::<LabError>();
        let fabric = lab.is_some_and(|lab| {
            matches!(lab, LabError::Shape(_) | LabError::UnknownLink { .. } | LabError::UnknownHost(_))
        });
        fabric || cause.is::<Usage>() || cause.is::<HostError>()
    })
}
