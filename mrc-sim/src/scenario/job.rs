//! `[[job]]`: which hosts a job has.

use mrc_core::Rng;

use super::{PlacementKey, Problem, Scenario, TransportKind};
use crate::fabric::Topology;

/// A job and its hosts, by rank.
pub(super) struct Job {
    pub(super) name: String,
    pub(super) hosts: Vec<u32>,
}

/// All jobs, in order.
pub(super) fn place(scenario: &Scenario, topology: &Topology) -> Result<Vec<Job>, Problem> {
    let mut rng = Rng::new(scenario.seed ^ 0x6a_6f_62);
    let mut free: Vec<u32> = (0..topology.hosts()).collect();
    let mut jobs: Vec<Job> = Vec::new();
    for (nth, keys) in scenario.job.iter().enumerate() {
        let at = |key: &str| format!("job[{nth}].{key}");
        if keys.name.is_empty() || jobs.iter().any(|job| job.name == keys.name) {
            return Err(Problem::new(at("name"), "a job has a name of its own, for workloads to name"));
        }
        if keys.hosts == 0 || keys.hosts as usize > free.len() {
            let message = format_args!("{}: 1 to {}, as many as have no job yet", keys.hosts, free.len());
            return Err(Problem::new(at("hosts"), message));
        }
        match keys.placement {
            PlacementKey::Packed => free.sort_unstable(),
            PlacementKey::Spread => {
                // By their place among the free hosts of their leaf, then by leaf.
                free.sort_unstable_by_key(|&host| (topology.leaf_of(host), host));
                let leaves = free.chunk_by(|&a, &b| topology.leaf_of(a) == topology.leaf_of(b));
                let mut turns: Vec<(usize, u32, u32)> = leaves
                    .flat_map(|hosts| {
                        hosts.iter().enumerate().map(|(turn, &host)| (turn, topology.leaf_of(host), host))
                    })
                    .collect();
                turns.sort_unstable();
                free = turns.into_iter().map(|(_, _, host)| host).collect();
            }
            PlacementKey::Random => {
                free.sort_unstable();
                for at in (1..free.len()).rev() {
                    free.swap(at, rng.below(at as u32 + 1) as usize);
                }
            }
        }
        let rest = free.split_off(keys.hosts as usize);
        jobs.push(Job { name: keys.name.clone(), hosts: std::mem::replace(&mut free, rest) });
    }
    Ok(jobs)
}

/// What each host speaks; `None`: all speak `transport.kind`.
pub(super) fn kinds(scenario: &Scenario, jobs: &[Job], hosts: u32) -> Option<Vec<TransportKind>> {
    let main = scenario.transport.kind;
    if scenario.job.iter().all(|job| job.transport.is_none_or(|kind| kind == main)) {
        return None;
    }
    let mut kinds = vec![main; hosts as usize];
    for (keys, job) in scenario.job.iter().zip(jobs) {
        job.hosts.iter().for_each(|&host| kinds[host as usize] = keys.transport.unwrap_or(main));
    }
    Some(kinds)
}
