use super::*;
use crate::plan::{PathSpec, Route};
use proptest::prelude::*;

/// Every path that agents could take in a small fabric.
pub(super) fn matrix() -> Matrix {
    let fabric = Fabric { planes: 2, leaves: 3, spines: 3, hosts: 6 };
    let mut rows = Vec::new();
    for host in 0..fabric.hosts {
        for plane in 0..fabric.planes {
            let mut push = |route| rows.push((PathSpec { plane, route }.elements(&fabric, host), 1.0));
            push(Route::T0);
            for spine in 0..fabric.spines {
                push(Route::T1 { spine });
                for (leaf, back) in (0..fabric.leaves).flat_map(|leaf| (0..fabric.spines).map(move |s| (leaf, s))) {
                    if leaf != fabric.leaf_of(host) && back != spine {
                        push(Route::Triangle { spine, leaf, back });
                    }
                }
            }
            let mate = (host + fabric.leaves) % fabric.hosts;
            push(Route::Pair { target: mate, reply_plane: (plane + 1) % fabric.planes, spine: 0 });
        }
    }
    Matrix::new(fabric, rows)
}

/// What a window of `window` probes per path shows on average when each element loses a share.
pub(super) fn expected(matrix: &Matrix, loss: &BTreeMap<Element, f64>, window: f64) -> Counts {
    let mut counts = Counts { window, ..Counts::default() };
    for path in 0..matrix.paths() as u32 {
        let keep = |(element, times): &(Element, u8)| {
            (1.0 - loss.get(element).copied().unwrap_or(0.0)).powi(i32::from(*times))
        };
        let success: f64 = matrix.passes(path).iter().map(keep).product();
        let lost = ((1.0 - success) * window).round() as u32;
        if lost > 0 {
            counts.lost.insert(path, lost);
        }
    }
    counts
}

fn found(algorithm: &dyn Localiser, matrix: &Matrix, counts: &Counts) -> Vec<String> {
    let mut names: Vec<String> =
        algorithm.locate(matrix, counts).iter().map(|finding| finding.component.to_string()).collect();
    names.sort();
    names
}

pub(super) fn losing(matrix: &Matrix, names: &[&str], share: f64) -> BTreeMap<Element, f64> {
    let components = names.iter().map(|name| name.parse::<Component>().unwrap());
    components.flat_map(|component| matrix.fabric().elements_of(component)).map(|element| (element, share)).collect()
}

#[test]
fn ours_finds_every_component_alone_down_and_lossy() {
    let matrix = matrix();
    let fabric = *matrix.fabric();
    let all: BTreeSet<Component> = (0..fabric.elements())
        .map(|element| fabric.component(element))
        .flat_map(|component| [component, component.with_direction(Direction::Both)])
        .collect();
    for component in all {
        let name = component.to_string();
        for share in [1.0, 0.02] {
            let counts = expected(&matrix, &losing(&matrix, &[&name], share), 1000.0);
            let findings = Ours::default().locate(&matrix, &counts);
            assert_eq!(findings.len(), 1, "{name} {share}: {findings:?}");
            assert_eq!((findings[0].component, &findings[0].instead[..]), (component, &[][..]), "{share}");
            assert!((findings[0].loss - share).abs() < 0.1 * share, "{findings:?}");
        }
    }
}

#[test]
fn ours_finds_two_at_once_and_nothing_in_noise() {
    let matrix = matrix();
    for pair in [["p0-t0a-t1b", "p1-hD"], ["p0-t1a", "p0-t0b-t1c:up"], ["p0-t0a", "p1-t0a"], ["p0-hA:down", "p0-hD:up"]]
    {
        let counts = expected(&matrix, &losing(&matrix, &pair, 0.05), 1000.0);
        let mut sorted = pair;
        sorted.sort_unstable();
        assert_eq!(found(&Ours::default(), &matrix, &counts), sorted);
    }
    let mut noise = Counts { window: 1000.0, ..Counts::default() };
    for path in [3, 40, 77, 110] {
        noise.lost.insert(path, 1);
    }
    assert_eq!(found(&Ours::default(), &matrix, &noise), [""; 0]);
}

