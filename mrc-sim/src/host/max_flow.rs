//! What a network carries from one node to another (Edmonds and Karp 1972): for the ideal times of hosts whose ports share links.

use std::collections::VecDeque;

/// A directed edge: its ends, and what it carries.
pub(super) type Edge = (usize, usize, u64);

/// The most that flows from node `from` to node `to` over these edges, and by node whether it is on the near side of the narrowest
/// cut, of several the one nearest to `from`.
pub(super) fn max_flow(edges: &[Edge], from: usize, to: usize) -> (u64, Vec<bool>) {
    let nodes = edges.iter().map(|&(a, b, _)| a.max(b) + 1).chain([from + 1, to + 1]).max().unwrap_or(0);
    // Each edge and, behind it, the way back: what is left of both.
    let mut left: Vec<u64> = edges.iter().flat_map(|&(.., carries)| [carries, 0]).collect();
    let mut out = vec![Vec::new(); nodes];
    for (nth, &(a, b, _)) in edges.iter().enumerate() {
        out[a].push((2 * nth, b));
        out[b].push((2 * nth + 1, a));
    }
    let mut flow = 0;
    loop {
        // By node: the arc by which it was reached, and from where.
        let mut reached: Vec<Option<(usize, usize)>> = vec![None; nodes];
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for &(arc, next) in &out[at] {
                if left[arc] > 0 && next != from && reached[next].is_none() {
                    reached[next] = Some((arc, at));
                    queue.push_back(next);
                }
            }
        }
        let way = || std::iter::successors(reached[to], |&(_, at)| reached[at]);
        let Some(more) = way().map(|(arc, _)| left[arc]).min() else {
            let near = reached.iter().enumerate().map(|(node, reached)| node == from || reached.is_some());
            return (flow, near.collect());
        };
        for (arc, _) in way().collect::<Vec<_>>() {
            left[arc] -= more;
            left[arc ^ 1] += more;
        }
        flow += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_cut_limits_the_flow() {
        // Two ways that share the edge from 3 to 4.
        let edges = [(0, 1, 5), (0, 2, 5), (1, 3, 9), (2, 3, 9), (3, 4, 7), (4, 5, 5), (4, 6, 5), (5, 7, 9), (6, 7, 9)];
        assert_eq!(max_flow(&edges, 0, 7), (7, vec![true, true, true, true, false, false, false, false]));
        // Where the first edges are as narrow, they are the cut.
        let edges = edges.map(|(a, b, carries)| (a, b, if (a, b) == (3, 4) { 10 } else { carries }));
        assert_eq!(max_flow(&edges, 0, 7), (10, vec![true, false, false, false, false, false, false, false]));
        // A flow that has to be led back: the first way found takes the middle edge.
        let edges = [(0, 1, 1), (0, 2, 1), (1, 2, 1), (1, 3, 1), (2, 3, 1)];
        assert_eq!(max_flow(&edges, 0, 3).0, 2);
        assert_eq!(max_flow(&[], 0, 1), (0, vec![true, false]));
    }
}
