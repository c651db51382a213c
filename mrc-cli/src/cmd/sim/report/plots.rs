//! The pictures of a report, as SVG text.

use anyhow::anyhow;
use mrc_sim::run::{QueueSample, Results};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

/// Of a plot with a legend of up to 15 names; more make it higher.
const SIZE: (u32, u32) = (860, 320);

/// Lines that one plot can hold.
pub const MOST_LINES: usize = 8;
/// As many where colour and dashes mean one thing each.
pub const MOST_PAIRS: usize = 16;

/// Width of a legend, and letters of a name that it has room for.
const LEGEND: u32 = 190;
const MOST_LETTERS: usize = 23;

/// Height of the middle of its first name, and from name to name.
const LEGEND_TOP: u32 = 22;
const LEGEND_LINE: u32 = 20;

/// So few points are marked each.
const FEW: usize = 20;

/// From bar to bar of lines that have a point at the same x, and half the width of a bar's end, in pixels.
const BAR_APART: f64 = 4.0;
const BAR_END: i32 = 2;

/// Colours that remain apart in print and for most eyes (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(120, 120, 120),
];

/// A named line.
#[derive(Debug)]
pub struct Line {
    /// For the legend.
    pub name: String,
    /// Points in order of x.
    pub points: Vec<(f64, f64)>,
    /// Points of runs that did not complete, drawn as crosses beside the line: their value is of what completed. `None`
    /// when nothing did; the cross then stands at the upper edge.
    pub unfinished: Vec<(f64, Option<f64>)>,
    /// Half the width of the confidence interval at points, by x.
    pub bars: Vec<(f64, f64)>,
    /// How it looks, where several lines belong together; otherwise each has a colour of its own.
    pub look: Option<Look>,
}

/// Colour and dashes of a line, by number; solid first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// Equal for lines that differ in one thing only.
    pub colour: usize,
    /// And this tells them apart.
    pub dashes: usize,
}

impl Line {
    /// A line with a colour of its own.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, unfinished: Vec::new(), bars: Vec::new(), look: None }
    }

    /// Points with an interval, and its ends.
    fn bar_ends(&self) -> impl Iterator<Item = ((f64, f64), (f64, f64))> {
        let at = |x: f64| self.points.iter().find(|point| point.0 == x).map(|point| point.1);
        self.bars.iter().filter_map(move |&(x, half)| at(x).map(|y| ((x, y), (y - half, y + half))))
    }

    /// Colour, and dashes with the gaps between them, as the `nth` of its plot.
    fn style(&self, nth: usize) -> (RGBColor, (i32, i32)) {
        let look = self.look.unwrap_or(Look { colour: nth, dashes: nth / COLOURS.len() });
        (COLOURS[look.colour % COLOURS.len()], DASHES[look.dashes % DASHES.len()])
    }
}

/// Lengths of dash and gap, in pixels; the first is a line without gaps.
pub const DASHES: [(i32, i32); 4] = [(0, 0), (7, 4), (2, 4), (20, 5)];

/// What one plot shows of its lines.
#[derive(Debug)]
pub struct Shown {
    /// Those that are drawn.
    pub lines: Vec<Line>,
    /// How many there are.
    pub of: usize,
}

impl Shown {
    /// All lines, or [`MOST_LINES`] of them: more cannot be told apart.
    pub fn of(count: usize, line: impl FnMut(usize) -> Line) -> Self {
        Self { lines: spread(count, MOST_LINES).map(line).collect(), of: count }
    }

    /// Says so where lines are left out.
    pub fn note(&self) -> Option<String> {
        (self.lines.len() < self.of).then(|| format!("{} of {} lines shown", self.lines.len(), self.of))
    }
}

impl<const N: usize> From<[Line; N]> for Shown {
    fn from(lines: [Line; N]) -> Self {
        Self { lines: lines.into(), of: N }
    }
}

