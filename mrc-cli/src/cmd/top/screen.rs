//! The screen of `mrc top`.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};

use super::columns::{Column, Columns, number, words};
use super::model::Model;

const TITLE: Style = Style::new().add_modifier(Modifier::BOLD);
const GOOD: Style = Style::new().fg(Color::Green);
const BAD: Style = Style::new().fg(Color::Red);
const WARN: Style = Style::new().fg(Color::Yellow);

/// Paths that are shown of a queue pair.
const MOST_PATHS: usize = 16;

/// Columns that the states of paths have at least.
const PATHS_WIDTH: u16 = 14;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, model: &Model) {
    let (devices, planes) = (model.devices().len() as u16, model.planes().len() as u16);
    let paths = model.paths().map_or(0, |(_, paths)| paths.len().min(MOST_PATHS) as u16 + 2);
    let rows = [
        Constraint::Length(1),
        Constraint::Length(devices.clamp(1, 8) + 2),
        Constraint::Length(planes.max(1) + 2),
        Constraint::Min(5),
        Constraint::Length(paths),
        Constraint::Length(8),
        Constraint::Length(1),
    ];
    let [head, device_area, plane_area, qp_area, path_area, below, foot] = Layout::vertical(rows).areas(frame.area());
    header(frame, head, model);
    device_table(frame, device_area, model);
    let planes = plane_table(model);
    // Room for the states of paths stays.
    let least = (planes.least_width() + 1).min(plane_area.width.saturating_sub(PATHS_WIDTH));
    let width = least.max((u32::from(plane_area.width) * 62 / 100) as u16);
    let [left, right] = Layout::horizontal([Constraint::Length(width), Constraint::Min(0)]).areas(plane_area);
    planes.draw(frame, left, 1, TITLE, block("planes".into()));
    ev_map(frame, right, model);
    qp_table(frame, qp_area, model);
    path_table(frame, path_area, model);
    let [left, right] = Layout::horizontal([Constraint::Percentage(38), Constraint::Percentage(62)]).areas(below);
    discards(frame, left, model);
    events(frame, right, model);
    footer(frame, foot, model);
}

fn block(title: String) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(Span::styled(title, TITLE))
}

/// Hours, minutes and seconds of UTC.
fn clock(unix_ms: u64) -> String {
    let second = unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}.{:01}", second / 3600, second / 60 % 60, second % 60, unix_ms % 1000 / 100)
}

fn header(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let state = if model.paused() { Span::styled("PAUSED", WARN) } else { Span::raw("") };
    let count = model.devices().len();
    let line = format!("mrc top  {} UTC  {}  ", clock(model.unix_ms()), crate::out::count(count, "device"));
    let silent = match model.silent() {
        [] => String::new(),
        names => format!("no answer from {}  ", names.join(", ")),
    };
    let refused = model.refused().map(|why| format!("{why}  ")).unwrap_or_default();
    let spans = vec![Span::styled(line, TITLE), Span::styled(silent, BAD), state, Span::styled(refused, BAD)];
    frame.render_widget(Line::from(spans), area);
}

fn footer(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let text = if model.is_typing() {
        format!("filter: {}_", model.filter())
    } else {
        "q quit  p pause  Tab device  s sort  r reverse  / filter  arrows scroll, step while paused".to_owned()
    };
    frame.render_widget(Line::raw(text), area);
}

fn device_table(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let all = model.devices();
    if all.is_empty() {
        let text = model.refused().unwrap_or("no program that this user may ask has a device open");
        frame.render_widget(Paragraph::new(text).block(block("devices".into())), area);
        return;
    }
    let chosen = model.device().map(|device| device.name.clone());
    let rows = all.into_iter().map(|row| {
        let style = if Some(&row.name) == chosen.as_ref() {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        let denied = if row.denied { "denied" } else { "" };
        let cells = [
            row.name,
            row.host,
            row.command,
            format!("{:.3}", row.tx_gbit),
            format!("{:.3}", row.rx_gbit),
            format!("{:.0}", row.retransmitted),
            format!("{:.0}", row.discards),
            row.qps.to_string(),
            denied.to_owned(),
        ];
        (style, cells.map(Span::raw).to_vec())
    });
    const COLUMNS: &[Column] = &[
        words("process", 14, 0),
        words("host", 8, 3),
        words("command", 14, 8),
        number("tx Gb/s", 9, 1),
        number("rx Gb/s", 9, 2),
        number("resent/s", 10, 5),
        number("discard/s", 9, 6),
        number("QPs", 6, 7),
        words("", 7, 4),
    ];
    Columns::new(COLUMNS, rows).draw(frame, area, 0, TITLE, block("devices".into()));
}

fn plane_table(model: &Model) -> Columns<'static> {
    let rows = model.planes().into_iter().enumerate().map(|(number, row)| {
        let style = match row.state {
            "up" => GOOD,
            "DENIED" => WARN,
            _ => BAD,
        };
        let cells = [
            Span::raw(format!("{number} {}", row.interface)),
            Span::styled(row.state, style),
            Span::raw(format!("{:.3}", row.tx_gbit)),
            Span::raw(format!("{:.3}", row.rx_gbit)),
            Span::raw(format!("{:.0}", row.tx_packets)),
            Span::raw(format!("{:.0}", row.rx_packets)),
            Span::raw(row.dropped.to_string()),
        ];
        (Style::new(), cells.to_vec())
    });
    const COLUMNS: &[Column] = &[
        words("plane", 10, 0),
        words("state", 6, 0),
        number("tx Gb/s", 8, 1),
        number("rx Gb/s", 8, 2),
        number("tx p/s", 8, 4),
        number("rx p/s", 8, 5),
        number("dropped", 7, 3),
    ];
    Columns::new(COLUMNS, rows)
}

