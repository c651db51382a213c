//! The page around the figures: its tables, style and script.

use std::fmt::Write as _;

use mrc_sim::run::{Distribution, GroupReport, Results};

use super::figures::{DETAILED, Figure, bus_gbit_per_s};
use super::plots::number;
use super::{Run, compared};
use crate::cmd::sim::made::Made;
use crate::cmd::sim::pool::{self, Estimate};
use crate::cmd::sim::shortfall;
use crate::cmd::sim::sweep::Manifest;
use crate::cmd::sim::verdict;

const STYLE: &str = "
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff; }
h1, h2 { line-height: 1.2; } h1, h2, p { overflow-wrap: anywhere; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; }
table { border-collapse: collapse; margin: 0.8rem 0; font-size: 0.7rem; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { padding: 0.2rem 0.3rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1rem 0; break-inside: avoid; } figcaption { color: #555; font-size: 0.9em; }
.bad { color: #b00; font-weight: 600; } td .bad { display: block; }
figure svg { display: block; }
.text { white-space: normal; text-align: left; display: block; min-width: 26rem; }
table:has(.text) th:last-child { text-align: left; }
.r0 { background: #8fd694; color: #000; } .r1 { background: #d5eec2; color: #000; } .r2 { background: #fdf0b5; color: #000; }
.r3 { background: #fbc28d; color: #000; } .r4 { background: #ef8a80; color: #000; }
[class^=r] { display: block; padding: 0 0.2rem; }
th button { all: unset; cursor: pointer; } th button:focus-visible { outline: 2px solid; }
th[aria-sort=ascending] button::after { content: \" \\25b2\"; } th[aria-sort=descending] button::after { content: \" \\25bc\"; }
input::placeholder { color: inherit; opacity: 0.8; } input { font: inherit; margin-top: 0.8rem; padding: 0.1rem 0.4rem; }
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark; }
  body { color: #ddd; background: #181818; } figcaption { color: #aaa; } .bad { color: #f77; }
  h2, th, td { border-color: #444; } a { color: #8bf; }
}
@media print {
  :root { color-scheme: light; } body { color: #222; background: #fff; } input { display: none; }
  @page { margin: 12mm; }
  body { max-width: none; margin: 0; padding: 0; font-size: 10px; }
  h2, thead { break-after: avoid; } tr { break-inside: avoid; }
  table { display: table; width: 100%; overflow: visible; font-size: 7px; }
  th, td { padding: 0.1rem 0.2rem; }
  /* Names may break, numbers may not: half of one reads as another one. */
  td:first-child { white-space: normal; overflow-wrap: anywhere; }
}
";

/// The page.
pub fn html(title: &str, runs: &[Run], sweep: Option<&Manifest>, figures: &[Figure]) -> String {
    let mut page = String::new();
    let (title, overview) = (escape(title), overview(runs));
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <link rel=\"icon\" href=\"data:,\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    let one = super::one_scenario(runs);
    page.push_str(&if one { about(&runs[0].results) } else { String::new() });
    if let Some(sweep) = sweep {
        let missing = sweep.points.len() - runs.len();
        let axes = if sweep.axes.is_empty() { "seeds".to_owned() } else { sweep.axes.join(", ") };
        let _ =
            writeln!(page, "<p>{} points over {}; {missing} without results.</p>", sweep.points.len(), escape(&axes));
    }
    let mut made = Made::default();
    runs.iter().map(|run| &run.results.program).filter(|program| !program.is_empty()).for_each(|by| made.by(by));
    let programs = made.programs();
    let _ = if programs.is_empty() { Ok(()) } else { writeln!(page, "<p>Made by {}.</p>", escape(&programs)) };
    let find =
        |point: &crate::cmd::sim::sweep::Point| runs.iter().find(|run| run.name == point.name).map(|run| &run.results);
    if let Some((sweep, compared)) = sweep.and_then(|sweep| Some((sweep, verdict::of(sweep, find)?))) {
        page.push_str(&compared::html(&compared, &sweep.without));
        page.push_str("<p>The folder of this page has a file for each run.</p>\n");
        let _ = writeln!(page, "<script>{SCRIPT}</script></body></html>");
        return page;
    }
    // A long table before the figures would hide them.
    let long = runs.len() > DETAILED;
    page.push_str(if long { "<p><a href=\"#runs\">All runs in numbers</a></p>\n" } else { "" });
    page.push_str(if long { "" } else { &overview });
    if let Some(sweep) = sweep {
        page.push_str(&over_seeds(runs, sweep));
    }
    let mut section = "";
    for figure in figures {
        if figure.section != section {
            section = &figure.section;
            let _ = writeln!(page, "<h2>{}</h2>", escape(section));
            if let Some(run) = runs.iter().find(|run| run.name == section) {
                page.push_str(&if one { String::new() } else { about(&run.results) });
                page.push_str(&details(&run.results));
            }
        }
        let (id, caption) = (escape(&figure.id), escape(&figure.caption));
        // One picture with one text, for who cannot see it: not a hundred bits of both.
        let svg = figure.svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{caption}\" "), 1);
        let _ = writeln!(page, "<figure id=\"{id}\">{svg}<figcaption>{caption}</figcaption></figure>");
    }
    if long {
        let (all, between) = (runs.len(), "the first, the last and others between them");
        let _ = writeln!(page, "<p>Figures for {DETAILED} of {all} runs: {between}.</p>");
        let _ = write!(page, "<h2 id=\"runs\">All runs</h2>\n{overview}");
    }
    let _ = writeln!(page, "<script>{SCRIPT}</script></body></html>");
    page
}

/// Above each long table a field that hides the rows without its words, and names of columns that sort it: numbers by value, with
/// what is none at the end. Without scripts the page lacks these alone.
const SCRIPT: &str = "
document.querySelectorAll('table').forEach(table => {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < 6) return;
  const field = document.createElement('input');
  field.type = 'search';
  field.placeholder = field.ariaLabel = 'filter rows';
  field.oninput = () => {
    const words = field.value.toLowerCase().split(/\\s+/);
    rows.forEach(row => row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word)));
  };
  table.before(field);
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, nth) => {
    const button = document.createElement('button');
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.onclick = () => {
      const sign = head.ariaSort == 'ascending' ? -1 : 1;
      heads.forEach(other => other.ariaSort = null);
      head.ariaSort = sign < 0 ? 'descending' : 'ascending';
      const text = row => row.cells[nth].textContent;
      const value = row => {
        const parts = text(row).match(/^\\(?(-?[\\d.]+)( [kMG])?(\\)| \\u00b1 .*| of \\d+)?$/);
        return parts ? parts[1] * { ' k': 1e3, ' M': 1e6, ' G': 1e9 }[parts[2] ?? ''] || +parts[1] : NaN;
      };
      const least = (a, b) => {
        const [x, y] = [value(a), value(b)];
        if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y) || sign * text(a).localeCompare(text(b), 'en', { numeric: true });
        return sign * (x - y);
      };
      table.tBodies[0].append(...rows.sort(least));
    };
  });
});
";

