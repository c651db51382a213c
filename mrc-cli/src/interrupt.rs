//! Ctrl-C and SIGTERM for commands that have something to put in order or to write before they end. One rule for all of
//! them: the first signal ends the work and keeps what there is, a second one ends the program at once; both exit with
//! [`EXIT_CODE`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Does `first`, on a thread of its own, when the first signal comes.
pub fn on_signal(first: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
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
