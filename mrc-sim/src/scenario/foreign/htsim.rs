//! Files of htsim: connection matrices (`.cm`) and topologies (`.topo`).

use std::collections::BTreeMap;

use super::{Bad, Scale, of_line};
use crate::fabric::{LinkSpec, Tiers};
use crate::scenario::nearest;
use crate::workload::{GroupId, Message, MessageId, Plan};

/// A trigger that a file declares.
#[derive(Clone, Copy)]
enum Kind {
    /// The first connection that fires it starts those that wait.
    Oneshot,
    /// The last of so many does, which is what waiting for all of them is.
    Barrier(usize),
}

/// `trigger id N oneshot`, or `barrier count M`; the words may stand in any order.
fn trigger(words: &[&str]) -> Result<(u64, Kind), &'static str> {
    let (mut id, mut count, mut barrier) = (None, None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).ok_or("no number");
        match *word {
            "id" if id.is_none() => id = Some(number()?),
            "count" if count.is_none() => count = Some(number()? as usize),
            "id" | "count" => return Err("a trigger has one id and one count"),
            "oneshot" if barrier.is_none() => barrier = Some(false),
            "barrier" if barrier.is_none() => barrier = Some(true),
            "multishot" => return Err("which connection a shot starts depends on time: use oneshot triggers"),
            _ => return Err("triggers have an id, and are oneshot or barrier"),
        }
    }
    let kind = match (barrier, count) {
        (Some(false), _) => Kind::Oneshot,
        (Some(true), Some(count)) => Kind::Barrier(count),
        (Some(true), None) => return Err("a barrier has a count"),
        (None, _) => return Err("triggers are oneshot or barrier"),
    };
    Ok((id.ok_or("a trigger has an id")?, kind))
}