/// Means over the seeds of each configuration.
fn over_seeds(runs: &[Run], sweep: &Manifest) -> String {
    let find =
        |point: &crate::cmd::sim::sweep::Point| runs.iter().find(|run| run.name == point.name).map(|run| &run.results);
    let pooled = pool::over_seeds(sweep, find);
    if pooled.is_empty() {
        return String::new();
    }
    let head = [
        "configuration",
        "complete",
        "mean FCT, us",
        "p99, us",
        "max, us",
        "mean slowdown",
        "p99 slowdown",
        "goodput, Gb/s",
        "bus, Gb/s",
        "retransmitted, %",
    ];
    let cell = |value: Option<Estimate>, digits| value.map_or_else(|| "-".to_owned(), |value| value.text(digits));
    let rows = pooled.iter().map(|one| {
        vec![
            escape(&one.name),
            format!("{} of {}", one.complete, one.runs),
            cell(one.fct_mean_us, 1),
            cell(one.fct_p99_us, 1),
            cell(one.fct_max_us, 1),
            cell(one.slowdown_mean, 2),
            cell(one.slowdown_p99, 2),
            cell(one.goodput_gbit_per_s, 2),
            cell(one.bus_gbit_per_s, 1),
            cell(one.retransmitted_percent, 3),
        ]
    });
    let table = table(&head, rows);
    format!(
        "<h2 id=\"over-seeds\">Over the seeds</h2>\n<p>Means of the complete runs with 95 % confidence intervals; rates \
         also of runs that reached their planned end (<code>until = \"limit\"</code>).</p>\n{table}"
    )
}