/// At most `most` of the numbers below `count`: the first, the last, and those between at even distances.
pub fn spread(count: usize, most: usize) -> impl Iterator<Item = usize> {
    let shown = count.min(most);
    (0..shown).map(move |nth| if shown < count { nth * (count - 1) / (shown - 1).max(1) } else { nth })
}

/// Axes of a plot.
pub struct Axes<'a> {
    /// Below.
    pub x: &'a str,
    /// Left.
    pub y: &'a str,
    /// A logarithmic x axis.
    pub log_x: bool,
    /// A logarithmic y axis, for values above 0.
    pub log_y: bool,
}

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(size: (u32, u32), act: impl FnOnce(&Canvas<'_>) -> anyhow::Result<()>) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE).map_err(|error| anyhow!("{error}"))?;
        act(&root)?;
        root.present().map_err(|error| anyhow!("{error}"))?;
    }
    Ok(scalable(&svg, size))
}

/// Lets the page choose the width.
fn scalable(svg: &str, (width, height): (u32, u32)) -> String {
    let fixed = format!("width=\"{width}\" height=\"{height}\"");
    svg.replacen(&fixed, "width=\"100%\" preserveAspectRatio=\"xMidYMid meet\"", 1)
}

/// Lines over a common x axis; `None` when there is nothing to show.
pub fn lines(axes: &Axes<'_>, shown: &Shown) -> anyhow::Result<Option<String>> {
    let lines = &shown.lines[..];
    let crosses = |line: &Line| line.unfinished.clone().into_iter().filter_map(|(x, y)| Some((x, y?)));
    let all = || lines.iter().flat_map(|line| line.points.iter().copied().chain(crosses(line)));
    let finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    let highest = all().filter(finite).map(|(_, y)| y).max_by(f64::total_cmp);
    let lone = lines.iter().flat_map(|line| &line.unfinished).any(|(x, _)| x.is_finite());
    let Some(top) = highest.or(lone.then_some(1.0)) else { return Ok(None) };
    // Room for the intervals, but not so much that one of two seeds hides all differences.
    let bar_ends = lines.iter().flat_map(|line| line.bar_ends().map(|(_, ends)| ends.1)).filter(|end| end.is_finite());
    let top = bar_ends.fold(top, f64::max).min(2.0 * top.max(0.0));
    let (mut left, mut right) = (f64::INFINITY, f64::NEG_INFINITY);
    let at_edge = lines.iter().flat_map(|line| line.unfinished.iter().map(|&(x, _)| (x, 0.0)));
    for (x, _) in all().chain(at_edge).filter(finite) {
        (left, right) = (left.min(x), right.max(x));
    }
    if axes.log_x {
        left = left.max(1e-3);
    }
    // A logarithmic axis has nothing to write on where the ends are this near.
    let log_x = axes.log_x && right > 3.0 * left;
    if right <= left {
        (left, right) = (left - 0.5, left + 0.5);
    } else if log_x {
        let room = (right / left).powf(0.02);
        (left, right) = (left / room, right * room);
    } else if axes.log_x {
        let room = (right - left) * 0.02;
        (left, right) = (left - room, right + room);
    }
    let top = if top > 0.0 { top * 1.05 } else { 1.0 };
    let bottom = all().filter(finite).map(|(_, y)| y / 1.05).fold(top, f64::min);
    let barred = lines.iter().filter(|line| !line.bars.is_empty()).count();
    let log_y = axes.log_y && bottom > 0.0;
    let names = lines.len() + usize::from(shown.note().is_some());
    let size = (SIZE.0, SIZE.1.max(LEGEND_TOP + LEGEND_LINE * names as u32));
    // Where points are, for what a browser shows when the pointer is on them.
    let mut hints: Vec<((i32, i32), String)> = Vec::new();
    let ticks = |log: bool, ends: (f64, f64), values: &mut dyn Iterator<Item = f64>| match log {
        true => log_ticks(ends.0, ends.1, values),
        false => Vec::new(),
    };
    let x_ticks = ticks(log_x, (left, right), &mut all().map(|(x, _)| x));
    let y_ticks = ticks(log_y, (bottom, top), &mut std::iter::once(3.0));
    let svg = draw(size, |root| {
        // Beside the plot a legend hides nothing.
        let (plot, names) = root.split_horizontally(SIZE.0 - if lines.len() > 1 { LEGEND } else { 0 });
        let mut builder = ChartBuilder::on(&plot);
        builder.margin(12).margin_right(24).x_label_area_size(38).y_label_area_size(64);
        macro_rules! chart {
            ($x:expr, $y:expr) => {{
                let mut chart = builder.build_cartesian_2d($x, $y).map_err(|error| anyhow!("{error}"))?;
                chart
                    .configure_mesh()
                    .x_desc(axes.x)
                    .y_desc(axes.y)
                    .light_line_style(WHITE.mix(0.0))
                    .bold_line_style(BLACK.mix(0.12))
                    .x_labels(12)
                    .x_label_formatter(&|x| number(*x))
                    .y_label_formatter(&|y| number(*y))
                    .draw()
                    .map_err(|error| anyhow!("{error}"))?;
                for (nth, line) in lines.iter().enumerate() {
                    let (colour, (dash, gap)) = line.style(nth);
                    let style = colour.stroke_width(2);
                    let points = line.points.iter().copied().filter(finite).filter(|(x, _)| !log_x || *x > 0.0);
                    if gap == 0 {
                        chart.draw_series(LineSeries::new(points, style)).map_err(|error| anyhow!("{error}"))?;
                    } else {
                        let series = DashedLineSeries::new(points, dash, gap, style);
                        chart.draw_series(series).map_err(|error| anyhow!("{error}"))?;
                    }
                    if line.points.len() <= FEW {
                        let dots = line
                            .points
                            .iter()
                            .filter(|point| finite(point))
                            .map(|at| Circle::new(*at, 4, colour.filled()));
                        chart.draw_series(dots).map_err(|error| anyhow!("{error}"))?;
                    }
                    let floor = if log_y { bottom } else { 0.0 };
                    let aside = aside(lines, nth, barred);
                    for ((x, _), (low, high)) in line.bar_ends().filter(|(at, _)| finite(at) && (!log_x || at.0 > 0.0))
                    {
                        let bar = interval(low, high, (floor, top), |y| chart.backend_coord(&(x, y)), aside);
                        for stroke in bar {
                            let stroke = PathElement::new(stroke, colour.stroke_width(1));
                            plot.draw(&stroke).map_err(|error| anyhow!("{error}"))?;
                        }
                    }
                    for nth in spread(line.points.len(), FEW) {
                        let Some(&(x, y)) = line.points.get(nth).filter(|point| finite(point)) else { continue };
                        let half =
                            line.bars.iter().find(|bar| bar.0 == x).map(|bar| format!(" \u{b1} {}", number(bar.1)));
                        let text = format!("{}: {}, {}{}", line.name, number(x), number(y), half.unwrap_or_default());
                        hints.push((chart.backend_coord(&(x, y)), text));
                    }
                    let marks = line.unfinished.iter().map(|&(x, y)| (x, y.unwrap_or(top))).filter(finite);
                    let marks = marks.map(|at| Cross::new(at, 6, colour.stroke_width(2)));
                    chart.draw_series(marks).map_err(|error| anyhow!("{error}"))?;
                }
            }};
        }
        match (log_x, log_y) {
            (false, false) => chart!(left..right, 0.0..top),
            (false, true) => chart!(left..right, (bottom..top).log_scale().with_key_points(y_ticks)),
            (true, false) => chart!((left..right).log_scale().with_key_points(x_ticks), 0.0..top),
            (true, true) => chart!(
                (left..right).log_scale().with_key_points(x_ticks),
                (bottom..top).log_scale().with_key_points(y_ticks)
            ),
        }
        if lines.len() > 1 { legend(&names, shown) } else { Ok(()) }
    })?;
    Ok(Some(hinted(svg, &hints)))
}