/// One switch explains most of the losses of several links at it, and is chosen first. It must give up what they explain.
#[test]
fn ours_finds_several_links_of_a_switch_in_place_of_the_switch() {
    let matrix = matrix();
    for (share, names) in [
        (0.5, &["p0-hA:up", "p0-t0a-t1a:up", "p0-t0a-t1b", "p0-t0a-t1c:up"][..]),
        (0.05, &["p0-t0a-t1a", "p0-t0a-t1b:up", "p0-t0b-t1a:up"]),
    ] {
        let counts = expected(&matrix, &losing(&matrix, names, share), 1_000.0);
        assert_eq!(found(&Ours::default(), &matrix, &counts), names);
    }
}

#[test]
fn what_cannot_be_told_apart_is_listed_as_alternative() {
    // Only paths there and back: no direction can be seen.
    let fabric = Fabric { planes: 1, leaves: 2, spines: 2, hosts: 4 };
    let mut rows = Vec::new();
    for host in 0..4 {
        rows.push((PathSpec { plane: 0, route: Route::T0 }.elements(&fabric, host), 1.0));
        for spine in 0..2 {
            rows.push((PathSpec { plane: 0, route: Route::T1 { spine } }.elements(&fabric, host), 1.0));
        }
    }
    let matrix = Matrix::new(fabric, rows);
    let up: Component = "p0-t0a-t1b:up".parse().unwrap();
    let counts = expected(&matrix, &losing(&matrix, &["p0-t0a-t1b:up"], 1.0), 100.0);
    let findings = Ours::default().locate(&matrix, &counts);
    assert_eq!(findings.len(), 1);
    assert!(
        findings[0].component.with_direction(Direction::Up) == up && findings[0].instead.len() == 2,
        "{findings:?}"
    );
    assert_eq!(Identify::of(&matrix, &[(up, 14.0)]), Identify::Ambiguous);
}

#[test]
fn identifiability_is_judged_by_what_paths_see() {
    let matrix = matrix();
    let of = |fault: &[(&str, f64)]| {
        let fault: Vec<(Component, f64)> =
            fault.iter().map(|(name, weight)| (name.parse().unwrap(), *weight)).collect();
        Identify::of(&matrix, &fault)
    };
    for name in ["p0", "p0-t0a", "p1-t1c", "p0-t0a-t1b", "p0-t0a-t1b:up", "p1-hB:down", "p1-hB"] {
        assert_eq!(of(&[(name, 14.0)]), Identify::Identifiable, "{name}");
        assert_eq!(of(&[(name, 0.01)]), Identify::Identifiable, "{name}");
    }
    assert_eq!(of(&[("p0-t0a", 14.0), ("p0-t0a-t1b", 0.01)]), Identify::Masked);
    assert_eq!(of(&[("p0", 14.0), ("p0-t1b", 14.0)]), Identify::Masked);
    assert_eq!(of(&[("p0-t0a", 14.0), ("p1-t1b", 0.01)]), Identify::Identifiable);
}

#[test]
fn yardsticks_find_what_they_were_made_for() {
    let matrix = matrix();
    let counts = expected(&matrix, &losing(&matrix, &["p0-hD"], 1.0), 100.0);
    let down = expected(&matrix, &losing(&matrix, &["p1-t1b"], 1.0), 100.0);
    for algorithm in all() {
        assert_eq!(found(&*algorithm, &matrix, &counts), ["p0-hD"], "{}", algorithm.name());
        // In so small a fabric most paths of a plane pass any T1, so that a majority accuses the plane.
        let silent = if algorithm.name() == "majority" { "p1" } else { "p1-t1b" };
        assert_eq!(found(&*algorithm, &matrix, &down), [silent], "{}", algorithm.name());
        assert_eq!(found(&*algorithm, &matrix, &Counts { window: 100.0, ..Counts::default() }), [""; 0]);
    }
}

