//! The path selectors side by side, as SVG: `cargo run --release -p mrc-sim --example selectors > docs/selectors.svg`.

#[path = "../tests/selectors/experiment.rs"]
#[allow(dead_code, reason = "the test uses the rest")]
mod experiment;

use std::fmt::Write as _;

use experiment::{Setup, US, all, run};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 60.0;
/// Of one panel.
const HEIGHT: f64 = 210.0;
const COLORS: [&str; 5] = ["#1f5aa0", "#1e823c", "#d07a10", "#8a8a8a", "#be2828"];

fn main() {
    let setup = Setup { run: 500 * US, samples: 50, ..Setup::DEFAULT };
    let bin_us = setup.run / setup.samples as u64 / US;
    let names = all().map(|(name, _)| name);
    let outcomes = all().map(|(_, selector)| run(selector, &setup));
    let goodput: Vec<Vec<f64>> =
        outcomes.iter().map(|outcome| (0..setup.samples).map(|n| outcome.gbps(&setup, n..n + 1)).collect()).collect();
    let share: Vec<Vec<f64>> = outcomes
        .iter()
        .map(|outcome| (0..setup.samples).map(|n| outcome.on_slow(n..n + 1) * 100.0).collect())
        .collect();
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {}" font-family="sans-serif" font-size="13">
<rect width="100%" height="100%" fill="#fff"/>"##,
        2.0 * HEIGHT + 136.0
    );
    panel(&mut svg, 50.0, "goodput, Gb/s", 110.0, &goodput, &setup);
    panel(&mut svg, 90.0 + HEIGHT, "% of bytes that leave on the slow link", 110.0, &share, &setup);
    for (nth, (name, color)) in names.iter().zip(COLORS).enumerate() {
        let x = LEFT + 10.0 + 130.0 * nth as f64;
        let _ = writeln!(
            svg,
            r##"<path d="M{x} 24h26" stroke="{color}" stroke-width="3"/><text x="{}" y="29">{name}</text>"##,
            x + 32.0
        );
    }
    let _ = writeln!(
        svg,
        r##"<text x="{}" y="{}" text-anchor="end">microseconds, bins of {bin_us}; path 0 goes from 100 to 10 Gb/s at 200</text>"##,
        WIDTH - 10.0,
        2.0 * HEIGHT + 126.0
    );
    svg.push_str("</svg>\n");
    print!("{svg}");
}

/// One line per selector over time, below a title at `top`.
fn panel(svg: &mut String, top: f64, title: &str, most: f64, lines: &[Vec<f64>], setup: &Setup) {
    let (x_step, bottom) = ((WIDTH - LEFT - 20.0) / setup.samples as f64, top + HEIGHT);
    let y = |value: f64| bottom - (value / most).min(1.0) * (HEIGHT - 24.0);
    let _ = writeln!(svg, r##"<text x="{LEFT}" y="{}" font-weight="bold">{title}</text>"##, top + 10.0);
    for grid in [0.0, 25.0, 50.0, 75.0, 100.0] {
        let at = y(grid);
        let _ = writeln!(
            svg,
            r##"<path d="M{LEFT} {at:.1}H{}" stroke="#ddd"/><text x="{}" y="{:.1}" text-anchor="end">{grid}</text>"##,
            WIDTH - 20.0,
            LEFT - 8.0,
            at + 4.0
        );
    }
    for us in (0..=setup.run / US).step_by(100) {
        let x = LEFT + x_step * setup.samples as f64 * us as f64 / (setup.run / US) as f64;
        let _ = writeln!(svg, r##"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{us}</text>"##, bottom + 16.0);
    }
    for (line, color) in lines.iter().zip(COLORS) {
        let mut path = String::new();
        for (nth, &value) in line.iter().enumerate() {
            let x = LEFT + x_step * (nth as f64 + 0.5);
            let _ = write!(path, "{}{x:.1} {:.1}", if nth == 0 { 'M' } else { 'L' }, y(value));
        }
        let _ = writeln!(svg, r##"<path d="{path}" fill="none" stroke="{color}" stroke-width="2"/>"##);
    }
}