/// How far the bars of the `nth` line stand beside its points, in pixels, so that no bar hides that of another line.
fn aside(lines: &[Line], nth: usize, barred: usize) -> i32 {
    let before = lines[..nth].iter().filter(|line| !line.bars.is_empty()).count();
    ((before as f64 - (barred.max(1) - 1) as f64 / 2.0) * BAR_APART).round() as i32
}

/// The strokes of a confidence interval: from its low to its high end, with a stroke across each end. An end beyond the `axis` has
/// none: the bar goes on there.
fn interval(
    low: f64,
    high: f64,
    axis: (f64, f64),
    place: impl Fn(f64) -> (i32, i32),
    aside: i32,
) -> Vec<Vec<(i32, i32)>> {
    let at = |y: f64| {
        let (x, y) = place(y.clamp(axis.0, axis.1));
        (x + aside, y)
    };
    let ends = [low, high].into_iter().filter(|end| (axis.0..=axis.1).contains(end)).map(at);
    let across = ends.map(|(x, y)| vec![(x - BAR_END, y), (x + BAR_END, y)]);
    [vec![at(low), at(high)]].into_iter().chain(across).collect()
}

/// Adds to a picture what a browser shows at its points.
fn hinted(mut svg: String, hints: &[((i32, i32), String)]) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let hint = |((x, y), text): &((i32, i32), String)| {
        format!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"9\" fill=\"#000\" fill-opacity=\"0\"><title>{}</title></circle>\n",
            escape(text)
        )
    };
    let all: String = hints.iter().map(hint).collect();
    if let Some(end) = svg.rfind("</svg>") {
        svg.insert_str(end, &all);
    }
    svg
}

