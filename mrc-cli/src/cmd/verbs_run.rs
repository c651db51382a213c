//! `mrc verbs-run`: runs a program written for RDMA hardware over this library: the library path, the configuration, and
//! `/sys/class/infiniband` and `/dev/infiniband` for programs that insist on them, in a mount namespace that nobody else sees.

mod counters;

use std::fs;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use self::counters::Live;
use crate::interrupt;
use crate::usage::usage;
use anyhow::{Context as _, anyhow, bail};
use mrc_verbs_shim::host::{CONFIG_VARIABLE, HostFile};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid, mkdtemp};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::WaitOptions;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// Arguments of `mrc verbs-run`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples (after `mrc lab up`):
  mrc verbs-run --lab hA -- ibv_devinfo -v
  mrc verbs-run --lab hB -- ib_write_bw -d mrc0 -x 3
  mrc verbs-run --lab hA -- ib_write_bw -d mrc0 -x 3 10.109.0.2
  mrc verbs-run --config /etc/mrc/mrc.toml -- ./my_program

Root gets the views of /sys and /dev; others only the library path.

Exit code: the program's own; 2 usage, 3 something is missing here.")]
pub struct Args {
    /// Configuration of the device; default: what MRC_CONFIG names, or /etc/mrc/mrc.toml
    #[arg(long, value_name = "FILE", conflicts_with = "lab")]
    config: Option<PathBuf>,
    /// Host of the lab fabric to run on, e.g. hA
    #[arg(long, value_name = "HOST")]
    lab: Option<String>,
    /// Prefix of the lab fabric
    #[arg(long, default_value = "mrc")]
    prefix: String,
    /// Our libibverbs; default: beside this program, or in ../lib/mrc
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Leave /sys and /dev as they are
    #[arg(long)]
    no_sysfs: bool,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    program: Vec<String>,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = match (&args.config, &args.lab) {
        (Some(path), _) => path.clone(),
        (None, Some(host)) => mrc_lab::folder(&args.prefix).join(format!("{host}.toml")),
        (None, None) => HostFile::configured_path()?,
    };
    if let Some(host) = args.lab.as_ref().filter(|_| args.config.is_none() && !config.exists()) {
        let prefix = &args.prefix;
        return Err(usage(anyhow!(
            "no host `{host}` in a fabric with prefix `{prefix}`: hosts are called hA, hB, ...; `mrc lab status` lists them"
        )));
    }
    let host = HostFile::read(&config)?;
    let library = library(args.library.as_deref())?;
    let scratch = Scratch::new(&std::env::temp_dir())?;
    // Both names: NCCL tries the one without a number first.
    for name in ["libibverbs.so.1", "libibverbs.so"] {
        symlink(&library, scratch.0.join(name)).context("linking the library")?;
    }
    // Both names: programs of the field ask for the second.
    let mrc = library.with_file_name("lib_mrc.so");
    for name in ["lib_mrc.so", "libnv_mrc.so"].into_iter().filter(|_| mrc.exists()) {
        symlink(&mrc, scratch.0.join(name)).context("linking the library")?;
    }
    let mut path = scratch.0.clone().into_os_string();
    if let Some(more) = std::env::var_os("LD_LIBRARY_PATH").filter(|more| !more.is_empty()) {
        path.push(":");
        path.push(more);
    }
    let (name, arguments) = args.program.split_first().context("no program")?;
    let mut command = Command::new(name);
    command.args(arguments).env("LD_LIBRARY_PATH", path).env(CONFIG_VARIABLE, &config);
    let in_lab = args.lab.is_some();
    let start = || {
        let view = !args.no_sysfs && geteuid().is_root();
        // Their files are current for as long as the program runs.
        let mut counters = None;
        if view {
            let sysfs = sysfs_view(&host, &scratch.0, in_lab);
            counters = Some(sysfs.context("making a private /sys (--no-sysfs does without)")?);
            dev_view().context("making a private /dev (--no-sysfs does without)")?;
        }
        let status = supervise(&mut command);
        drop(counters);
        status.map_err(|error| {
            let missing = error.chain().any(|cause| {
                cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
            });
            let error = error.context(format!("running {name}"));
            if missing { usage(error) } else { error }
        })
    };
    // A thread of its own: the namespaces are the thread's and its children's, and end with them.
    let status = match host.namespace.as_deref().filter(|_| in_lab) {
        Some(namespace) => mrc_lab::enter(namespace, start)??,
        None => std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, start).context("cannot make a thread")?;
            thread.join().map_err(|_| anyhow::anyhow!("thread died"))?
        })?,
    };
    Ok(ExitCode::from(exit_code(status)))
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    u8::try_from(code.unwrap_or(1)).unwrap_or(1)
}

