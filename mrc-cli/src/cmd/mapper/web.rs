//! `mrc mapper web`: the fabric as a page. The collector serves it beside its API; this command says where, or serves the
//! history of a file. The page is part of the program: no build step, no request to anybody else.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::collect::Map;
use super::collect::store::Store;
use crate::http::{self, Answer, Question, Site};
use crate::interrupt::{self, Interrupt};
use crate::out::outln;

/// Arguments of `mrc mapper web`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc mapper web                    says where the page of a running collector is
  mrc mapper web --db map.db        serves the history of a file; the collector may still write it

The page shows planes, switches and links with their states, live; a slider goes back in the history, and a click on a
component shows the paths behind its state. It can be used with the keyboard alone, and is dark or light as the browser wants.
Whoever reaches the address can read it, nobody can change anything: leave it on the loopback interface, or use ssh -L.
Exit codes: 0 done, 1 no collector answers, 2 usage, 130 interrupted.")]
pub struct Args {
    /// Where the collector answers questions
    #[arg(long, default_value = "127.0.0.1:9712")]
    http: SocketAddr,
    /// Show this history instead (`mrc mapper collect --db`)
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Where the page of a history is served
    #[arg(long, default_value = "127.0.0.1:9714", requires = "db")]
    listen: SocketAddr,
    /// Stop after so many seconds; none = until Ctrl-C
    #[arg(long, requires = "db")]
    seconds: Option<u64>,
}

/// A file of the page.
pub fn page(path: &str) -> Option<Answer> {
    let (kind, body) = match path {
        "/" | "/index.html" => ("text/html; charset=utf-8", include_str!("web/index.html")),
        "/app.js" => ("text/javascript; charset=utf-8", include_str!("web/app.js")),
        "/style.css" => ("text/css; charset=utf-8", include_str!("web/style.css")),
        "/icon.svg" => ("image/svg+xml", include_str!("web/icon.svg")),
        _ => return None,
    };
    Some(Answer::ok(kind, body.to_owned()))
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(file) = &args.db else {
        http::get(args.http, "/api/state")?;
        outln!("http://{}/", args.http);
        return Ok(ExitCode::SUCCESS);
    };
    let (store, fabric) = Store::read(file)?;
    let map = std::cell::RefCell::new(Map::recorded(fabric, store)?);
    let listener = http::listen(args.listen)?;
    let (interrupt, start) = (Interrupt::install()?, Instant::now());
    outln!("http://{}/", listener.local_addr()?);
    let over = || args.seconds.is_some_and(|seconds| start.elapsed() >= Duration::from_secs(seconds));
    let (answer, news) = (&mut |asked: Question<'_>| map.borrow().answer(asked), &mut || map.borrow_mut().news());
    let site = Site { answer, news, own_names_only: true };
    http::serve(&listener, &|| interrupt.is_set() || over(), site)?;
    Ok(if interrupt.is_set() { ExitCode::from(interrupt::EXIT_CODE) } else { ExitCode::SUCCESS })
}