/// The names of lines below each other.
fn legend(area: &Canvas<'_>, shown: &Shown) -> anyhow::Result<()> {
    let write =
        |text: String, at| area.draw(&Text::new(text, at, ("sans-serif", 12))).map_err(|error| anyhow!("{error}"));
    let mut places = (LEGEND_TOP as i32..).step_by(LEGEND_LINE as usize);
    for ((nth, line), y) in shown.lines.iter().enumerate().zip(&mut places) {
        let (colour, (dash, gap)) = line.style(nth);
        let (ends, style) = ([(0, y), (45, y)], colour.stroke_width(2));
        if gap == 0 {
            area.draw(&PathElement::new(ends, style)).map_err(|error| anyhow!("{error}"))?;
        } else {
            area.draw(&DashedPathElement::new(ends, dash, gap, style)).map_err(|error| anyhow!("{error}"))?;
        }
        // The end of a name tells more than its begin: points of a sweep end in what changes most.
        let from = line.name.char_indices().rev().nth(MOST_LETTERS - 1).map_or(0, |(at, _)| at);
        let name = if from == 0 { line.name.clone() } else { format!("\u{2026}{}", &line.name[from..]) };
        write(name, (51, y - 6))?;
    }
    match (shown.note(), places.next()) {
        (Some(note), Some(y)) => write(note, (0, y - 6)),
        _ => Ok(()),
    }
}