fn library(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("where is this program?")?;
    let own = own.parent().unwrap_or(Path::new("/"));
    let beside = [own.join("libibverbs.so"), own.join("../lib/mrc/libibverbs.so")];
    if let Some(path) = named {
        return path
            .canonicalize()
            .with_context(|| {
                format!("no library {} (`cargo build --release -p mrc-ibverbs` makes one)", path.display())
            })
            .map_err(usage);
    }
    match beside.into_iter().find(|path| path.exists()) {
        Some(path) => Ok(path.canonicalize()?),
        None => {
            bail!("no libibverbs.so of ours: build it (`cargo build --release -p mrc-ibverbs`) or name it (--library)")
        }
    }
}

/// A directory that goes when the program ends. Whoever uses it has it locked: this process, and the program and its children,
/// which inherit the descriptor.
struct Scratch(PathBuf, #[allow(dead_code, reason = "held for its lock")] fs::File);

/// How the names of these directories begin.
const SCRATCH: &str = "mrc-verbs-run-";

impl Scratch {
    /// A new one in `root`. Those that others left behind, because they were killed, go.
    fn new(root: &Path) -> anyhow::Result<Self> {
        Self::sweep(root);
        loop {
            let path = mkdtemp(&root.join(format!("{SCRATCH}XXXXXX"))).with_context(|| {
                format!("cannot make a directory in {} (TMPDIR names another place)", root.display())
            })?;
            // Somebody else may sweep it before it is locked.
            let file = match fs::File::open(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                file => file?,
            };
            file.lock()?;
            if fs::metadata(&path).is_ok_and(|now| file.metadata().is_ok_and(|then| now.ino() == then.ino())) {
                rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
                // The program may run as another user, who looks for the library here.
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
                return Ok(Self(path, file));
            }
        }
    }

    /// Removes what nobody has locked any more. What cannot be removed stays.
    fn sweep(root: &Path) {
        let ours = |entry: &fs::DirEntry| {
            let metadata = entry.metadata().ok()?;
            let named = entry.file_name().to_string_lossy().starts_with(SCRATCH);
            (named && metadata.is_dir() && metadata.uid() == geteuid().as_raw()).then(|| entry.path())
        };
        for path in fs::read_dir(root).into_iter().flatten().filter_map(|entry| ours(&entry.ok()?)) {
            if let Ok(file) = fs::File::open(&path)
                && file.try_lock().is_ok()
            {
                Self::remove(&path);
            }
        }
    }

    /// Removes the directory, its links and its empty directories. Never more: inside a run's mount namespace its `sys` is the
    /// machine's.
    fn remove(path: &Path) {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path()).or_else(|_| fs::remove_dir(entry.path()));
        }
        let _ = fs::remove_dir(path);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        Self::remove(&self.0);
    }
}

/// Signals that the program gets as if they had been sent to itself.
const PASSED_ON: [i32; 4] = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];

/// Signals that end nothing here: the terminal sends them to the program as well.
const OF_TERMINALS: [i32; 2] = [SIGINT, SIGQUIT];

/// Runs the program to its end. Signals to us are passed on, or the program would be left behind with the device; what we were
/// told to ignore (`nohup`) the program ignores, too.
fn supervise(command: &mut Command) -> anyhow::Result<ExitStatus> {
    let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    let caught = PASSED_ON.into_iter().chain(OF_TERMINALS).filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let mut signals = Signals::new(caught.chain([SIGCHLD]))?;
    interrupt::is_caught();
    let child = Pid::from_raw(command.spawn()?.id().cast_signed());
    loop {
        // In a container we may be its first process: what the program leaves behind becomes our child, too.
        while let Some((pid, status)) = rustix::process::wait(WaitOptions::NOHANG)? {
            if pid.as_raw_nonzero().get() == child.as_raw() {
                return Ok(ExitStatus::from_raw(status.as_raw()));
            }
        }
        for signal in signals.wait().filter(|signal| PASSED_ON.contains(signal)) {
            kill(child, Signal::try_from(signal)?)?;
        }
    }
}

