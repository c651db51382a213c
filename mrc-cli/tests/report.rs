//! `mrc sim sweep` and `mrc sim report` from end to end, and the page in a real browser.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn mrc(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mrc")).args(args).output().expect("the program starts")
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

const SCENARIO: &str = r#"
name = "incast-with-loss"
about = "An incast and a victim on two planes with a lossy link & <trimming>."
[topology]
planes = 2
t0 = 2
hosts_per_t0 = 4
t1 = 2
[[workload]]
kind = "incast"
first = 4
fan_in = 4
to = 0
bytes = 400000
[[workload]]
kind = "point-to-point"
name = "victim"
from = 3
to = 6
bytes = 800000
[[fault]]
kind = "loss"
at_us = 5
tier = "fabric"
random = 1
probability = 0.2
"#;

const SWEEP: &str = r#"
scenario = "scenario.toml"
seeds = [1, 2]
[[axis]]
key = "transport.mrc.active_evs"
values = [2, 4]
[[axis]]
name = "trim"
cases = [{ label = "on", set = { "queue.trim" = true } }, { label = "off", set = { "queue.trim" = false } }]
"#;

fn sweep(name: &str, more: &[&str]) -> (PathBuf, Output) {
    let folder = folder(name);
    std::fs::write(folder.join("scenario.toml"), SCENARIO).expect("a scenario");
    std::fs::write(folder.join("sweep.toml"), SWEEP).expect("a sweep");
    let (file, out) = (folder.join("sweep.toml"), folder.join("out"));
    let mut args = vec!["sim", "sweep", file.to_str().expect("UTF-8"), "--out", out.to_str().expect("UTF-8")];
    args.extend(more);
    let output = mrc(&args);
    (out, output)
}

fn digests(output: &Output) -> Vec<(String, String)> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |line: &serde_json::Value, key: &str| line[key].as_str().expect("a string").to_owned();
    summary["points"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|line| (text(line, "name"), text(line, "digest")))
        .collect()
}

#[test]
fn a_sweep_gives_the_same_results_with_any_number_of_workers_and_goes_on_where_it_stopped() {
    let (_, one) = sweep("sweep-one", &["-j", "1", "--json"]);
    let (out, many) = sweep("sweep-many", &["-j", "5", "--json"]);
    let want = digests(&one);
    assert_eq!(want.len(), 8);
    assert_eq!(digests(&many), want);
    // One point is missing, another one is marked: only the first may run again.
    std::fs::remove_file(out.join(format!("{}.json", want[0].0))).expect("results of the first point");
    let kept = out.join(format!("{}.json", want[1].0));
    let marked = std::fs::read_to_string(&kept).expect("results").replacen(&want[1].1, "mark", 1);
    std::fs::write(&kept, marked).expect("results");
    let folder = out.parent().expect("it has one").join("sweep.toml");
    let again = mrc(&["sim", "sweep", folder.to_str().expect("UTF-8"), "-o", out.to_str().expect("UTF-8"), "--json"]);
    let again = digests(&again);
    assert_eq!((&again[0], again[1].1.as_str()), (&want[0], "mark"));
    // The same folder is no place for another sweep.
    std::fs::write(&folder, SWEEP.replace("[2, 4]", "[2, 8]")).expect("another sweep");
    let other = mrc(&["sim", "sweep", folder.to_str().expect("UTF-8"), "-o", out.to_str().expect("UTF-8")]);
    assert!(!other.status.success() && String::from_utf8_lossy(&other.stderr).contains("another sweep"));
}

#[test]
fn the_points_of_a_sweep_can_be_handed_to_a_cluster() {
    let (out, output) = sweep("sweep-jobs", &["--json"]);
    let want = digests(&output);
    let list = out.join("jobs.txt");
    let file = out.parent().expect("it has one").join("sweep.toml");
    let fresh = folder("sweep-jobs-fresh");
    let at = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let emitted = mrc(&["sim", "sweep", &at(&file), "-o", &at(&fresh), "--jobs", &at(&list)]);
    assert!(emitted.status.success());
    let jobs = std::fs::read_to_string(&list).expect("the list");
    assert_eq!(jobs.lines().count(), 8);
    let printed = mrc(&["sim", "sweep", &at(&file), "-o", &at(&fresh), "--jobs", "-"]);
    assert_eq!(String::from_utf8_lossy(&printed.stdout), jobs);
    for job in jobs.lines().take(2) {
        assert!(Command::new("sh").args(["-c", job]).status().expect("a shell").success(), "{job}");
    }
    let script = out.join("array.sh");
    assert!(mrc(&["sim", "sweep", &at(&file), "-o", &at(&fresh), "--slurm", &at(&script)]).status.success());
    let text = std::fs::read_to_string(&script).expect("the script");
    assert!(text.contains("#SBATCH --array=0-7"), "{text}");
    assert!(
        Command::new("sh").arg(&script).env("SLURM_ARRAY_TASK_ID", "2").status().expect("a shell").success(),
        "{text}"
    );
    for (name, digest) in &want[..3] {
        let text = std::fs::read_to_string(fresh.join(format!("{name}.json"))).expect("results of the job");
        assert!(text.contains(digest), "{name}");
    }
    assert!(!fresh.join(format!("{}.json", want[3].0)).exists(), "a task of the array does its own points");
}