/// `A->B id N start PS size BYTES`, or `trigger N` in place of `start`; `send_done_trigger` and `recv_done_trigger` fire one.
/// Start times are in picoseconds.
pub(super) fn connections(text: &str, group: GroupId, scale: &Scale, plan: &mut Plan) -> Result<(), Bad> {
    let mut nodes = u32::MAX;
    let (mut announced, before) = (None, plan.messages.len());
    // By trigger: who fires it; who waits, and in which line.
    let mut fires: BTreeMap<u64, Vec<(MessageId, bool)>> = BTreeMap::new();
    let mut waits: BTreeMap<u64, Vec<(MessageId, usize)>> = BTreeMap::new();
    let mut triggers: BTreeMap<u64, Kind> = BTreeMap::new();
    for (nth, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let words: Vec<&str> = line.split_whitespace().collect();
        let bad = |why: &str| of_line(nth, line, why);
        match &words[..] {
            [] | ["Triggers" | "Failures", ..] => {}
            ["Connections", ..] if announced.is_some() => return Err(bad("Connections is there already")),
            ["Connections", count] => announced = Some(count.parse::<usize>().map_err(|_| bad("no number"))?),
            ["Nodes", ..] if nodes < u32::MAX => return Err(bad("Nodes is there already")),
            ["Nodes", ..] if plan.messages.len() > before => return Err(bad("Nodes stands before all connections")),
            ["Nodes", count] => {
                let count = count.parse().ok().filter(|&count| count > 0);
                nodes = count.ok_or_else(|| bad("Nodes is a whole number from 1 on"))?;
            }
            ["trigger", rest @ ..] => {
                let (id, kind) = trigger(rest).map_err(bad)?;
                if triggers.insert(id, kind).is_some() {
                    return Err(bad("the trigger is there already"));
                }
            }
            ["failure", ..] => return Err(bad("links that are down belong into [[fault]]")),
            [ends, rest @ ..] => {
                let (src, dst) = ends.split_once("->").ok_or_else(|| bad("no connection `A->B`"))?;
                let host = |text: &str| text.parse::<u32>().ok().filter(|&host| host < nodes);
                let (Some(src), Some(dst)) = (host(src), host(dst)) else {
                    return Err(bad(&match nodes {
                        u32::MAX => "hosts are whole numbers from 0 on".to_owned(),
                        nodes => format!("hosts are 0 to {}, by Nodes", nodes - 1),
                    }));
                };
                let (mut start, mut size, mut trigger) = (None, None, None);
                let mut done = Vec::new();
                for pair in rest.chunks(2) {
                    let [key, value] = pair else { return Err(bad("a key without a value")) };
                    let twice = match *key {
                        "start" => start.is_some(),
                        "size" => size.is_some(),
                        "trigger" => trigger.is_some(),
                        _ => false,
                    };
                    if twice {
                        return Err(bad(&format!("{key} is there already")));
                    }
                    if *key == "start" {
                        // htsim reads a fraction, too.
                        let picoseconds = value.parse::<f64>().ok().filter(|ps| (0.0..=1e18).contains(ps));
                        start = Some(picoseconds.ok_or_else(|| bad("start is no number from 0 to 1e18"))?);
                        continue;
                    }
                    let value: u64 = value.parse().map_err(|_| bad("no number"))?;
                    match *key {
                        "size" => size = Some(value),
                        "trigger" => trigger = Some(value),
                        "send_done_trigger" => done.push((value, true)),
                        "recv_done_trigger" => done.push((value, false)),
                        "id" | "prio" => {}
                        _ => return Err(bad("unknown key")),
                    }
                }
                let size =
                    size.filter(|&size| size > 0).ok_or_else(|| bad("no size: to htsim, a flow without an end"))?;
                if start.is_some() == trigger.is_some() {
                    return Err(bad("either start or trigger"));
                }
                if src == dst {
                    return Err(bad("a host does not send to itself"));
                }
                let (src, dst) = (scale.host(src), scale.host(dst));
                let bytes = if src == dst { 0 } else { scale.bytes_of(size).map_err(|why| bad(&why))? };
                let delay_ns = scale.ns_of((start.unwrap_or(0.0) / 1000.0) as u64);
                let id = plan.push(Message { src, dst, bytes, group, iteration: 0, delay_ns });
                trigger.into_iter().for_each(|trigger| waits.entry(trigger).or_default().push((id, nth + 1)));
                done.into_iter().for_each(|(trigger, acked)| fires.entry(trigger).or_default().push((id, acked)));
            }
        }
    }
    if let Some(count) = announced.filter(|&count| count != plan.messages.len() - before) {
        return Err(format!(
            "{} connections, and the file says {count}: part of it is missing",
            plan.messages.len() - before
        ));
    }
    for (trigger, then) in waits {
        let Some(first) = fires.get(&trigger) else {
            return Err(format!("line {}: trigger {trigger} is fired by no connection", then[0].1));
        };
        match triggers.get(&trigger) {
            Some(&Kind::Barrier(count)) if count != first.len() => {
                let fire = first.len();
                return Err(format!("trigger {trigger}: a barrier of count {count} that {fire} connections fire"));
            }
            Some(Kind::Barrier(_)) => {}
            Some(Kind::Oneshot) | None if first.len() > 1 => {
                let fire = first.len();
                return Err(format!("trigger {trigger}: {fire} connections fire it, and it is no barrier"));
            }
            Some(Kind::Oneshot) | None => {}
        }
        for (&(first, acked), then) in first.iter().flat_map(|first| then.iter().map(move |then| (first, then.0))) {
            if acked {
                plan.after_completion(first, then);
            } else {
                plan.after_delivery(first, then);
            }
        }
    }
    Ok(())
}

/// The keys of a topology, in small letters.
const KEYS: [&str; 13] = [
    "nodes",
    "tiers",
    "podsize",
    "tier",
    "downlink_speed_gbps",
    "radix_up",
    "radix_down",
    "oversubscribed",
    "bundle",
    "switch_latency_ns",
    "downlink_latency_ns",
    "queue_up",
    "queue_down",
];

/// Largest number that a topology may have where it counts or is a rate.
const LARGEST: u64 = (1 << 20) - 1;

