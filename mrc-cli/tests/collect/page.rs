//! The page of the collector in a real browser: what it draws, live and from the history, with the keyboard alone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mrc_mapper::Fabric;
use mrc_mapper::topology::Component;

use super::browser::Browser;
use super::{Agent, Collector, HOSTS, MRC, collector, eventually, folder};

const FABRIC: Fabric = Fabric { planes: 2, leaves: 2, spines: 4, hosts: 4 };

/// Agents that go on telling while the test looks at the page.
struct Telling {
    lossy: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Telling {
    fn start(mut agents: Vec<Agent>) -> Self {
        let (lossy, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (is_lossy, is_over) = (Arc::clone(&lossy), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                for agent in &mut agents {
                    agent.tell(is_lossy.load(Ordering::Relaxed));
                }
                std::thread::sleep(Duration::from_millis(40));
            }
        });
        Self { lossy, over, thread: Some(thread) }
    }

    /// The state of the fabric from now on; until the collector knows.
    fn until(&self, collector: &Collector, lossy: bool, faulty: &[&str]) {
        self.lossy.store(lossy, Ordering::Relaxed);
        eventually("the collector knows", || collector.faulty() == faulty);
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What a part of the map looks like.
fn class_of(browser: &mut Browser, name: &str) -> String {
    let shape =
        format!("document.querySelector('[data-name=\"{name}\"]').querySelector('.link, .node').className.baseVal");
    browser.eval(&shape).as_str().unwrap().to_owned()
}

#[test]
fn the_page_draws_the_fabric_and_follows_it_with_the_keyboard_alone() {
    let folder = folder("page");
    let Some(mut browser) = Browser::start("the_page_draws_the_fabric", &folder) else { return };
    let collector = collector(&folder, 18_761);
    let agents = Telling::start((0..HOSTS).map(|host| Agent::new(&collector, host, 1)).collect());
    agents.until(&collector, false, &[]);
    browser.prefer("light");
    let url = format!("http://127.0.0.1:{}/", collector.http);
    browser.open(&url);
    browser.wait_for("document.body !== null && document.body.dataset.ready === 'yes'");

    // Everything that the fabric has is there once, hosts once per plane, under the mapper's names.
    let names = browser.eval("[...document.querySelectorAll('#map [data-name]')].map((part) => part.dataset.name)");
    let names: Vec<Component> =
        names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().parse().unwrap()).collect();
    assert!(names.iter().all(|name| FABRIC.has(*name)), "{names:?}");
    let each: BTreeSet<Component> = names.iter().copied().collect();
    // Planes; T0, T1, uplinks and host links of each; hosts.
    assert_eq!(each.len(), 2 + 2 * (2 + 4 + 8 + 4) + 4, "{each:?}");
    assert_eq!(names.len(), each.len() + 4);

    // A link begins to lose packets, and the page shows it without being asked.
    assert_eq!(class_of(&mut browser, "p0-hA"), "link");
    agents.until(&collector, true, &["p0-hA:up"]);
    browser.wait_for("document.querySelector('#faults button')?.dataset.name === 'p0-hA:up'");
    assert!(class_of(&mut browser, "p0-hA").contains("lossy"));
    assert!(class_of(&mut browser, "p0-hA").contains("denied"));
    assert_eq!(class_of(&mut browser, "p1-hA"), "link");
    // The direction is drawn, the state can be heard.
    assert_eq!(browser.eval("document.querySelectorAll('.arrow').length"), 1);
    let label = browser.eval("document.querySelector('[data-name=\"p0-hA\"]').getAttribute('aria-label')");
    assert!(label.as_str().unwrap().starts_with("host link p0-hA:up, loses"), "{label}");
    browser.wait_for("document.getElementById('summary').textContent.startsWith('1 component faulty')");

    // The next fault, by key; its evidence is a table.
    browser.press("f");
    browser.wait_for("document.querySelectorAll('#paths tr').length > 3");
    assert_eq!(browser.eval("document.getElementById('name').textContent"), "p0-hA:up");
    let row = browser.eval("document.querySelector('#paths tr').innerText");
    // The link carries requests over plane 0, and replies that come back over it, whatever plane the request took.
    assert!(row.as_str().unwrap().starts_with('h') && row.as_str().unwrap().contains("p0"), "{row}");
    browser.press("Escape");
    browser.wait_for("document.getElementById('detail').hidden");
    // Into the map and around in it; one place to stop at for Tab, the arrows do the rest.
    assert_eq!(browser.eval("document.querySelectorAll('.part[tabindex=\"0\"]').length"), 1);
    browser.eval("document.querySelector('.plane button').focus()");
    browser.press("Tab");
    let focused = "document.activeElement.dataset.name";
    assert_eq!(browser.eval(focused), "p0-t1a");
    for (key, name) in [
        ("ArrowRight", "p0-t1b"),
        ("End", "p0-t1d"),
        ("ArrowRight", "p0-t1d"),
        ("ArrowDown", "p0-t0b-t1d"),
        ("Home", "p0-t0a-t1a"),
        ("ArrowDown", "p0-t0a"),
        ("ArrowDown", "p0-hA"),
        ("PageDown", "p1-hA"),
        ("ArrowDown", "hA"),
        ("ArrowUp", "p1-hA"),
        ("PageUp", "p0-hA"),
    ] {
        browser.press(key);
        assert_eq!(browser.eval(focused), name, "after {key}");
    }
    browser.press("Enter");
    browser.wait_for("document.getElementById('state').textContent.startsWith('p0-hA:up loses')");

    // Healthy again; then back in time, event by event.
    agents.until(&collector, false, &[]);
    browser.wait_for("document.querySelector('#faults').innerText === 'none'");
    browser.eval("document.getElementById('slider').focus()");
    browser.press("ArrowLeft");
    browser.wait_for("document.querySelector('#live').getAttribute('aria-pressed') === 'false'");
    // At the moment of its end it is over; one event before that it is not.
    assert_eq!(browser.eval("document.querySelectorAll('#faults button').length"), 0);
    browser.press("ArrowLeft");
    browser.wait_for("document.querySelector('#faults button')?.dataset.name === 'p0-hA:up'");
    browser.wait_for("document.getElementById('rounds').textContent.includes('when it was reported')");
    assert!(class_of(&mut browser, "p0-hA").contains("lossy"));
    browser.press("ArrowRight");
    browser.press("ArrowRight");
    browser.wait_for("document.querySelector('#live').getAttribute('aria-pressed') === 'true'");

    // Dark when the user wants it, or says so.
    let paper = "getComputedStyle(document.body).backgroundColor";
    let light = browser.eval(paper);
    browser.prefer("dark");
    let dark = browser.eval(paper);
    assert_ne!(light, dark);
    browser.eval("document.activeElement.blur()");
    browser.press("t");
    assert_eq!(browser.eval(paper), light);
    browser.press("t");
    assert_eq!(browser.eval(paper), dark);

    // For people: a fault, its evidence, and both themes.
    agents.until(&collector, true, &["p0-hA:up"]);
    browser.press("l");
    browser.press("f");
    browser.wait_for("document.querySelectorAll('#paths tr').length > 3");
    for theme in ["dark", "light"] {
        browser.eval(&format!("document.documentElement.dataset.theme = '{theme}'"));
        let picture = browser.screenshot();
        assert!(picture.len() > 20_000, "a picture of {} B is a blank page", picture.len());
        std::fs::write(folder.join(format!("page-{theme}.png")), picture).unwrap();
    }

    // Nothing was asked of anybody else, and nothing went wrong in the page.
    let outside: Vec<&String> = browser.requests.iter().filter(|asked| !asked.starts_with(&url)).collect();
    assert!(outside.is_empty() && browser.requests.len() > 5, "{outside:?}");
    assert!(browser.console.is_empty(), "{:?}", browser.console);

    // A collector that was killed is said to be gone; what it wrote can still be looked at.
    drop(agents);
    drop(collector);
    browser.wait_for("document.getElementById('summary').textContent.startsWith('the collector does not answer')");
    let mut shown = std::process::Command::new(MRC)
        .current_dir(&folder)
        .args(["mapper", "web", "--db", "map.db", "--listen", "127.0.0.1:18763", "--seconds", "100"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("the history is served", || std::net::TcpStream::connect("127.0.0.1:18763").is_ok());
    browser.open("http://127.0.0.1:18763/");
    browser.wait_for("document.body !== null && document.body.dataset.ready === 'yes'");
    browser.wait_for("document.getElementById('summary').textContent.includes('at the end of this recording')");
    browser.wait_for("document.querySelector('#faults button')?.dataset.name === 'p0-hA:up'");
    let _ = shown.kill();
    let _ = shown.wait();
}