pub(super) fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let cells = |cells: &mut dyn Iterator<Item = String>, tag: &str| {
        cells.map(|cell| format!("<{tag}>{cell}</{tag}>")).collect::<String>()
    };
    let head = cells(&mut head.iter().map(|name| escape(name)), "th");
    let rows: String = rows.map(|row| format!("<tr>{}</tr>\n", cells(&mut row.into_iter(), "td"))).collect();
    format!("<table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table>\n")
}

fn overview(runs: &[Run]) -> String {
    let head = [
        "run",
        "seed",
        "flows",
        "mean FCT, us",
        "p99, us",
        "max, us",
        "p99 slowdown",
        "goodput, Gb/s",
        "bus, Gb/s",
        "retransmitted, %",
        "trims",
        "marks",
        "lost",
        "digest",
    ];
    let rows = runs.iter().map(|run| {
        let results = &run.results;
        let state = shortfall(results).map(|how| format!(" <span class=\"bad\">{how}</span>")).unwrap_or_default();
        let [mean, p99, max] = cells(results.fct_us, results.completed_fct_us, 1);
        let [_, slowdown, _] = cells(results.slowdown, results.completed_slowdown, 2);
        vec![
            format!("{}{state}", escape(&run.name)),
            results.seed.to_string(),
            match results.finished {
                true => results.flows.to_string(),
                false => format!("{} of {}", results.completed, results.flows),
            },
            mean,
            p99,
            max,
            slowdown,
            format!("{:.2}", results.goodput_gbit_per_s),
            bus_gbit_per_s(results).map(|bus| format!("{bus:.1}")).unwrap_or_default(),
            format!("{:.3}", results.retransmitted_percent),
            number(results.trims as f64),
            number(results.marks as f64),
            number(results.drops as f64),
            escape(&results.digest),
        ]
    });
    table(&head, rows)
}

/// Mean, 99th percentile and maximum as cells of a table. Of a run that is not complete they are those of what completed,
/// in brackets; a dash where nothing did.
fn cells(all: Option<Distribution>, completed: Option<Distribution>, digits: usize) -> [String; 3] {
    let numbers = |d: Distribution| [d.mean, d.p99, d.max].map(|value| format!("{value:.digits$}"));
    match (all, completed) {
        (Some(all), _) => numbers(all),
        (None, Some(completed)) => numbers(completed).map(|number| format!("<span class=\"bad\">({number})</span>")),
        (None, None) => [(); 3].map(|()| "-".to_owned()),
    }
}

/// What the scenario says of itself.
fn about(results: &Results) -> String {
    if results.about.is_empty() { String::new() } else { format!("<p>{}</p>\n", escape(&results.about)) }
}

