//! Our own traces: a line for each message, with those that it waits for.

use std::path::Path;

use super::{LONGEST, Part, Problem, Scale, foreign};
use crate::workload::{Message, Plan};

/// Names of the columns of our own traces, in their order. A time in another unit is none.
const COLUMNS: [&[&str]; 4] = [
    &["start_us", "time_us", "at_us", "start", "time"],
    &["from", "src", "source", "sender"],
    &["to", "dst", "dest", "destination", "receiver"],
    &["bytes", "size", "size_bytes"],
];

/// Whether a line names the columns, perhaps with one more behind them.
fn is_head(line: &str) -> bool {
    let names: Vec<String> =
        line.split(',').map(|name| name.trim().trim_matches('"').trim().to_ascii_lowercase()).collect();
    (COLUMNS.len()..=COLUMNS.len() + 1).contains(&names.len())
        && COLUMNS.iter().zip(&names).all(|(known, name)| known.contains(&name.as_str()))
}

impl Part<'_> {
    /// Our own format, from this key: what errors call the text, and the text.
    pub(super) fn csv(
        &self,
        plan: &mut Plan,
        (key, path): (&str, &Path),
        text: &str,
        group: u16,
        scale: &Scale,
    ) -> Result<(), Problem> {
        // Message of each line, for the lines that name it.
        let mut ids: Vec<Option<u32>> = Vec::new();
        let mut waits: Vec<(usize, u32, &str)> = Vec::new();
        self.room(plan, key, text.lines().count() as u64, 0)?;
        for (nth, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
            let line = line.trim();
            // A table may name its columns, which have one order.
            let begins = |first: char| first.is_ascii_alphabetic() || first == '"';
            let head = ids.iter().all(Option::is_none) && line.starts_with(begins);
            if head && !is_head(line) {
                let columns = COLUMNS.map(|names| names[0]).join(",");
                let line = foreign::excerpt(line);
                let message = format_args!("{}:{}: `{line}`: the columns are {columns}", path.display(), nth + 1);
                return Err(self.problem(key, message));
            }
            if line.is_empty() || line.starts_with('#') || head {
                ids.push(None);
                continue;
            }
            let bad = || {
                let (form, line) = ("start_us,from,to,bytes[,lines to wait for]", foreign::excerpt(line));
                self.problem(key, format_args!("{}:{}: `{line}` is not {form}", path.display(), nth + 1))
            };
            let parts: Vec<&str> = line.split(',').map(str::trim).collect();
            let ([start, src, dst, bytes] | [start, src, dst, bytes, _]) = parts[..] else { return Err(bad()) };
            let of_line = |why| self.problem(key, format_args!("{}:{}: {why}", path.display(), nth + 1));
            let start = start.parse::<f64>().map_err(|_| bad())?;
            if !(0.0..=1e12).contains(&start) {
                return Err(of_line(format!("start_us {start}: allowed are 0 to 1e12 us")));
            }
            let number = |text: &str| text.parse::<u32>().map_err(|_| bad());
            let (from, to, bytes) = (number(src)?, number(dst)?, bytes.parse::<u64>().map_err(|_| bad())?);
            let (src, dst, last) = (scale.host(from), scale.host(to), self.all() - 1);
            if src > last || dst > last || from == to {
                let why = format!("from {src} to {dst}: hosts are 0 to {last} and do not send to themselves");
                return Err(of_line(why));
            }
            if bytes == 0 {
                return Err(of_line(format!("{bytes}: a message has 1 to {LONGEST} bytes")));
            }
            // What stays within a host takes no time.
            let bytes = if src == dst { 0 } else { scale.bytes_of(bytes).map_err(of_line)? };
            let delay_ns = scale.ns_of((start * 1e3).round() as u64);
            let message = Message { src, dst, bytes, group, iteration: 0, delay_ns };
            let id = plan.push(message);
            ids.push(Some(id));
            if let Some(after) = parts.get(4) {
                waits.push((nth, id, after));
            }
        }
        if ids.iter().flatten().all(|&id| plan.messages[id as usize].is_compute()) {
            return Err(self.problem(key, format_args!("{} holds no message", path.display())));
        }
        let edges: usize = waits.iter().map(|(.., after)| after.split_whitespace().count()).sum();
        self.room(plan, key, 0, edges as u64)?;
        for (nth, id, after) in waits {
            for line in after.split_whitespace() {
                let first = line.parse::<usize>().ok().and_then(|line| *ids.get(line.wrapping_sub(1))?);
                let Some(first) = first else {
                    let line = foreign::excerpt(line);
                    let place = format_args!("{}:{}: line `{line}` holds no message", path.display(), nth + 1);
                    return Err(self.problem(key, place));
                };
                plan.after_delivery(first, id);
            }
        }
        Ok(())
    }
}
