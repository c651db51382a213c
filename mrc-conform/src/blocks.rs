//! Loops of the script language: `repeat n=0..7` to `end` stands for its lines once per number, with `{n*64+1}` in them worked
//! out. Loops are written out before anything else is read, so that every step keeps its line. Alternatives are steps
//! (`script`); here only their `end` counts.

use crate::number::number;

/// A line of a script with its number.
pub(crate) type Line = (usize, String);

/// Most lines that loops may make of a script.
const MOST_LINES: usize = 10_000;

/// The lines of a script with every loop written out.
///
/// # Errors
/// The line of a loop that does not end, or cannot be worked out, and why.
pub(crate) fn write_out(text: &str) -> Result<Vec<Line>, (usize, String)> {
    let lines: Vec<(usize, &str)> = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())).collect();
    let mut out = Vec::new();
    body(&lines, &mut Vec::new(), &mut out)?;
    Ok(out)
}

fn body(lines: &[(usize, &str)], env: &mut Vec<(String, i128)>, out: &mut Vec<Line>) -> Result<(), (usize, String)> {
    let mut at = 0;
    while let Some(&(line, text)) = lines.get(at) {
        at += 1;
        let wrong = |why: String| (line, why);
        let Some(head) = text.strip_prefix("repeat ") else {
            let text = if text.starts_with('#') { text.to_string() } else { insert(text, env).map_err(wrong)? };
            out.push((line, text));
            if out.len() > MOST_LINES {
                return Err(wrong(format!("loops make more than {MOST_LINES} lines of this script")));
            }
            continue;
        };
        let (name, first, last) = range(&insert(head, env).map_err(wrong)?).ok_or_else(|| {
            wrong(format!("`repeat {head}`: write `repeat n=0..7`, with at most {MOST_LINES} numbers"))
        })?;
        let end = end_of(&lines[at..]).ok_or_else(|| wrong("`repeat` without `end`".into()))?;
        for value in first..=last {
            env.push((name.clone(), value));
            body(&lines[at..at + end], env, out)?;
            env.pop();
        }
        at += end + 1;
    }
    Ok(())
}

/// Lines before the `end` that closes the block which these lines are in.
fn end_of(lines: &[(usize, &str)]) -> Option<usize> {
    let mut open = 1;
    lines.iter().position(|(_, text)| {
        match text.split_whitespace().next() {
            Some("repeat" | "either") => open += 1,
            Some("end") => open -= 1,
            _ => {}
        }
        open == 0
    })
}

/// `n=0..7`.
fn range(text: &str) -> Option<(String, i128, i128)> {
    let (name, values) = text.trim().split_once('=')?;
    let (first, last) = values.split_once("..")?;
    let named = name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(|c| c.is_ascii_alphanumeric());
    let (first, last) = (number(first)?, number(last)?);
    (named && first <= last && last - first < MOST_LINES as i128).then(|| (name.to_string(), first, last))
}

/// The line with every `{...}` replaced by its value.
fn insert(text: &str, env: &[(String, i128)]) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        let (inside, after) = behind.split_once('}').ok_or("`{` without `}`")?;
        out.push_str(before);
        out.push_str(&value(inside, env).ok_or_else(|| unknown(inside, env))?.to_string());
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn unknown(inside: &str, env: &[(String, i128)]) -> String {
    let names: Vec<&str> = env.iter().map(|(name, _)| name.as_str()).collect();
    let names =
        if names.is_empty() { "no loop is around it".into() } else { format!("there are {}", names.join(", ")) };
    format!("`{{{inside}}}` is no sum or product of numbers and names of loops; {names}")
}

/// Sums and differences of products.
fn value(text: &str, env: &[(String, i128)]) -> Option<i128> {
    let mut sum = 0i128;
    let mut sign = 1;
    let mut rest = text;
    loop {
        let end = rest.find(['+', '-']).unwrap_or(rest.len());
        let product = rest[..end].split('*').map(|factor| one(factor.trim(), env));
        let product = product.reduce(|a, b| a?.checked_mul(b?))??;
        sum = sum.checked_add(product.checked_mul(sign)?)?;
        sign = match rest.get(end..=end) {
            None => return Some(sum),
            Some("-") => -1,
            Some(_) => 1,
        };
        rest = &rest[end + 1..];
    }
}

fn one(text: &str, env: &[(String, i128)]) -> Option<i128> {
    let known = env.iter().rev().find(|(name, _)| name == text);
    known.map_or_else(|| number(text).filter(|_| !text.starts_with('-')), |(_, value)| Some(*value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        write_out(text).unwrap().into_iter().map(|(line, text)| format!("{line} {text}")).collect()
    }

    #[test]
    fn loops_nest_and_keep_the_lines() {
        let text = "a\nrepeat n=1..2\n  b{n}\n  repeat k=0..1\n    c{n*64+k-1}\n  end\nend\nd";
        assert_eq!(lines(text), ["1 a", "3 b1", "5 c63", "5 c64", "3 b2", "5 c127", "5 c128", "8 d"]);
        assert_eq!(lines("repeat n=0..0\neither\nor\nend\nend\nx"), ["2 either", "3 or", "4 end", "6 x"]);
        assert_eq!(lines("# {as it is}"), ["1 # {as it is}"]);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let wrong = |text: &str| write_out(text).unwrap_err();
        assert_eq!(wrong("repeat n=0..1\nx"), (1, "`repeat` without `end`".into()));
        assert_eq!(wrong("repeat n\nend"), (1, "`repeat n`: write `repeat n=0..7`, with at most 10000 numbers".into()));
        assert_eq!(wrong("repeat n=0..1\n{m}\nend").0, 2);
        assert!(wrong("{n}").1.ends_with("no loop is around it"));
        assert!(wrong("repeat n=1..2\n{n*}\nend").1.contains("{n*}"));
        assert!(wrong("repeat n=0..9999\na\nb\nend").1.contains("more than 10000"));
        assert_eq!(wrong("a\n{n").1, "`{` without `}`");
    }
}