fn details(results: &Results) -> String {
    let mut text = String::new();
    let (transport, hosts, planes) = (escape(&results.transport), results.hosts, results.planes);
    let _ = writeln!(
        text,
        "<p>{transport}, {hosts} hosts, {planes} plane{}; {:.1} us; {} new data packets, {} retransmissions; EVs retired {} and restored {}; \
         fullest queue {} bytes.</p>",
        if planes == 1 { "" } else { "s" },
        results.end_us,
        results.data_packets,
        results.retransmitted_packets,
        results.paths_retired,
        results.paths_restored,
        results.peak_queue_bytes
    );
    if !results.set.is_empty() {
        let set: Vec<String> = results.set.iter().map(|change| format!("<code>{}</code>", escape(change))).collect();
        let _ = writeln!(text, "<p>Changed: {}</p>", set.join(", "));
    }
    let head = ["workload", "flows", "mean FCT, us", "p99, us", "max, us", "goodput, Gb/s", "Jain index"];
    let rows = results.groups.iter().map(|group| {
        let [mean, p99, max] = cells(group.fct_us, group.completed_fct_us, 1);
        vec![
            escape(&group.name),
            format!("{} of {}", group.completed, group.flows),
            mean,
            p99,
            max,
            format!("{:.2}", group.goodput_gbit_per_s),
            format!("{:.4}", group.jain),
        ]
    });
    text.push_str(&table(&head, rows));
    for (group, load) in results.groups.iter().filter_map(|group| Some((group, group.load?))) {
        let (name, offered, asked) = (escape(&group.name), load.offered, load.asked);
        let _ = writeln!(text, "<p>Load of {name}: {offered:.3} offered, {asked} asked.</p>");
    }
    for group in results.groups.iter().filter(|group| group.flows > 1) {
        if let Some(slow) = group.slowest.first() {
            let (src, dst, start, took) = (slow.src, slow.dst, slow.start_us, slow.fct_us);
            let name = escape(&group.name);
            let _ = writeln!(text, "<p>Slowest of {name}: {src} to {dst}, from {start:.1} us on, {took:.1} us.</p>");
        }
    }
    if results.groups.iter().any(|group| !group.iterations.is_empty()) {
        let head = ["iterations of", "number", "mean, us", "shortest, us", "longest, us", "bus, Gb/s", "best, Gb/s"];
        text.push_str(&table(&head, results.groups.iter().filter(|group| !group.iterations.is_empty()).map(steps)));
    }
    if let Some(diagnosis) = &results.diagnosis {
        let _ = writeln!(text, "<p class=\"bad\">Unfinished: {}</p>", escape(diagnosis));
    }
    if let Some(crowded) = results.crowded() {
        let _ = writeln!(text, "<p class=\"bad\">{}</p>", escape(&crowded));
    }
    for failure in &results.failures {
        let _ = writeln!(
            text,
            "<p class=\"bad\">{} to {} failed at {:.1} us: {}</p>",
            failure.src,
            failure.dst,
            failure.at_us,
            escape(&failure.why)
        );
    }
    text
}