/// A letter per entropy value, a row per plane: what all queue pairs together know of it.
fn ev_map(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let Some(device) = model.device() else { return };
    let profile = device.state.profiles.iter().max_by_key(|profile| profile.users);
    let mut lines = Vec::new();
    for plane in 0..device.state.counters.planes.len() {
        let evs = profile.iter().flat_map(|profile| &profile.evs).filter(|ev| usize::from(ev.plane) == plane);
        let mut spans = vec![Span::raw(format!("{plane} "))];
        spans.extend(evs.map(|ev| match ev.state.as_str() {
            "GOOD" => Span::styled("o", GOOD),
            "ASSUMED_BAD" => Span::styled("X", BAD),
            "DENIED" => Span::styled("d", WARN),
            _ => Span::raw("?"),
        }));
        lines.push(Line::from(spans));
    }
    lines.insert(0, Line::styled("o good  X bad  d denied", TITLE));
    let title =
        profile.map_or("EVs".to_owned(), |profile| format!("EVs of profile {} ({} QPs)", profile.index, profile.users));
    frame.render_widget(Paragraph::new(lines).block(block(title)), area);
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{} kB", count / 1000),
        _ => format!("{} MB", count / 1_000_000),
    }
}

fn qp_table(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let (all, total) = model.qps();
    let room = usize::from(area.height.saturating_sub(2));
    let rows = all.iter().skip(model.scrolled()).take(room).map(|row| {
        let [good, skip, bad, denied, active] = row.evs;
        let style = if row.state == "ERROR" { BAD } else { Style::new() };
        let cells = [
            Span::raw(format!("{:#08x}", row.qpn)),
            Span::styled(row.state.clone(), style),
            Span::raw(format!("{:.3}", row.tx_gbit)),
            Span::raw(format!("{:.3}", row.rx_gbit)),
            Span::raw(row.cwnd_bytes.map_or_else(|| "-".to_owned(), bytes)),
            Span::raw(row.rtt_us.map_or_else(|| "-".to_owned(), |rtt| format!("{rtt:.1}"))),
            Span::raw(format!("{:.0}", row.retransmitted)),
            Span::styled(format!("{good}/{skip}/{bad}/{denied} ({active})"), if bad > 0 { WARN } else { Style::new() }),
        ];
        (Style::new(), cells.to_vec())
    });
    const COLUMNS: &[Column] = &[
        words("QP", 9, 0),
        words("state", 6, 0),
        number("tx Gb/s", 9, 1),
        number("rx Gb/s", 9, 2),
        number("window", 9, 6),
        number("rtt us", 9, 5),
        number("resent/s", 9, 4),
        words("good/skip/bad/denied (active)", 30, 3),
    ];
    let order = if model.reversed() { ", reversed" } else { "" };
    let filter = if model.filter().is_empty() { String::new() } else { format!(", filter {}", model.filter()) };
    let title = format!("queue pairs: {} of {total}, by {}{order}{filter}", all.len(), model.sort().name());
    Columns::new(COLUMNS, rows).draw(frame, area, 0, TITLE, block(title));
}

/// Loads of paths, where the selector keeps them.
fn path_table(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let Some((qpn, paths)) = model.paths() else { return };
    let rows = paths.iter().take(MOST_PATHS).map(|path| {
        let style = match path.state.as_str() {
            "GOOD" => GOOD,
            "DENIED" => WARN,
            _ => BAD,
        };
        let cells = [
            Span::raw(path.name.clone()),
            Span::styled(path.state.clone(), style),
            Span::raw(format!("{:.1}", f64::from(path.delay_ns) / 1e3)),
            Span::raw(path.bandwidth_mbps.to_string()),
            Span::raw(bytes(path.load_bytes.into())),
            Span::raw(path.placed_packets.to_string()),
            Span::raw(if path.telemetry { "telemetry" } else { "round trips" }),
        ];
        (Style::new(), cells.to_vec())
    });
    const COLUMNS: &[Column] = &[
        words("path", 9, 0),
        words("state", 11, 0),
        number("delay us", 9, 1),
        number("Mb/s", 9, 3),
        number("load", 9, 2),
        number("placed", 7, 4),
        words("from", 11, 5),
    ];
    let title = format!("paths of {qpn:#08x}");
    Columns::new(COLUMNS, rows).draw(frame, area, 0, TITLE, block(title));
}

fn discards(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let Some(device) = model.device() else { return };
    let mut all: Vec<(&String, &u64)> = device.state.counters.discards.iter().collect();
    all.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), (*name).clone()));
    let lines: Vec<Line<'_>> = all.iter().map(|(name, count)| Line::raw(format!("{count:>10} {name}"))).collect();
    frame.render_widget(Paragraph::new(lines).block(block("discards".into())), area);
}

fn events(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let room = usize::from(area.height.saturating_sub(1));
    let lines: Vec<Line<'_>> =
        model.events().take(room).map(|event| Line::raw(format!("{} {}", clock(event.unix_ms), event.text))).collect();
    frame.render_widget(Paragraph::new(lines).block(block("events, newest first".into())), area);
}
