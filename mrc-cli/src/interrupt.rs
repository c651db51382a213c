//! Ctrl-C and SIGTERM for commands that have something to put in order or to write before they end. One rule for all of
//! them: the first signal ends the work and keeps what there is, a second one ends the program at once; both exit with
//! [`EXIT_CODE`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

/// Exit code of what Ctrl-C or SIGTERM ended.
pub const EXIT_CODE: u8 = 130;

/// `timeout` and batch systems send their signal to the program and to its group: what comes this soon is still the first.
const SAME: Duration = Duration::from_secs(1);

/// A flag that the first signal sets.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches SIGINT and SIGTERM from now on.
    pub fn install() -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&flag);
        on_signal(move || set.store(true, Ordering::Relaxed))?;
        Ok(Self(flag))
    }

    /// The flag itself, for others to look at.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Whether to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A flag that every SIGUSR1 from now on sets; whoever looks at it takes it back.
pub fn on_usr1() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, Arc::clone(&flag))?;
    Ok(flag)
}

/// Whether nothing else is done about a signal.
static UNHEARD: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Lets SIGINT and SIGTERM end the first process of a container, too: the kernel ignores what that one does not catch. Commands that
/// catch signals take it back.
pub fn end_as_first_process() {
    if std::process::id() != 1 {
        return;
    }
    let unheard = UNHEARD.get_or_init(|| Arc::new(AtomicBool::new(true)));
    for signal in [SIGINT, SIGTERM] {
        // Without it only SIGKILL ends the command.
        let _ = signal_hook::flag::register_conditional_shutdown(signal, EXIT_CODE.into(), Arc::clone(unheard));
    }
}

/// From now on somebody catches SIGINT and SIGTERM.
pub fn is_caught() {
    if let Some(unheard) = UNHEARD.get() {
        unheard.store(false, Ordering::Relaxed);
    }
}

/// Does `first`, on a thread of its own, when the first signal comes.
pub fn on_signal(first: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    is_caught();
    let wait = move || {
        signals.forever().next();
        first();
        std::thread::sleep(SAME);
        signals.pending().for_each(drop);
        signals.forever().next();
        std::process::exit(EXIT_CODE.into());
    };
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(wait).context("cannot make a thread that waits for signals")?;
    Ok(())
}
