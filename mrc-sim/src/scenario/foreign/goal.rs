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
//! Blanks around braces and colons may be missing or added, and a brace ends a statement as a line does; `// ...` and `/* ... */`
//! are comments. `calc` counts nanoseconds. `cpu` and `nic` are read and have no effect: operations that nothing orders run side
//! by side. A receive `from -1` takes a message of any rank, with `tag -1` one of any tag.

use std::collections::HashMap;

use super::{Bad, Op, Origin, What, of_line};

const MOST_RANKS: u32 = 1 << 20;

/// The operations of all ranks.
pub(super) fn read(text: &str) -> Result<Vec<Vec<Op>>, Bad> {
    let mut schedule = Schedule::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (nth, line) in without_comments(text)?.lines().enumerate() {
        let spaced = ['{', '}', ':'].iter().fold(line.to_owned(), |line, &c| line.replace(c, &format!(" {c} ")));
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut rest = &words[..];
        while !rest.is_empty() {
            let (statement, behind) = rest.split_at(schedule.statement(rest));
            let taken = schedule.take(Origin::Line(nth + 1), statement);
            taken.map_err(|why| of_line(nth, line.trim(), why))?;
            rest = behind;
        }
    }
    if schedule.at.is_some() {
        return Err("the last rank has no closing brace".to_owned());
    }
    if schedule.ranks.iter().all(Vec::is_empty) {
        return Err("no operation: GOAL text begins with num_ranks; its binary form is not read".to_owned());
    }
    Ok(schedule.ranks)
}

/// What was read so far.
#[derive(Default)]
struct Schedule {
    ranks: Vec<Vec<Op>>,
    /// The rank whose brace is open, and its labels.
    at: Option<(usize, HashMap<String, usize>)>,
}

impl Schedule {
    /// Words of the statement that these words begin with.
    fn statement(&self, words: &[&str]) -> usize {
        match (words, &self.at) {
            (["num_ranks", _, ..], None) => 2,
            (["rank", _, "{", ..], None) => 3,
            (["}", ..], _) => 1,
            (words, _) => words.iter().position(|word| *word == "}").unwrap_or(words.len()),
        }
    }

    fn take(&mut self, at: Origin, words: &[&str]) -> Result<(), &'static str> {
        match (words, &mut self.at) {
            (["num_ranks", count], _) if self.ranks.is_empty() => {
                let count: u32 = count.parse().map_err(|_| "no number")?;
                if !(1..=MOST_RANKS).contains(&count) {
                    return Err("1 to 1048576 ranks");
                }
                self.ranks = vec![Vec::new(); count as usize];
            }
            (["rank", number, "{"], None) => {
                let rank: usize = number.parse().map_err(|_| "no number")?;
                if rank >= self.ranks.len() {
                    return Err("above num_ranks, which comes first");
                }
                self.at = Some((rank, HashMap::new()));
            }
            (["}"], Some(_)) => self.at = None,
            ([first, how @ ("requires" | "irequires"), second], Some((rank, labels))) => {
                let find = |label: &str| labels.get(label).copied().ok_or("no such label before this line");
                let (op, other) = (find(first)?, find(second)?);
                let op = &mut self.ranks[*rank][op];
                if *how == "requires" { op.after.push(other) } else { op.beside.push(other) }
            }
            (words, Some((rank, labels))) => {
                let (label, words) = match words {
                    [label, ":", rest @ ..] => (Some(*label), rest),
                    _ => (None, words),
                };
                let what = operation(words).ok_or_else(|| cure(words))?;
                if let Some(label) = label
                    && labels.insert(label.to_owned(), self.ranks[*rank].len()).is_some()
                {
                    return Err("the label is there already");
                }
                self.ranks[*rank].push(Op { what, after: Vec::new(), beside: Vec::new(), at });
            }
            _ => return Err("stands outside of a rank"),
        }
        Ok(())
    }
}

/// The text with every comment left out, line by line.
fn without_comments(text: &str) -> Result<String, Bad> {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = [rest.find("//"), rest.find("/*")].into_iter().flatten().min() {
        kept.push_str(&rest[..at]);
        let (comment, after) = if rest[at..].starts_with("//") {
            rest[at..].split_at(rest[at..].find('\n').unwrap_or(rest.len() - at))
        } else {
            let end = rest[at + 2..].find("*/").ok_or_else(|| {
                let line = 1 + kept.matches('\n').count();
                format!("line {line}: a comment begins here that nothing ends: `*/` is missing")
            })?;
            rest[at..].split_at(end + 4)
        };
        kept.extend(comment.chars().filter(|&c| c == '\n'));
        rest = after;
    }
    Ok(kept + rest)
}

/// What to write in place of these words, which are no operation.
fn cure(words: &[&str]) -> &'static str {
    match words.first() {
        Some(&"calc") => "`calc` takes whole nanoseconds from 0 on, as in `calc 100`",
        Some(&"send") => "`send` takes whole bytes, a rank and at most one tag, as in `send 4096b to 1 tag 7`",
        Some(&"recv") => "`recv` takes whole bytes, a rank and at most one tag, as in `recv 4096b from 0 tag 7`",
        _ => "neither calc, send, recv, requires nor irequires",
    }
}

/// What stands for any rank, or any tag.
const ANY: &str = "-1";

fn operation(words: &[&str]) -> Option<What> {
    // A blank may part a number of bytes from its unit.
    if let [verb @ ("send" | "recv"), number, "b", rest @ ..] = words {
        let size = format!("{number}b");
        return operation(&[&[*verb, &size], rest].concat());
    }
    let bytes = |text: &str| text.strip_suffix('b')?.parse::<u64>().ok();
    // Clauses that have no effect, and the tag: `None` for any.
    let tag = |rest: &[&str]| -> Option<Option<u64>> {
        let mut tag = None;
        for pair in rest.chunks(2) {
            match *pair {
                ["tag", _] if tag.is_some() => return None,
                ["tag", ANY] => tag = Some(None),
                ["tag", number] => tag = Some(Some(number.parse().ok()?)),
                ["cpu" | "nic", _] => {}
                _ => return None,
            }
        }
        Some(tag.unwrap_or(Some(0)))
    };
    match *words {
        ["calc", ns, ref rest @ ..] => tag(rest).and(ns.parse().ok()).map(What::Compute),
        ["send", size, "to", to, ref rest @ ..] => {
            Some(What::Send { bytes: bytes(size)?, to: to.parse().ok()?, tag: tag(rest)?? })
        }
        ["recv", size, "from", from, ref rest @ ..] => {
            bytes(size)?;
            let from = if from == ANY { None } else { Some(from.parse().ok()?) };
            Some(What::Receive { from, tag: tag(rest)? })
        }
        _ => None,
    }
}