/// The signals that a process ignores, the first in the lowest bit, by its `/proc/PID/status`.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Gives this thread a mount namespace in which `/sys/class` has our device.
///
/// The kernel lets nobody make files in sysfs, so `/sys/class` is replaced: links to all that was there, and directories of
/// ours. The links lead into a second mount of the whole `/sys`, since what they lead to has relative links itself.
fn sysfs_view(host: &HostFile, scratch: &Path, fresh: bool) -> anyhow::Result<Live> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    if fresh {
        // In another network namespace the old mount shows the old interfaces.
        mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), none)?;
    }
    let whole = scratch.join("sys");
    fs::create_dir(&whole)?;
    mount(Some("/sys"), &whole, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)?;
    mount(Some("tmpfs"), "/sys/class", Some("tmpfs"), MsFlags::empty(), Some("mode=755"))?;
    for entry in fs::read_dir(whole.join("class"))? {
        let entry = entry?;
        if !["infiniband", "infiniband_verbs"].iter().any(|ours| entry.file_name() == *ours) {
            symlink(entry.path(), Path::new("/sys/class").join(entry.file_name()))?;
        }
    }
    let port = describe(host, Path::new("/sys/class"))?;
    Live::start(host, &port)
}

/// Gives this thread's mount namespace a `/dev/infiniband` with our device. Some programs take a device for absent unless
/// `uverbs0` is a character device that they may read and write. Nobody opens it: it is `/dev/null`.
///
/// Where the machine has no such directory, `/dev` is replaced: a directory with the same entries, each mounted again.
fn dev_view() -> anyhow::Result<()> {
    const OURS: &str = "/dev/infiniband";
    let none = None::<&str>;
    if !Path::new(OURS).is_dir() {
        // Leads to what was there once it is covered.
        let before = fs::File::open("/dev")?;
        mount(Some("tmpfs"), "/dev", Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=755"))?;
        for entry in fs::read_dir(format!("/proc/self/fd/{}", before.as_raw_fd()))? {
            let entry = entry?;
            let (from, to, kind) = (entry.path(), Path::new("/dev").join(entry.file_name()), entry.file_type()?);
            if kind.is_symlink() {
                symlink(fs::read_link(from)?, to)?;
                continue;
            }
            // It looks for the directory of terminals beside itself, and mounted again it would look in vain.
            if entry.file_name() == "ptmx" && kind.is_char_device() {
                let (mode, number) = (Mode::from_raw_mode(0o666), entry.metadata()?.rdev());
                match mknodat(CWD, &to, FileType::CharacterDevice, mode, number) {
                    Ok(()) => fs::set_permissions(&to, entry.metadata()?.permissions())?,
                    Err(_) => symlink("pts/ptmx", &to)?,
                }
                continue;
            }
            if kind.is_dir() {
                fs::create_dir(&to)?;
            } else {
                fs::File::create(&to)?;
            }
            match mount(Some(&from), &to, none, MsFlags::MS_BIND | MsFlags::MS_REC, none) {
                // It went meanwhile.
                Err(Errno::ENOENT) => {}
                done => done.with_context(|| to.display().to_string())?,
            }
        }
        fs::create_dir(OURS)?;
    }
    mount(Some("tmpfs"), OURS, Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=755"))?;
    symlink("/dev/null", Path::new(OURS).join("uverbs0"))?;
    Ok(())
}

/// The files that programs read about an RDMA device, and the directory of its port.
fn describe(host: &HostFile, class: &Path) -> anyhow::Result<PathBuf> {
    let device = class.join("infiniband").join(&host.device);
    let port = device.join("ports/1");
    for directory in ["gids", "pkeys", "gid_attrs/types", "gid_attrs/ndevs", "counters", "hw_counters"] {
        fs::create_dir_all(port.join(directory))?;
    }
    let uverbs = class.join("infiniband_verbs/uverbs0");
    fs::create_dir_all(&uverbs)?;
    let put = |path: PathBuf, text: &str| {
        fs::File::create(&path)
            .and_then(|mut file| writeln!(file, "{text}"))
            .with_context(|| path.display().to_string())
    };
    let guid: Vec<String> = host.guid().chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect();
    put(device.join("node_type"), "1: CA")?;
    put(device.join("node_guid"), &guid.join(":"))?;
    put(device.join("sys_image_guid"), &guid.join(":"))?;
    put(device.join("node_desc"), &host.name)?;
    put(device.join("hw_rev"), "1")?;
    put(device.join("fw_ver"), env!("CARGO_PKG_VERSION"))?;
    put(device.join("board_id"), "MRC_SOFTWARE")?;
    put(device.join("hca_type"), "MRC")?;
    put(port.join("state"), "4: ACTIVE")?;
    put(port.join("phys_state"), "5: LinkUp")?;
    put(port.join("link_layer"), "Ethernet")?;
    put(port.join("rate"), "100 Gb/sec (4X EDR)")?;
    for (file, text) in
        [("lid", "0x0"), ("lid_mask_count", "0"), ("sm_lid", "0x0"), ("sm_sl", "0"), ("cap_mask", "0x04000000")]
    {
        put(port.join(file), text)?;
    }
    put(port.join("pkeys/0"), "0xffff")?;
    let first = host.planes.first().map_or("lo", |plane| plane.interface.as_str());
    for (index, gid) in host.gids().iter().enumerate() {
        let text: Vec<String> = gid.segments().iter().map(|group| format!("{group:04x}")).collect();
        put(port.join(format!("gids/{index}")), &text.join(":"))?;
        put(port.join(format!("gid_attrs/types/{index}")), "RoCE v2")?;
        put(port.join(format!("gid_attrs/ndevs/{index}")), first)?;
    }
    put(uverbs.join("ibdev"), &host.device)?;
    put(uverbs.join("abi_version"), "1")?;
    put(class.join("infiniband_verbs/abi_version"), "6")?;
    // Where the device hangs: its first interface, which has the machine's topology around it.
    let behind = fs::canonicalize(class.join("net").join(first)).unwrap_or_else(|_| "/sys/devices".into());
    let behind = behind.join("device").canonicalize().unwrap_or(behind);
    symlink(&behind, device.join("device"))?;
    symlink(&behind, uverbs.join("device"))?;
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options behind the program are its own. A wrong one before it was taken for a program.
    #[test]
    fn only_what_follows_the_program_is_left_to_it() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let of = |line: &str| <Line as clap::Parser>::try_parse_from(line.split(' '));
        for line in ["mrc --lab hA true -x --help --lab hB", "mrc --lab hA -- true -x --help --lab hB"] {
            let args = of(line).unwrap_or_else(|why| panic!("{line}: {why}")).args;
            assert_eq!(args.program, ["true", "-x", "--help", "--lab", "hB"], "{line}");
            assert_eq!(args.lab.as_deref(), Some("hA"));
        }
        for line in ["mrc --host-file x -- true", "mrc --cofig x true"] {
            let why = of(line).err().map(|why| why.kind());
            assert_eq!(why, Some(clap::error::ErrorKind::UnknownArgument), "{line}");
        }
    }

    #[test]
    fn the_exit_code_is_the_programs() {
        let status = |script| Command::new("sh").args(["-c", script]).status().unwrap();
        assert_eq!(exit_code(status("exit 3")), 3);
        assert_eq!(exit_code(status("kill -9 $$")), 137);
    }

    #[test]
    fn what_a_killed_run_left_behind_goes_and_what_is_in_use_stays() {
        let root = mkdtemp(&std::env::temp_dir().join("mrc-scratch-XXXXXX")).unwrap();
        // Of a run with this number, which was killed.
        let left = root.join(format!("{SCRATCH}{}", std::process::id()));
        fs::create_dir_all(left.join("sys")).unwrap();
        symlink("/nonexistent", left.join("libibverbs.so")).unwrap();
        fs::create_dir(root.join("somebody-elses")).unwrap();
        let first = Scratch::new(&root).unwrap();
        assert!(!left.exists() && root.join("somebody-elses").exists());
        let mut second = Scratch::new(&root).unwrap();
        assert!(first.0.exists() && second.0.exists() && first.0 != second.0);
        // The program lives on though its supervisor was killed: it has the descriptor.
        let mut program = Command::new("sleep").arg("60").spawn().unwrap();
        second.1 = fs::File::open("/dev/null").unwrap();
        drop(Scratch::new(&root).unwrap());
        assert!(second.0.exists());
        program.kill().unwrap();
        program.wait().unwrap();
        drop((first, second));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn runs_that_begin_at_once_each_find_a_directory() {
        let root = mkdtemp(&std::env::temp_dir().join("mrc-scratch-XXXXXX")).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..200).for_each(|_| assert!(Scratch::new(&root).unwrap().0.exists())));
            }
        });
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_library_that_is_not_there_says_how_to_get_one() {
        let error = library(Some(Path::new("/nonexistent"))).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("no library /nonexistent") && text.contains("mrc-ibverbs"), "{text}");
        assert_eq!(crate::usage::exit_code(&error), ExitCode::from(2));
    }
}