/// Times and bandwidth of a collective's repetitions, or of training steps.
fn steps(group: &GroupReport) -> Vec<String> {
    let us = Distribution::of(&mut group.iterations.iter().map(|step| step.us).collect::<Vec<_>>());
    let bus = Distribution::of(&mut group.iterations.iter().map(|step| step.bus_gbit_per_s).collect::<Vec<_>>());
    let shortest = group.iterations.iter().map(|step| step.us).min_by(f64::total_cmp);
    let (mean, longest) = (us.map(|us| us.mean), us.map(|us| us.max));
    let all = group.bus_gbit_per_s.or(bus.map(|bus| bus.mean));
    let numbers = [mean, shortest, longest, all, bus.map(|bus| bus.max)]
        .map(|value| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}")));
    [escape(&group.name), group.iterations.len().to_string()].into_iter().chain(numbers).collect()
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use mrc_sim::run::RunEnd;
    use mrc_sim::workload::Load;

    use super::super::figures::figures;
    use super::super::tests::run;
    use super::*;
    use mrc_sim::run::IterationReport;

    #[test]
    fn steps_and_interruptions_are_on_the_page() {
        let mut run = run("one");
        (run.results.finished, run.results.ended) = (false, RunEnd::Interrupted);
        let step = |us, bus_gbit_per_s| IterationReport { us, bus_gbit_per_s };
        run.results.groups[0].bus_gbit_per_s = Some(24.0);
        run.results.groups[0].load = Some(Load { asked: 0.6, offered: 0.514 });
        run.results.groups[0].iterations = vec![step(100.0, 40.0), step(300.0, 20.0)];
        let runs = [run];
        let page = html("t", &runs, None, &figures(&runs, None).unwrap());
        assert!(page.contains(">interrupted<"), "{page}");
        assert!(page.contains(": 0.514 offered, 0.6 asked.</p>"), "{page}");
        let row = ["", "2", "200.0", "100.0", "300.0", "24.0", "40.0"].map(|cell| format!("<td>{cell}</td>")).concat();
        assert!(page.contains(&row), "{page}");
    }

    #[test]
    fn many_runs_come_after_the_figures_and_numbers_stay_whole_in_print() {
        let page = |count: usize| {
            let runs: Vec<Run> = (0..count).map(|nth| run(&format!("run{nth}"))).collect();
            html("t", &runs, None, &figures(&runs, None).unwrap())
        };
        let (few, many) = (page(DETAILED), page(DETAILED + 1));
        assert!(few.find("<table>").unwrap() < few.find("<figure").unwrap() && !few.contains("id=\"runs\""));
        let all = many.find("<h2 id=\"runs\">").unwrap();
        assert!(all > many.rfind("<figure").unwrap() && many.contains("<a href=\"#runs\">"));
        assert_eq!(many[all..].matches("<tr>").count(), 1 + DETAILED + 1);
        let print = STYLE.split("@media print").nth(1).unwrap();
        let cells = print.lines().find(|line| line.trim_start().starts_with("th, td")).unwrap();
        assert!(!cells.contains("wrap") && !cells.contains("white-space"), "{cells}");
    }

    #[test]
    fn what_a_scenario_is_about_stands_once_above_all_runs_or_with_each() {
        let mut runs = [run("one"), run("two")];
        let page = |runs: &[Run]| html("t", runs, None, &figures(runs, None).unwrap());
        let abouts = |page: &str| page.matches("<p>a &lt;b&gt; &amp; c</p>").count();
        let of_one = page(&runs);
        assert!(abouts(&of_one) == 1 && of_one.find("<p>a &lt;b") < of_one.find("<h2>"));
        runs[1].results.scenario = "another".to_owned();
        let of_two = page(&runs);
        assert!(abouts(&of_two) == 2 && of_two.find("<p>a &lt;b") > of_two.find("<h2>"));
    }

    #[test]
    fn programs_that_made_the_runs_are_named_and_pictures_have_a_text() {
        let mut runs = [run("one"), run("two"), run("three")];
        let page = |runs: &[Run]| html("t", runs, None, &figures(runs, None).unwrap());
        assert!(!page(&runs).contains("Made by"));
        runs.iter_mut().for_each(|run| run.results.program = "mrc 1 <a>".to_owned());
        assert!(page(&runs).contains("<p>Made by mrc 1 &lt;a&gt;.</p>"));
        runs[1].results.program = "mrc 2".to_owned();
        let page = page(&runs);
        assert!(page.contains("<p>Made by mrc 1 &lt;a&gt; (2 runs), mrc 2 (1 run).</p>"));
        let pictures = page.matches("<svg").count();
        assert_eq!(page.matches("<svg role=\"img\" aria-label=\"").count(), pictures);
        assert!(page.contains("aria-label=\"Distribution of flow completion times."));
    }

    #[test]
    fn the_page_is_whole_and_loads_nothing() {
        let runs = [run("one"), run("two & more")];
        let figures = figures(&runs, None).unwrap();
        assert!(figures.iter().any(|figure| figure.id == "fct-cdf"));
        let page = html("<title>", &runs, None, &figures);
        assert_eq!(page.matches("<svg").count(), figures.len());
        assert!(page.contains("a &lt;b&gt; &amp; c") && page.contains("&lt;title&gt;"));
        assert!(page.matches("<script>").count() == 1 && !page.contains("src=") && !page.contains("url("));
        for tag in ["table", "figure", "h2", "p"] {
            let (open, close) = (
                page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count(),
                page.matches(&format!("</{tag}>")).count(),
            );
            assert_eq!(open, close, "{tag}");
        }
    }
}
