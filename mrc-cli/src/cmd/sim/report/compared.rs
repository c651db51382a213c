//! The part of a page that compares the cases of an axis: verdicts, ratios by combination, all figures.

use std::fmt::Write as _;

use super::page::{escape, table};
use crate::cmd::sim::pool::Estimate;
use crate::cmd::sim::sweep::Without;
use crate::cmd::sim::verdict::{Case, Cell, EQUAL, Table, UNFINISHED};

/// All of it.
pub fn html(compared: &Table, without: &[Without]) -> String {
    let mut page = String::new();
    let (axis, (have, all)) = (escape(&compared.axis), compared.points);
    let mean = "the mean is the geometric one over the combinations";
    let _ = writeln!(
        page,
        "<h2 id=\"verdict\">Verdict by {axis}</h2>\n<p>{have} of {all} points. A case is compared, in each combination of the \
         other axes, with the best one there: by the time of an iteration of a collective, else by the 99th percentile of \
         completion times, or by goodput where runs end by plan; {mean}. A combination in which not every run came to its end \
         counts {UNFINISHED}; where that is so of every case, the combination is left out.</p>"
    );
    let rows = compared
        .cases
        .iter()
        .map(|case| vec![escape(&case.name), format!("<span class=\"text\">{}</span>", escape(&case.verdict()))]);
    page += &table(&[&compared.axis, "verdict"], rows);
    page += "<p>Times the best, by label:</p>\n";
    page += &by_label(compared);
    page += "<p>What they cost beside time, over their combinations: means; of states the largest.</p>\n";
    page += &costs(&compared.cases);
    for without in without {
        let _ = writeln!(page, "<p>Left out: {}.</p>", escape(&without.why));
    }
    let _ = writeln!(page, "<h2 id=\"ratios\">Times the best, by combination</h2>");
    page += &ratios(compared);
    let _ = writeln!(
        page,
        "<h2 id=\"cells\">All combinations</h2>\n<p>Means over the seeds with 95 % confidence intervals, of the runs that \
         came to their end. Share: what data was offered to links with a fault, of their even share, while it lasted; left: when \
         that fell below a tenth for good.</p>"
    );
    page + &cells(compared)
}

/// A ratio as a cell whose colour tells it.
fn ratio(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) => {
            let class = match value {
                value if value <= EQUAL => "r0",
                value if value <= 1.25 => "r1",
                value if value <= 2.0 => "r2",
                value if value <= 4.0 => "r3",
                _ => "r4",
            };
            format!("<span class=\"{class}\">{value:.2}</span>")
        }
    }
}

fn by_label(compared: &Table) -> String {
    let mut head = vec![&compared.axis[..], "all"];
    head.extend(compared.labels.iter().flat_map(|(_, labels)| labels.iter().map(String::as_str)));
    let rows = compared.cases.iter().map(|case| {
        let by_label = case.by_label.iter().map(|&value| ratio(value));
        [escape(&case.name), ratio(Some(case.mean))].into_iter().chain(by_label).collect()
    });
    table(&head, rows)
}

fn costs(cases: &[Case]) -> String {
    let head = [
        "",
        "reordered, %",
        "retransmitted, %",
        "headers, % of payload",
        "control, % of payload",
        "probes per 1000 packets",
        "switch messages per 1000",
        "state of a queue pair, bytes",
        "state of a switch, bytes",
    ];
    let rows = cases.iter().map(|case| {
        let costs = case.costs;
        vec![
            escape(&case.name),
            format!("{:.2}", costs.reordered_percent),
            format!("{:.3}", costs.retransmitted_percent),
            format!("{:.2}", costs.header_percent),
            format!("{:.2}", costs.control_percent),
            format!("{:.1}", costs.probes_permille),
            format!("{:.1}", costs.switch_messages_permille),
            format!("{:.0}", costs.queue_pair_bytes),
            format!("{:.0}", costs.switch_bytes),
        ]
    });
    table(&head, rows)
}

/// A table for each label of the first of the other axes; the others are its columns.
fn ratios(compared: &Table) -> String {
    let mut text = String::new();
    let Some((_, panels)) = compared.labels.first() else { return text };
    for panel in panels {
        let mut columns: Vec<&[String]> = Vec::new();
        let here = || compared.cells.iter().filter(|cell| cell.at.first() == Some(panel));
        for cell in here() {
            if !columns.contains(&&cell.at[1..]) {
                columns.push(&cell.at[1..]);
            }
        }
        let names: Vec<String> = columns.iter().map(|column| column.join(" ")).collect();
        let head: Vec<&str> = std::iter::once(&panel[..]).chain(names.iter().map(String::as_str)).collect();
        let rows = compared.cases.iter().map(|case| {
            let cell = |column: &&[String]| {
                let cell = here().find(|cell| cell.case == case.name && cell.at[1..] == **column);
                match cell {
                    Some(cell) if !cell.has_ended() => {
                        let (runs, ended) = (cell.figures.runs, cell.figures.ended());
                        format!("<span class=\"bad\">{ended} of {runs}</span>")
                    }
                    cell => ratio(cell.and_then(|cell| cell.ratio)),
                }
            };
            std::iter::once(escape(&case.name)).chain(columns.iter().map(cell)).collect()
        });
        text += &table(&head, rows);
    }
    text
}

fn cells(compared: &Table) -> String {
    let mut head = vec![&compared.axis[..]];
    head.extend(compared.labels.iter().map(|(name, _)| &name[..]));
    head.extend([
        "ended",
        "times the best",
        "mean FCT, us",
        "p99, us",
        "goodput, Gb/s",
        "reordered, %",
        "retransmitted, %",
        "headers, %",
        "control, %",
        "probes / 1000",
        "switch messages / 1000",
        "QP, bytes",
        "switch, bytes",
        "share, %",
        "left, us",
    ]);
    let text = |value: Option<Estimate>, digits| value.map_or_else(|| "-".to_owned(), |value| value.text(digits));
    let mean = |value: Option<Estimate>| value.map_or_else(|| "-".to_owned(), |value| format!("{:.0}", value.mean));
    let row = |cell: &Cell| {
        let one = &cell.figures;
        let left = match (one.stayed, one.leave_us) {
            (0, leave) => text(leave, 0),
            (stayed, _) => format!("{stayed} of {} stay", one.runs),
        };
        let mut row = vec![escape(&cell.case)];
        row.extend(cell.at.iter().map(|label| escape(label)));
        row.extend([
            match one.planned {
                0 => format!("{} of {}", one.complete, one.runs),
                planned => format!("{} of {}, {planned} by plan", one.ended(), one.runs),
            },
            ratio(cell.ratio.filter(|_| cell.has_ended())),
            text(one.fct_mean_us, 1),
            text(one.fct_p99_us, 1),
            text(one.goodput_gbit_per_s, 1),
            text(one.reordered_percent, 2),
            text(one.retransmitted_percent, 3),
            text(one.header_percent, 2),
            text(one.control_percent, 2),
            text(one.probes_permille, 1),
            text(one.switch_messages_permille, 1),
            mean(one.queue_pair_bytes),
            mean(one.switch_bytes),
            text(one.bad_share_percent, 1),
            left,
        ]);
        row
    };
    table(&head, compared.cells.iter().map(row))
}
