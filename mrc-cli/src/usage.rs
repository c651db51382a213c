//! Exit codes of errors: 2 for what the user mends, 3 for what this machine lacks, 1 for the rest.
//!
//! The user mends a command line, and every file named on it that cannot be read or holds something else. A capture that breaks
//! off between its packets is no such file: what could be read was judged. Neither is a file that cannot be written.

use std::fmt;
use std::process::ExitCode;

use mrc_afxdp::device::DeviceError;
use mrc_afxdp::{Problem, SetupError};
use mrc_lab::{LabError, Missing};
use mrc_verbs_shim::host::HostError;

/// Exit code of a command that was asked for what cannot be.
const EXIT_CODE: u8 = 2;

/// Exit code of a command that this machine, or the user's rights, do not allow.
const NOT_HERE: u8 = 3;

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

/// The exit code that an error asks for.
pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    if is_usage(error) {
        ExitCode::from(EXIT_CODE)
    } else if is_not_here(error) {
        ExitCode::from(NOT_HERE)
    } else {
        ExitCode::FAILURE
    }
}

/// Whether something that the command needs is missing on this machine, or a right to use it.
fn is_not_here(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let missing = matches!(cause.downcast_ref(), Some(LabError::Missing(_))) || cause.is::<Missing>();
        let refused = |error: &std::io::Error| error.raw_os_error() == Some(libc::EPERM);
        let setup = matches!(
            problem(cause),
            Some(
                Problem::MissingRight { .. }
                    | Problem::ModeUnsupported { .. }
                    | Problem::KernelTooOld { .. }
                    | Problem::LockedMemory { .. }
            )
        );
        missing || setup || cause.downcast_ref().is_some_and(refused)
    })
}

/// Why an interface could not be opened, if that is the cause; a transparent error is not in its own chain.
fn problem<'c>(cause: &'c (dyn std::error::Error + 'static)) -> Option<&'c Problem> {
    let setup = match cause.downcast_ref::<DeviceError>() {
        Some(DeviceError::Setup(setup)) => Some(setup),
        _ => cause.downcast_ref::<SetupError>(),
    };
    setup.map(|setup| &setup.problem)
}

/// Whether the user is to mend it: marked so, a host file that cannot be, or a fabric, link or host that cannot be.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let lab = cause.downcast_ref::<LabError>();
        let fabric = lab.is_some_and(|lab| {
            matches!(lab, LabError::Shape(_) | LabError::UnknownLink { .. } | LabError::UnknownHost(_))
        });
        let interface = matches!(
            problem(cause),
            Some(Problem::UnknownInterface | Problem::NoSuchQueue { .. } | Problem::BadConfig(_))
        );
        fabric || interface || cause.is::<Usage>() || cause.is::<HostError>()
    })
}