/// Beside results a folder may hold what others wrote.
#[test]
fn a_report_leaves_out_files_that_hold_no_results() {
    let folder = folder("report-others");
    let scenario = folder.join("scenario.toml");
    std::fs::write(&scenario, SCENARIO).expect("a scenario");
    let (results, other) = (folder.join("a.json"), folder.join("package.json"));
    let at = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    assert!(mrc(&["sim", "run", &at(&scenario), "--json", &at(&results)]).status.success());
    std::fs::write(&other, "{\"name\": \"other\"}").expect("a file of others");
    let report = mrc(&["sim", "report", &at(&folder)]);
    let said = String::from_utf8_lossy(&report.stderr);
    assert!(report.status.success(), "{said}");
    assert!(said.contains("package.json holds no results of `mrc sim run --json`: left out"), "{said}");
    assert!(String::from_utf8_lossy(&report.stdout).contains("with 1 run and"), "{report:?}");
    // The page alone, as other results with `-`: the same, and no file called `-`.
    let page = std::fs::read_to_string(folder.join("report.html")).expect("a page");
    let out = mrc(&["sim", "report", &at(&folder), "--out", "-"]);
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim_end(), page.trim_end());
    assert!(!Path::new("-").exists() && !Path::new("figures").exists(), "nothing else is written");
}

/// Opens a page; returns what the browser made of it and what it said.
fn browse(page: &Path, more: &[&str]) -> Option<(String, String)> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let name = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())?;
    let profile = page.with_extension("profile");
    let output = Command::new("timeout")
        .args(["120", name, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000", "--window-size=1000,6000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(more)
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("timeout exists");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some((String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Elements of one kind in a picture, each up to the next one.
fn elements<'a>(svg: &'a str, kind: &str) -> impl Iterator<Item = &'a str> {
    svg.split(&format!("<{kind} ")).skip(1).collect::<Vec<_>>().into_iter()
}

fn attribute<'a>(element: &'a str, name: &str) -> &'a str {
    let rest = element.split_once(&format!("{name}=\"")).map_or("", |(_, rest)| rest);
    rest.split_once('"').map_or("", |(value, _)| value)
}

/// Where the labels of an axis stand, in pixels, and the numbers that they say.
fn labels(svg: &str, along: &str, anchor: &str) -> Vec<(f64, f64)> {
    let label = |text: &str| {
        let says = text.split_once('>')?.1.split_once('<')?.0.trim();
        let (number, times) = says.strip_suffix(" k").map_or((says, 1.0), |number| (number, 1e3));
        let place = attribute(text, along).parse().ok()?;
        (attribute(text, "text-anchor") == anchor).then_some((place, number.parse::<f64>().ok()? * times))
    };
    elements(svg, "text").filter_map(label).collect()
}

/// The pixel of a value, by the labels of a linear axis.
fn pixel(labels: &[(f64, f64)], value: f64) -> f64 {
    let (first, last) = (labels[0], labels[labels.len() - 1]);
    first.0 + (value - first.1) * (last.0 - first.0) / (last.1 - first.1)
}

/// Lines of a plot, without its axes, by their points.
fn curves(svg: &str) -> Vec<Vec<(f64, f64)>> {
    let point = |text: &str| {
        let (x, y) = text.split_once(',').expect("a point");
        (x.parse().expect("a number"), y.parse().expect("a number"))
    };
    let thick = |line: &&str| attribute(line, "stroke-width") == "2";
    elements(svg, "polyline")
        .filter(thick)
        .map(|line| attribute(line, "points").split_whitespace().map(point).collect())
        .collect()
}

/// Every point of the goodput curves is the value that the results have, read off at the labels of the axes.
fn goodput_curves_show_the_results(html: &str, out: &Path) {
    let mut runs = 0;
    for entry in std::fs::read_dir(out).expect("the folder of results") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        let Some((_, rest)) = html.split_once(&format!("<figure id=\"{name}-goodput\"")) else { continue };
        let svg = rest.split_once("</figure>").expect("its end").0;
        let text = std::fs::read_to_string(&path).expect("results");
        let timeline = &serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["timeline"];
        let (bin_us, rates) = (timeline["bin_us"].as_f64().expect("a width"), &timeline["goodput_gbit_per_s"]);
        let (x, y) = (labels(svg, "x", "middle"), labels(svg, "y", "end"));
        assert!(x.len() > 3 && y.len() > 3, "{name}: {x:?} {y:?}");
        // The legend has a sample of each line, right of the plot.
        let curves: Vec<_> = curves(svg).into_iter().filter(|points| points.iter().all(|at| at.0 < 670.0)).collect();
        let rates = rates.as_array().expect("a list by workload");
        assert_eq!(curves.len(), rates.len(), "{name}: a curve for each workload");
        for (curve, rates) in curves.iter().zip(rates) {
            let rates: Vec<f64> = rates.as_array().expect("bins").iter().filter_map(|rate| rate.as_f64()).collect();
            assert_eq!(curve.len(), rates.len(), "{name}");
            for (nth, (at, rate)) in curve.iter().zip(rates).enumerate() {
                let want = (pixel(&x, nth as f64 * bin_us), pixel(&y, rate));
                let off = (at.0 - want.0).abs().max((at.1 - want.1).abs());
                assert!(off <= 2.5, "{name}: bin {nth} with {rate} Gb/s stands at {at:?}, its place is {want:?}");
            }
        }
        runs += 1;
    }
    assert_eq!(runs, 8);
}