/// The fullest queue of each tier over time, as a band of colour per tier.
pub fn heat(results: &Results) -> anyhow::Result<Option<String>> {
    let timeline = &results.timeline;
    let all: [(&str, &[QueueSample]); 5] = [
        ("T0 to T1", &timeline.queue_t0_up),
        ("T1 to T2", &timeline.queue_t1_up),
        ("T2 to T1", &timeline.queue_t2_down),
        ("T1 to T0", &timeline.queue_t1_down),
        ("T0 to host", &timeline.queue_t0_down),
    ];
    // A fabric of two tiers has no third one.
    let tiers: Vec<_> = all.into_iter().filter(|(_, samples)| !samples.is_empty()).collect();
    let rows = tiers.len();
    let most = tiers.iter().flat_map(|(_, samples)| samples.iter().map(|sample| sample.max_bytes)).max().unwrap_or(0);
    let (Some(&end), true) = (timeline.at_us.last(), most > 0) else { return Ok(None) };
    let size = (SIZE.0, 70 + 40 * rows as u32);
    let svg = draw(size, |root| {
        let mut chart = ChartBuilder::on(root)
            .margin(12)
            .margin_right(24)
            .x_label_area_size(38)
            .y_label_area_size(84)
            .build_cartesian_2d(0.0..end.max(1e-3), 0.0..rows as f64)
            .map_err(|error| anyhow!("{error}"))?;
        let name = |y: &f64| {
            let tier = tiers.iter().rev().nth(*y as usize).filter(|_| y.fract() > 0.4);
            tier.map_or("", |tier| tier.0)
        };
        chart
            .configure_mesh()
            .disable_mesh()
            .x_desc(format!("time, us; full colour: {} bytes in the fullest port", number(most as f64)))
            .x_label_formatter(&|x| number(*x))
            .y_labels(2 * rows + 1)
            .y_label_formatter(&|y| name(y).to_owned())
            .draw()
            .map_err(|error| anyhow!("{error}"))?;
        for (row, (_, samples)) in tiers.iter().rev().enumerate() {
            let cells =
                timeline.at_us.windows(2).zip(samples.iter().skip(1)).filter(|(_, sample)| sample.max_bytes > 0);
            let cells = cells.map(|(span, sample)| {
                let share = sample.max_bytes as f64 / most as f64;
                let colour = RGBColor(213, 94, 0).mix(0.08 + 0.92 * share).filled();
                Rectangle::new([(span[0], row as f64 + 0.06), (span[1], row as f64 + 0.94)], colour)
            });
            chart.draw_series(cells).map_err(|error| anyhow!("{error}"))?;
        }
        Ok(())
    })?;
    Ok(Some(svg))
}

/// Short and exact enough for an axis.
pub fn number(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, " G"),
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let text = match scaled.abs() {
        v if v >= 100.0 => format!("{scaled:.0}"),
        v if v >= 0.1 => format!("{scaled:.2}"),
        _ => format!("{scaled:.6}"),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    let text = if text == "-0" { "0".to_owned() } else { text };
    text + suffix
}

