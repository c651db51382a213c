//! A scenario without the program around it: `cargo run --release -p mrc-sim --example run FILE [SEED [KEY=VALUE ...]]`
//! prints the results as JSON, as `mrc sim run FILE --json` does.

use mrc_sim::run::{Options, run};
use mrc_sim::scenario::load;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("which scenario? name a TOML file")?;
    let seed = args.next().map(|seed| seed.parse()).transpose()?;
    let set: Vec<String> = args.collect();
    let built = load(file.as_ref(), &set, seed)?;
    let outcome = run(&built, &Options { set, ..Options::default() }, &mut |_| ())?;
    println!("{}", serde_json::to_string(&outcome.results)?);
    Ok(())
}
