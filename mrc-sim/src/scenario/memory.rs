//! The memory that a run may take: what is free on this machine, and what the limits of this process leave of it. And what a plan
//! takes of it.
//!
//! A batch system gives a job a control group, or a limit of its address space. Who takes more is killed without a word.

use std::{fs, path::Path};

use crate::workload::{Edge, Message, Plan};

/// How much of a plan there is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct PlanSize {
    pub(super) messages: u64,
    /// Dependencies between messages.
    pub(super) edges: u64,
}

/// Memory that a message takes in a run, and a dependency, in bytes.
const MESSAGE_BYTES: u64 = 128;
const EDGE_BYTES: u64 = 32;

impl PlanSize {
    pub(super) fn of(plan: &Plan) -> Self {
        Self { messages: plan.messages.len() as u64, edges: plan.edges.len() as u64 }
    }

    pub(super) fn and(self, more: Self) -> Self {
        Self { messages: self.messages.saturating_add(more.messages), edges: self.edges.saturating_add(more.edges) }
    }

    /// Memory that it takes in a run beside what `plan` has taken already, in bytes.
    pub(super) fn bytes_beside(self, plan: &Plan) -> u64 {
        let all = self.messages.saturating_mul(MESSAGE_BYTES).saturating_add(self.edges.saturating_mul(EDGE_BYTES));
        let taken = plan.messages.capacity() * size_of::<Message>() + plan.edges.capacity() * size_of::<Edge>();
        all.saturating_sub(taken as u64)
    }

    /// Refuses it where it has no room beside `plan`, which is a part of it.
    pub(super) fn fits_beside(self, plan: &Plan) -> Result<(), String> {
        let Self { messages, edges } = self;
        if messages > Plan::MAX_MESSAGES {
            return Err(format!("{messages} messages; at most {}", Plan::MAX_MESSAGES));
        }
        let (need, have) = (self.bytes_beside(plan), available());
        if need > have {
            let (need, have) = (need >> 20, have >> 20);
            return Err(format!(
                "{messages} messages with {edges} dependencies need {need} MiB, and {have} MiB are free"
            ));
        }
        Ok(())
    }
}

/// Bytes that this process can still get; 16 GiB where the system does not say.
pub(super) fn available() -> u64 {
    below(Path::new("/"))
}

/// The same, with the files of `proc` and `sys` below `root`.
fn below(root: &Path) -> u64 {
    let kib = |file: &str, key: &str| value(&read(&root.join(file)), key).map(|kib| kib << 10);
    let of_machine = kib("proc/meminfo", "MemAvailable:").unwrap_or(16 << 30);
    let most = value(&read(&root.join("proc/self/limits")), "Max address space");
    let of_process = most.map(|most| most.saturating_sub(kib("proc/self/status", "VmSize:").unwrap_or(0)));
    let groups = read(&root.join("proc/self/cgroup"));
    let of_groups = groups.lines().filter_map(|line| of_group(&root.join("sys/fs/cgroup"), line)).min();
    of_machine.min(of_process.unwrap_or(u64::MAX)).min(of_groups.unwrap_or(u64::MAX))
}

