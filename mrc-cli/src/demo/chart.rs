//! Goodput over time as SVG, with the cut and the healing marked.

use anyhow::anyhow;
use plotters::prelude::*;

use super::{Report, Story};

/// Draws the report's chart.
pub fn draw(report: &Report, story: &Story) -> anyhow::Result<()> {
    let path = story.chart();
    draw_to(report, &path).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

fn draw_to(report: &Report, path: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::new(path, (960, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let top = report.goodput.iter().map(|&(_, rate)| rate).fold(0.1, f64::max) * 1.15;
    let title = format!(
        "RDMA writes over {}, {} ({:.2} Gb/s, integrity {})",
        crate::out::count(report.planes.len(), "plane"),
        if report.mode == "lab" { "AF_XDP through kernel SRv6 switches" } else { "simulated" },
        report.gbit_per_s,
        report.integrity
    );
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .caption(title, ("sans-serif", 18))
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..report.seconds, 0.0..top)?;
    chart.configure_mesh().x_desc("seconds").y_desc("goodput, Gb/s").light_line_style(WHITE).draw()?;
    let blue = RGBColor(31, 90, 160);
    chart.draw_series(AreaSeries::new(report.goodput.iter().copied(), 0.0, blue.mix(0.15)).border_style(blue))?;
    for (at, text, color) in
        [(report.cut_s, "link cut", RGBColor(190, 40, 40)), (report.heal_s, "link healed", RGBColor(30, 130, 60))]
    {
        chart.draw_series(LineSeries::new([(at, 0.0), (at, top)], color.stroke_width(2)))?;
        chart.draw_series([Text::new(
            text,
            (at + report.seconds * 0.006, top * 0.97),
            ("sans-serif", 15).into_font().color(&color),
        )])?;
    }
    root.present()?;
    Ok(())
}