/// Whoever clicks the name of a column has the rows by its numbers, and clicks again for the largest ones first.
fn columns_sort(html: &str, out: &Path) {
    let (page, column) = (out.join("sorted.html"), 5);
    for clicks in 1..=2 {
        let click = format!(
            "<script>for (let n = 0; n < {clicks}; n++) [...document.querySelectorAll('table')].find(table => \
             table.tBodies[0].rows.length == 8).tHead.rows[0].cells[{column}].firstChild.click();</script></body>"
        );
        std::fs::write(&page, html.replacen("</body>", &click, 1)).expect("a page");
        let (dom, _) = browse(&page, &["--dump-dom"]).expect("Chromium was there a moment ago");
        let table =
            dom.split("<table").find(|table| table.matches("<tr>").count() == 9).expect("a table of eight runs");
        let cell = |row: &str| row.split("<td>").nth(1 + column)?.split('<').next()?.parse::<f64>().ok();
        let cells: Vec<f64> = table.split("<tr>").filter_map(cell).collect();
        let sorted = if clicks == 1 { cells.is_sorted() } else { cells.is_sorted_by(|a, b| a >= b) };
        assert!(cells.len() == 8 && sorted && cells[0] != cells[7], "{clicks}: {cells:?}");
    }
}

/// The name of a point with many axes makes no page that is wider than its window.
fn long_names_fit(out: &Path) {
    let folder = folder("long-names");
    let name = "on-".repeat(60);
    std::fs::copy(out.join("2-on-seed1.json"), folder.join(format!("{name}.json"))).expect("results");
    let page = folder.join("report.html");
    assert!(mrc(&["sim", "report", folder.to_str().expect("UTF-8"), "--title", &name]).status.success());
    let html = std::fs::read_to_string(&page).expect("the page");
    let measure = "<script>document.title = `${document.documentElement.scrollWidth} of ${innerWidth}`</script></body>";
    std::fs::write(&page, html.replacen("</body>", measure, 1)).expect("a page");
    let (dom, _) = browse(&page, &["--window-size=600,800", "--dump-dom"]).expect("Chromium was there a moment ago");
    let title = dom.split("<title>").nth(1).and_then(|title| title.split('<').next()).expect("a title");
    let (wide, window) = title.split_once(" of ").expect("two numbers");
    assert!(wide.parse::<u32>().unwrap() <= window.parse().unwrap(), "{title}");
}

#[test]
fn a_report_shows_its_plots_in_a_browser_without_an_error() {
    let (out, output) = sweep("sweep-report", &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = mrc(&["sim", "report", out.to_str().expect("UTF-8")]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let page = out.join("report.html");
    let html = std::fs::read_to_string(&page).expect("the page");
    let figures = html.matches("<figure").count();
    assert!(figures >= 8 * 4, "goodput, completion times, queues and EVs of each run: {figures}");
    assert_eq!(std::fs::read_dir(out.join("figures")).expect("figures").count(), figures);
    goodput_curves_show_the_results(&html, &out);
    let Some((dom, said)) = browse(&page, &["--dump-dom"]) else {
        let _ =
            std::io::stderr().write_all(b"SKIP a_report_shows_its_plots_in_a_browser_without_an_error: no Chromium\n");
        return;
    };
    let console: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{console:?}");
    assert_eq!(dom.matches("</svg>").count(), figures);
    // Lines or bands beside the axes, whose lines are thin, and the white ground.
    for plot in dom.split("<figure").skip(1) {
        let bands = elements(plot, "rect").filter(|rect| !attribute(rect, "fill").eq_ignore_ascii_case("#ffffff"));
        let drawn = curves(plot).iter().filter(|points| points.len() > 1).count() + bands.count();
        assert!(drawn > 0, "an empty plot: {}", plot.get(..120).unwrap_or(plot));
    }
    columns_sort(&html, &out);
    long_names_fit(&out);
    let picture = out.join("page.png");
    browse(&page, &[&format!("--screenshot={}", picture.display())]);
    let size = std::fs::metadata(&picture).expect("a screenshot").len();
    assert!(size > 100_000, "a page of {size} B is a blank one");
}