/// What the control group of a line of `/proc/self/cgroup`, and those above it, leave. A container may not show the ones above.
fn of_group(mount: &Path, line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let (mount, limit, usage, prefix) = if controllers.is_empty() {
        (mount.to_owned(), "memory.max", "memory.current", "")
    } else if controllers.split(',').any(|name| name == "memory") {
        (mount.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
    } else {
        return None;
    };
    let left = |group: &Path| {
        let group = mount.join(group);
        let bytes = |name: &str| read(&group.join(name)).trim().parse::<u64>().ok();
        let stat = read(&group.join("memory.stat"));
        // The kernel takes files out of its cache before it refuses memory.
        let cached = ["inactive_file", "active_file"].map(|key| value(&stat, &format!("{prefix}{key} ")).unwrap_or(0));
        let used = bytes(usage)?.saturating_sub(cached[0].saturating_add(cached[1]));
        Some(bytes(limit)?.saturating_sub(used))
    };
    Path::new(path.trim_start_matches('/')).ancestors().filter_map(left).min()
}

/// The number behind `key` at the beginning of a line.
fn value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: [(&str, &str); 3] = [
        ("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n"),
        ("proc/self/limits", "Max address space         unlimited            unlimited            bytes\n"),
        ("proc/self/status", "Name:\tmrc\nVmSize:\t     100 kB\n"),
    ];

    /// What is available where these files stand in for those of the machine.
    fn of(name: &str, files: &[(&str, &str)]) -> u64 {
        let root = std::env::temp_dir().join(format!("mrc-sim-memory-{name}-{}", std::process::id()));
        for (file, text) in MACHINE.iter().chain(files) {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let bytes = below(&root);
        fs::remove_dir_all(root).unwrap();
        bytes
    }

    #[test]
    fn dependencies_take_memory_and_what_the_plan_has_taken_counts_once() {
        let (mut plan, few) = (Plan::default(), PlanSize { messages: 1000, edges: 1000 });
        assert_eq!(few.bytes_beside(&plan), 160_000);
        assert_eq!(few.fits_beside(&plan), Ok(()));
        plan.messages.reserve_exact(1000);
        plan.edges.reserve_exact(1000);
        assert_eq!(few.bytes_beside(&plan), 160_000 - 1000 * (size_of::<Message>() + size_of::<Edge>()) as u64);
        let many = few.and(PlanSize { messages: 0, edges: 1 << 50 });
        let error = many.fits_beside(&plan).unwrap_err();
        assert!(error.starts_with("1000 messages with 1125899906843624 dependencies need "), "{error}");
        let error = PlanSize { messages: 1 << 30, edges: 0 }.fits_beside(&plan).unwrap_err();
        assert_eq!(error, "1073741824 messages; at most 134217728");
    }

    #[test]
    fn without_limits_the_machine_decides() {
        assert_eq!(of("free", &[]), 8000 << 10);
        let unlimited = [("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.current", "5\n")];
        assert_eq!(of("root", &unlimited), 8000 << 10);
    }

    #[test]
    fn a_job_has_what_its_control_group_and_those_above_leave() {
        let job = "sys/fs/cgroup/slurm/job_7";
        let file = |name: &str| format!("{job}/{name}");
        let (max, current, stat) = (file("memory.max"), file("memory.current"), file("memory.stat"));
        let mut files = vec![
            ("proc/self/cgroup", "0::/slurm/job_7/step_0\n"),
            ("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n"),
            ("sys/fs/cgroup/slurm/job_7/step_0/memory.current", "70000\n"),
            (&max, "1000000\n"),
            (&current, "500000\n"),
            (&stat, "anon 100\nactive_file 100000\ninactive_file 200000\nworkingset_refault_file 9\n"),
        ];
        assert_eq!(of("v2", &files), 800_000);
        files.extend([
            ("sys/fs/cgroup/slurm/memory.max", "600000\n"),
            ("sys/fs/cgroup/slurm/memory.current", "590000\n"),
        ]);
        assert_eq!(of("v2-above", &files), 10_000);
    }

    #[test]
    fn control_groups_of_the_first_version_count() {
        let files = [
            ("proc/self/cgroup", "7:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "400000\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "300000\n"),
            (
                "sys/fs/cgroup/memory/a/memory.stat",
                "inactive_file 7\ntotal_inactive_file 1000\ntotal_active_file 500\n",
            ),
        ];
        assert_eq!(of("v1", &files), 101_500);
    }

    #[test]
    fn a_limit_of_the_address_space_counts() {
        let limits =
            "Max data size  1 1 bytes\nMax address space         3000000              unlimited            bytes\n";
        assert_eq!(of("rlimit", &[("proc/self/limits", limits)]), 3_000_000 - (100 << 10));
    }
}