/// Places for labels of a logarithmic axis: powers of two where all values are such, otherwise numbers that begin with 1, 2 or
/// 5, or with any digit where that leaves fewer than four.
fn log_ticks(low: f64, high: f64, mut values: impl Iterator<Item = f64>) -> Vec<f64> {
    let inside = |tick: &f64| (low..=high).contains(tick);
    let whole = |value: f64| value >= 1.0 && value.log2().fract() == 0.0;
    if values.all(whole) {
        let all: Vec<f64> = (0..64).map(|power| 2f64.powi(power)).filter(inside).collect();
        let step = all.len().div_ceil(12).max(1);
        return all.into_iter().step_by(step).collect();
    }
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let of = |digits: &[f64]| -> Vec<f64> {
        let all = decades.clone().flat_map(|decade| digits.iter().map(move |digit| digit * 10f64.powi(decade)));
        all.filter(inside).collect()
    };
    [&[1.0][..], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]]
        .into_iter()
        .map(of)
        .find(|ticks| ticks.len() >= 4)
        .unwrap_or_else(|| (0..5).map(|nth| low * (high / low).powf(f64::from(nth) / 4.0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithmic_axes_have_ticks_that_can_be_read() {
        let ticks = |low, high, values: &[f64]| log_ticks(low, high, values.iter().copied());
        assert_eq!(
            ticks(190.0, 1030.0, &[190.5, 1030.0]),
            [200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1000.0]
        );
        assert_eq!(ticks(3.9, 262.0, &[4.0, 16.0, 256.0]), [4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]);
        assert_eq!(ticks(0.9, 2e6, &[1.5]).len(), 7, "powers of ten where there are enough");
        assert!(ticks(100.0, 110.0, &[101.0, 109.0]).len() >= 4);
    }

    #[test]
    fn numbers_are_short() {
        let want = [
            (0.0, "0"),
            (1.0, "1"),
            (12.5, "12.5"),
            (999.6, "1000"),
            (25_000.0, "25 k"),
            (1.5e6, "1.5 M"),
            (0.001, "0.001"),
            (0.0025, "0.0025"),
            (-1e-17, "0"),
        ];
        for (value, text) in want {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_legend_stands_beside_the_plot_and_names_every_line() {
        let axes = Axes { x: "x", y: "y", log_x: false, log_y: false };
        let line = |name: &str| Line::new(name, vec![(0.0, 1.0), (9.0, 7.0)]);
        let svg = lines(&axes, &Shown::from([line("short"), line("a-name-of-a-point-tht-is-far-too-long-seed7")]))
            .unwrap()
            .unwrap();
        assert!(svg.contains("short") && svg.contains("\u{2026}t-is-far-too-long-seed7"), "{svg}");
        let drawn = svg.split("<polyline").skip(1).filter_map(|line| line.split("points=\"").nth(1)?.split('"').next());
        let right = drawn.filter(|points| points.contains(' ')).flat_map(|points| points.split_whitespace());
        let xs: Vec<u32> = right.filter_map(|point| point.split(',').next()?.parse().ok()).collect();
        let (plot, names): (Vec<u32>, Vec<u32>) = xs.iter().partition(|&&x| x < SIZE.0 - LEGEND);
        assert!(plot.len() >= 4 && names.len() == 4, "{xs:?}");
    }

    #[test]
    fn a_legend_has_room_for_every_line() {
        let axes = Axes { x: "x", y: "y", log_x: false, log_y: false };
        let looks = (0..MOST_PAIRS).map(|nth| Look { colour: nth / DASHES.len(), dashes: nth % DASHES.len() });
        let line = |look| Line { look: Some(look), ..Line::new("name", vec![(0.0, 1.0), (9.0, 7.0)]) };
        let svg = lines(&axes, &Shown { lines: looks.map(line).collect(), of: 99 }).unwrap().unwrap();
        let height: u32 = svg.split("viewBox=\"0 0 860 ").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        let texts =
            svg.split("<text ").skip(1).filter_map(|text| text.split("y=\"").nth(1)?.split('"').next()?.parse().ok());
        let lowest: u32 = texts.max().unwrap();
        assert!(svg.contains("16 of 99 lines shown") && lowest + 12 <= height, "{lowest} of {height}");
    }

    #[test]
    fn the_labels_of_a_logarithmic_axis_have_room_and_a_short_one_is_linear() {
        let axes = Axes { x: "x", y: "y", log_x: true, log_y: true };
        let texts = |low: f64, high: f64| {
            let line = Line::new("name", vec![(low, low), (high, high)]);
            let svg = lines(&axes, &Shown::from([line])).unwrap().unwrap();
            let text = |text: &str| text.split('>').nth(1)?.split('<').next().map(|text| text.trim().to_owned());
            svg.split("<text ").skip(1).filter_map(text).collect::<Vec<_>>()
        };
        let wide = texts(86.0, 1900.0);
        for (label, there) in
            [("100", true), ("200", true), ("500", true), ("1000", true), ("900", false), ("800", false)]
        {
            assert_eq!(wide.iter().any(|text| text == label), there, "{label}: {wide:?}");
        }
        let narrow = texts(105.0, 119.0);
        assert!(narrow.iter().filter(|text| text.parse::<f64>().is_ok()).count() >= 4, "{narrow:?}");
    }

    /// The strokes of the bars in a line's colour, as their points.
    fn bars_of(svg: &str, nth: usize) -> Vec<Vec<(i32, i32)>> {
        let RGBColor(red, green, blue) = COLOURS[nth];
        let colour = format!("stroke=\"#{red:02X}{green:02X}{blue:02X}\" stroke-width=\"1\" points=\"");
        let point = |point: &str| point.split_once(',').map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()));
        let stroke = |text: &str| text.split('"').next().unwrap().split_whitespace().filter_map(point).collect();
        svg.split(&colour).skip(1).map(stroke).collect()
    }

    #[test]
    fn confidence_intervals_have_room_and_do_not_hide_each_other() {
        let axes = Axes { x: "x", y: "y", log_x: false, log_y: false };
        let line =
            |name: &str, half| Line { bars: vec![(1.0, half)], ..Line::new(name, vec![(1.0, 10.0), (2.0, 9.0)]) };
        let svg = lines(&axes, &Shown::from([line("a", 8.0), line("b", 8.0), line("c", 30.0)])).unwrap().unwrap();
        let [a, b, c] = [0, 1, 2].map(|nth| bars_of(&svg, nth));
        assert_eq!((a.len(), b.len()), (3, 3), "a bar with two ends: {svg}");
        assert!(a[0][0].0 < b[0][0].0 && b[0][0].0 < c[0][0].0, "side by side: {a:?} {b:?} {c:?}");
        // The dot of 10 is in the middle of 2 and 18.
        let dot: i32 = svg
            .split("r=\"9\"")
            .next()
            .and_then(|svg| svg.rsplit("cy=\"").next()?.split('"').next()?.parse().ok())
            .unwrap();
        assert!(((a[0][0].1 + a[0][1].1) / 2 - dot).abs() <= 1, "{a:?}, {dot}");
        assert_eq!(c.len(), 1, "both ends are beyond the axis: {c:?}");
        assert!(c[0][1].1 < a[0][1].1 && c[0][0].1 > a[0][0].1, "{c:?}");
    }

    #[test]
    fn odd_data_draws_or_says_that_there_is_nothing() {
        let axes = Axes { x: "x", y: "y", log_x: false, log_y: false };
        assert_eq!(lines(&axes, &Shown::from([])).unwrap(), None);
        for points in [vec![(0.0, 0.0)], vec![(1.0, 2.0), (2.0, f64::NAN)], vec![(5.0, 1.0), (5.0, 2.0)]] {
            for log_x in [false, true] {
                let line =
                    |dashes| Line { look: Some(Look { colour: 9, dashes }), ..Line::new("a < b", points.clone()) };
                let axes = Axes { log_x, log_y: log_x, ..axes };
                let svg = lines(&axes, &Shown::from([line(0), line(1), line(7), Line::new("own", points.clone())]));
                let svg = svg.unwrap().unwrap();
                assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            }
        }
        assert_eq!(heat(&Results::default()).unwrap(), None);
    }

    #[test]
    fn queues_of_every_tier_have_a_band() {
        let sample = |max_bytes| vec![QueueSample::default(), QueueSample { max_bytes, mean_bytes: 1 }];
        let mut results = Results::default();
        let line = &mut results.timeline;
        line.at_us = vec![0.0, 100.0];
        (line.queue_t0_up, line.queue_t1_down, line.queue_t0_down) = (sample(0), sample(0), sample(10));
        let names = |results: &Results| {
            let svg = heat(results).unwrap().unwrap();
            let text = |text: &str| Some(text.split('>').nth(1)?.split('<').next()?.trim().to_owned());
            let all: Vec<String> = svg.split("<text ").skip(1).filter_map(text).collect();
            (
                all.into_iter().filter(|text| text.starts_with('T')).collect::<Vec<_>>(),
                svg.contains("20 bytes in the fullest"),
            )
        };
        let (mut of_two, fullest) = names(&results);
        of_two.sort();
        assert_eq!((of_two, fullest), (vec!["T0 to T1".to_owned(), "T0 to host".into(), "T1 to T0".into()], false));
        (results.timeline.queue_t1_up, results.timeline.queue_t2_down) = (sample(0), sample(20));
        let (mut of_three, fullest) = names(&results);
        of_three.sort();
        assert_eq!(of_three, ["T0 to T1", "T0 to host", "T1 to T0", "T1 to T2", "T2 to T1"]);
        assert!(fullest, "the scale is that of all tiers");
    }
}
