//! GOAL: the schedule text of LogGOPSim (Hoefler et al., HPDC 2010), which htsim reads too.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//! l1: calc 100 cpu 0
//! l2: send 4096b to 1 tag 7 cpu 0
//! l2 requires l1
//! }
//! rank 1 {
//! l1: recv 4096b from 0 tag 7
//! }
//! ```
//!
//! Blanks around braces and colons may be missing or added; `// ...` and `/* ... */` are comments. `calc` counts nanoseconds.
//! `cpu` and `nic` are read and have no effect: operations that nothing orders run side by side.

use std::collections::HashMap;

use super::{Bad, Op, What};

const MOST_RANKS: u32 = 1 << 20;

/// The operations of all ranks.
pub(super) fn read(text: &str) -> Result<Vec<Vec<Op>>, Bad> {
    let mut ranks: Vec<Vec<Op>> = Vec::new();
    let mut at: Option<(usize, HashMap<String, usize>)> = None;
    for (nth, line) in without_comments(text).lines().enumerate() {
        let spaced = ['{', '}', ':'].iter().fold(line.to_owned(), |line, &c| line.replace(c, &format!(" {c} ")));
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let line = line.trim();
        let bad = |why: &str| format!("line {}: `{line}`: {why}", nth + 1);
        match (&words[..], &mut at) {
            ([], _) => {}
            (["num_ranks", count], _) if ranks.is_empty() => {
                let count: u32 = count.parse().map_err(|_| bad("no number"))?;
                if !(1..=MOST_RANKS).contains(&count) {
                    return Err(bad("1 to 1048576 ranks"));
                }
                ranks = vec![Vec::new(); count as usize];
            }
            (["rank", number, "{"], None) => {
                let rank: usize = number.parse().map_err(|_| bad("no number"))?;
                if rank >= ranks.len() {
                    return Err(bad("above num_ranks, which comes first"));
                }
                at = Some((rank, HashMap::new()));
            }
            (["}"], Some(_)) => at = None,
            ([first, how @ ("requires" | "irequires"), second], Some((rank, labels))) => {
                let find =
                    |label: &str| labels.get(label).copied().ok_or_else(|| bad("no such label before this line"));
                let (op, other) = (find(first)?, find(second)?);
                let op = &mut ranks[*rank][op];
                if *how == "requires" { op.after.push(other) } else { op.beside.push(other) }
            }
            (words, Some((rank, labels))) => {
                let (label, words) = match words {
                    [label, ":", rest @ ..] => (Some(*label), rest),
                    _ => (None, words),
                };
                let what = operation(words).ok_or_else(|| bad("neither calc, send, recv, requires nor irequires"))?;
                if let Some(label) = label
                    && labels.insert(label.to_owned(), ranks[*rank].len()).is_some()
                {
                    return Err(bad("the label is there already"));
                }
                ranks[*rank].push(Op { what, after: Vec::new(), beside: Vec::new() });
            }
            _ => return Err(bad("stands outside of a rank")),
        }
    }
    if at.is_some() {
        return Err("the last rank has no closing brace".to_owned());
    }
    if ranks.iter().all(Vec::is_empty) {
        return Err("no operation: GOAL text begins with num_ranks; its binary form is not read".to_owned());
    }
    Ok(ranks)
}

/// The text with every comment left out, line by line.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = [rest.find("//"), rest.find("/*")].into_iter().flatten().min() {
        kept.push_str(&rest[..at]);
        let (comment, after) = if rest[at..].starts_with("//") {
            rest[at..].split_at(rest[at..].find('\n').unwrap_or(rest.len() - at))
        } else {
            rest[at..].split_at(rest[at + 2..].find("*/").map_or(rest.len() - at, |end| end + 4))
        };
        kept.extend(comment.chars().filter(|&c| c == '\n'));
        rest = after;
    }
    kept + rest
}

fn operation(words: &[&str]) -> Option<What> {
    let bytes = |text: &str| text.strip_suffix('b')?.parse::<u64>().ok();
    // Clauses that have no effect, and the tag.
    let tag = |rest: &[&str]| -> Option<u64> {
        let mut tag = 0;
        for pair in rest.chunks(2) {
            match pair {
                ["tag", number] => tag = number.parse().ok()?,
                ["cpu" | "nic", _] => {}
                _ => return None,
            }
        }
        Some(tag)
    };
    match words {
        ["calc", ns, rest @ ..] => tag(rest).and(ns.parse().ok()).map(What::Compute),
        ["send", size, "to", to, rest @ ..] => {
            Some(What::Send { bytes: bytes(size)?, to: to.parse().ok()?, tag: tag(rest)? })
        }
        ["recv", size, "from", from, rest @ ..] => {
            bytes(size)?;
            Some(What::Receive { from: from.parse().ok()?, tag: tag(rest)? })
        }
        _ => None,
    }
}