/// A fat tree of two or three tiers, and the time in a switch. `Queue_Up` and `Queue_Down` are left to `[queue]`.
pub(in crate::scenario) fn topology(text: &str) -> Result<(Tiers, u32), Bad> {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    let mut tiers: Vec<BTreeMap<String, u64>> = Vec::new();
    for (nth, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let bad = |why: &str| of_line(nth, line, why);
        let (key, value) = line.split_once(char::is_whitespace).ok_or_else(|| bad("a key and a number"))?;
        let key = key.to_lowercase();
        if !KEYS.contains(&&*key) {
            match nearest(&key, KEYS.into_iter()) {
                Some(known) => return Err(bad(&format!("did you mean {known}?"))),
                // htsim passes over what it does not know.
                None => continue,
            }
        }
        let value = value.trim().parse::<u64>().map_err(|_| bad("no number"))?;
        if key == "tier" {
            if value as usize != tiers.len() {
                return Err(bad("tiers come in order, from 0"));
            }
            tiers.push(BTreeMap::new());
        } else {
            let table = tiers.last_mut().unwrap_or(&mut all);
            if table.insert(key, value).is_some() {
                return Err(bad("the key is there already"));
            }
        }
    }
    let of = |table: &BTreeMap<String, u64>, key: &str| {
        table.get(key).copied().filter(|&value| (1..=LARGEST).contains(&value))
    };
    let top = |key: &str| of(&all, key).ok_or_else(|| format!("no {key} from 1 to {}", LARGEST));
    let (nodes, count) = (top("nodes")? as u32, top("tiers")? as usize);
    if !(2..=3).contains(&count) || tiers.len() != count {
        return Err(format!("{count} tiers, {} of them described: two or three, each described", tiers.len()));
    }
    let need = |tier: usize, key: &str| {
        of(&tiers[tier], key).ok_or_else(|| format!("tier {tier}: no {key} from 1 to {}", LARGEST))
    };
    let bundle = |tier: usize| of(&tiers[tier], "bundle").unwrap_or(1) as u32;
    if bundle(0) > 1 {
        return Err(format!("tier 0: Bundle {}: a host has one link", bundle(0)));
    }
    let latency = |tier: usize, key: &str| {
        let ns = tiers[tier].get(key).copied().unwrap_or(0);
        u32::try_from(ns).map_err(|_| format!("tier {tier}: {key} {ns}: at most {} ns", u32::MAX))
    };
    let link = |tier: usize| -> Result<LinkSpec, Bad> {
        let delay_ns = latency(tier, "downlink_latency_ns")?;
        Ok(LinkSpec { rate_bps: need(tier, "downlink_speed_gbps")? * 1_000_000_000, delay_ns })
    };
    let hosts_per_t0 = need(0, "radix_down")? as u32;
    let pods = if count == 3 { nodes / (top("podsize")? as u32).max(1) } else { 1 };
    let whole = pods.checked_mul(hosts_per_t0).and_then(|all| nodes.checked_rem(all)) == Some(0);
    if !whole {
        return Err(format!("{nodes} nodes are no whole number of pods and of T0s with {hosts_per_t0} hosts"));
    }
    let up = |tier: usize, above: usize| -> Result<u32, Bad> {
        let (ports, bundle) = (need(tier, "radix_up")? as u32, bundle(above));
        if ports % bundle == 0 {
            Ok(ports / bundle)
        } else {
            Err(format!("tier {tier}: {ports} ports in bundles of {bundle}"))
        }
    };
    let t1 = up(0, 1)?;
    let t2 = if count == 3 { t1.checked_mul(up(1, 2)?).ok_or("more T2s than can be counted")? } else { 0 };
    let tiers3 = Tiers {
        planes: 1,
        pods,
        t0: nodes / pods / hosts_per_t0,
        t1,
        t2,
        hosts_per_t0,
        parallel: bundle(1),
        t2_parallel: if count == 3 { bundle(2) } else { 1 },
        host_link: link(0)?,
        fabric_link: link(1)?,
        t2_link: link(count - 1)?,
    };
    // What follows from the others must agree with them.
    for (tier, what, below) in [(1, "T0s of a pod", tiers3.t0), (2, "pods", pods)].into_iter().take(count - 1) {
        let times = u64::from(below) * u64::from(bundle(tier));
        if let Some(down) = of(&tiers[tier], "radix_down").filter(|&down| down != times) {
            return Err(format!("tier {tier}: Radix_Down {down}, and {what} times Bundle are {times}"));
        }
    }
    for (tier, keys) in tiers.iter().enumerate().take(count - 1) {
        let Some(&over) = keys.get("oversubscribed") else { continue };
        let (Some(down), Some(up)) = (of(keys, "radix_down"), of(keys, "radix_up")) else { continue };
        let (down, up) = (down * need(tier, "downlink_speed_gbps")?, up * need(tier + 1, "downlink_speed_gbps")?);
        if up.checked_mul(over) != Some(down) {
            return Err(format!("tier {tier}: Oversubscribed {over}, and {down} Gb/s from below go over {up} Gb/s"));
        }
    }
    // One latency is that of all switches. What those of a tier need beyond it goes, by halves, to the links of both their sides: every
    // packet that crosses a switch crosses two of its links, so that its time stays the same. Of an odd number of nanoseconds the links
    // above have the larger half. Only where a packet turns round, which crosses two links below, one nanosecond is lost.
    let of_tier = |tier: usize| if tier < count { latency(tier, "switch_latency_ns") } else { Ok(u32::MAX) };
    let of_tiers = [of_tier(0)?, of_tier(1)?, of_tier(2)?];
    let of_switches = of_tiers[..count].iter().copied().min().unwrap_or(0);
    let beyond = |tier: usize| u64::from(of_tiers[tier].saturating_sub(of_switches));
    let (below, above) = (|tier: usize| beyond(tier) / 2, |tier: usize| beyond(tier).div_ceil(2));
    let longer = |link: LinkSpec, more: u64| match u32::try_from(u64::from(link.delay_ns) + more) {
        Ok(delay_ns) => Ok(LinkSpec { delay_ns, ..link }),
        Err(_) => Err("latencies of a link and a switch that are more than 4 s together".to_owned()),
    };
    let tiers3 = Tiers {
        host_link: longer(tiers3.host_link, below(0))?,
        fabric_link: longer(tiers3.fabric_link, above(0) + below(1))?,
        t2_link: if count == 3 { longer(tiers3.t2_link, above(1) + below(2))? } else { tiers3.t2_link },
        ..tiers3
    };
    Ok((tiers3, of_switches))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Latencies of switches by tier, and what a packet needs for links and switches to the turn at each tier and back.
    #[test]
    fn odd_latencies_of_switches_lose_at_most_one_nanosecond() {
        for latencies in [[301, 700, 500], [300, 701, 500], [300, 701, 503], [301, 300, 303], [3, 2, 1], [4, 4, 4]] {
            let tier = |nth: usize, more: &str| {
                format!("Tier {nth}\nDownlink_speed_Gbps 100\n{more}\nSwitch_Latency_ns {}\n", latencies[nth])
            };
            let text = ["Radix_Up 2\nRadix_Down 4", "Radix_Up 2\nRadix_Down 2", "Radix_Down 2"];
            let text: String = text.iter().enumerate().map(|(nth, more)| tier(nth, more)).collect();
            let (tiers, each) = topology(&format!("Nodes 16\nTiers 3\nPodsize 8\n{text}")).unwrap();
            let links = [tiers.host_link, tiers.fabric_link, tiers.t2_link].map(|link| link.delay_ns);
            for top in 0..3 {
                let switches = 2 * top as u32 + 1;
                let ns = 2 * links[..=top].iter().sum::<u32>() + switches * each;
                let wanted = 2 * latencies[..top].iter().sum::<u32>() + latencies[top];
                assert!(ns == wanted || ns + 1 == wanted, "{latencies:?}, up to tier {top}: {ns} ns, not {wanted}");
            }
        }
    }
}