/// Paths of a two-layer Clos as NetBouncer's servers bounce them: server to T0 and back, server to T1 and back. A link is
/// one latent variable there, so each pair of directions is one element: only the way up is in the matrix.
fn bounces(leaves: u16, spines: u16, per_leaf: u16) -> Matrix {
    let fabric = Fabric { planes: 1, leaves, spines, hosts: leaves * per_leaf };
    let mut rows = Vec::new();
    for host in 0..fabric.hosts {
        let (leaf, link) = (fabric.leaf_of(host), fabric.host_link(0, host, false));
        rows.push((vec![link], 1.0));
        rows.extend((0..spines).map(|spine| (vec![link, fabric.uplink(0, leaf, spine, false)], 1.0)));
    }
    Matrix::new(fabric, rows)
}

proptest! {
    /// NetBouncer's theorem: where every switch has a path without loss, exact measurements determine every link. The
    /// solver, its regulariser off, finds the latent probabilities.
    #[test]
    fn links_are_identifiable_when_every_switch_has_a_good_path(
        leaves in 2u16..4, spines in 2u16..4, per_leaf in 2u16..4, seed: u64,
    ) {
        let matrix = bounces(leaves, spines, per_leaf);
        let fabric = *matrix.fabric();
        let mut rng = crate::rng::Rng::new(seed);
        let mut x: BTreeMap<Element, f64> = BTreeMap::new();
        for host in 0..fabric.hosts {
            // The first host of each T0 and its link to the first T1 are good; so is one link of every T1.
            let good = host < fabric.leaves || rng.chance(0.5);
            x.insert(fabric.host_link(0, host, false), if good { 1.0 } else { 0.5 + 0.5 * rng.unit() });
        }
        for (leaf, spine) in (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| (leaf, spine))) {
            let good = spine % leaves == leaf || spine == leaf % spines || rng.chance(0.3);
            x.insert(fabric.uplink(0, leaf, spine, false), if good { 1.0 } else { 0.5 + 0.5 * rng.unit() });
        }
        let success = |path: u32| -> f64 { matrix.passes(path).iter().map(|(e, _)| x[e]).product() };
        // Whoever has a path that is not perfect is solved for.
        let lost = (0..matrix.paths() as u32).filter(|path| success(*path) < 1.0).map(|path| (path, 1)).collect();
        let counts = Counts { window: 1.0, lost, ..Counts::default() };
        let exact = NetBouncer { lambda: 0.0, rounds: 2000, tolerance: 1e-14, ..NetBouncer::default() };
        for (link, solved) in exact.solve(&matrix, |path| Some(success(path)), &counts) {
            prop_assert!((solved - x[&link]).abs() < 1e-3, "{} {solved} {}", fabric.component(link), x[&link]);
        }
    }

    /// Without the condition two different truths look the same: one T0 whose hosts have no good path to it.
    #[test]
    fn without_a_good_path_two_truths_look_the_same(scale in 0.6f64..0.95) {
        // Paths to the T1s only: host link times uplink, so that a factor can move from one to the other.
        let fabric = Fabric { planes: 1, leaves: 1, spines: 2, hosts: 2 };
        let mut rows = Vec::new();
        for (host, spine) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            rows.push((vec![fabric.host_link(0, host, false), fabric.uplink(0, 0, spine, false)], 1.0));
        }
        let matrix = Matrix::new(fabric, rows);
        let truth = |host: f64, uplink: f64| -> Vec<f64> {
            let of = |element: &Element| match fabric.component(*element) {
                Component::HostLink(..) => host,
                _ => uplink,
            };
            (0..4).map(|path| matrix.passes(path).iter().map(|(e, _)| of(e)).product()).collect()
        };
        let (one, other) = (truth(scale, 0.9), truth(0.9, scale));
        prop_assert!(one.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}
