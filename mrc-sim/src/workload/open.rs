//! How many messages of a pair, or of a host, can be open at once: what decides how many connections a run has room for.

use super::plan::{Message, Plan};

/// A pair with no more messages than this has a connection for each; nobody needs to reckon.
const FEW: usize = 8;
/// The same of a host: so few that chance may open many times what a host has on average.
const FEW_OF_HOST: usize = 64;

impl Plan {
    /// Most messages from `a` to `b`, or back, that can be open at the same time if none takes longer than `longest_ns` says,
    /// for each pair in order. Both directions use the same connections, each end its own half.
    pub(super) fn most_open(&self, longest_ns: &dyn Fn(&Message) -> u64) -> Vec<(u32, u32, u32)> {
        let of = |(message, (from, to))| {
            let Message { src, dst, .. } = message;
            (u32::min(src, dst), u32::max(src, dst), src < dst, from, to)
        };
        let spans = self.spans(longest_ns);
        let mut ways: Vec<_> =
            self.messages.iter().copied().zip(spans).filter(|(message, _)| !message.is_compute()).map(of).collect();
        ways.sort_unstable();
        let pair = |pair: &[(u32, u32, bool, u64, u64)]| {
            let ways = pair.chunk_by(|x, y| x.2 == y.2);
            let most = ways.map(|way| overlap(way.iter().map(|&(.., from, to)| (from, to)), FEW)).max();
            (pair[0].0, pair[0].1, most.unwrap_or(0) as u32)
        };
        ways.chunk_by(|x, y| (x.0, x.1) == (y.0, y.1)).map(pair).collect()
    }

    /// Most messages that each of `hosts` sends, and that it receives, at the same time if none takes longer than `longest_ns`
    /// says. A received one counts `lingers_ns` longer.
    pub(crate) fn most_open_at(
        &self,
        hosts: u32,
        longest_ns: &dyn Fn(&Message) -> u64,
        lingers_ns: u64,
    ) -> Vec<[u32; 2]> {
        let mut most = vec![[0; 2]; hosts as usize];
        let spans = self.spans(longest_ns);
        let moving = || self.messages.iter().zip(&spans).filter(|(message, _)| !message.is_compute());
        for (way, lingers_ns) in [0, lingers_ns].into_iter().enumerate() {
            let host = |message: &Message| if way == 0 { message.src } else { message.dst };
            let mut open: Vec<_> =
                moving().map(|(message, &(from, to))| (host(message), from, to.saturating_add(lingers_ns))).collect();
            open.sort_unstable();
            for of_host in open.chunk_by(|x, y| x.0 == y.0) {
                let count = overlap(of_host.iter().map(|&(_, from, to)| (from, to)), FEW_OF_HOST);
                if let Some(most) = most.get_mut(of_host[0].0 as usize) {
                    most[way] = count as u32;
                }
            }
        }
        most
    }

    /// Of each message its earliest start and its latest end, in nanoseconds, if each takes up to `longest_ns`.
    fn spans(&self, longest_ns: &dyn Fn(&Message) -> u64) -> Vec<(u64, u64)> {
        // What they wait for ends in this span, until they begin themselves.
        let mut spans = vec![(0u64, 0u64); self.messages.len()];
        self.walk(|id, behind| {
            let message = &self.messages[id];
            let longest = if message.is_compute() { 0 } else { longest_ns(message) };
            let (early, late) = spans[id];
            let from = early.saturating_add(message.delay_ns);
            let to = late.saturating_add(message.delay_ns).saturating_add(longest);
            spans[id] = (from, to);
            for &(_, then) in behind {
                let (early, late) = &mut spans[then as usize];
                (*early, *late) = ((*early).max(from), (*late).max(to));
            }
        });
        spans
    }
}

/// Most of these spans that have an instant in common; where there are `few`, all.
fn overlap(spans: impl ExactSizeIterator<Item = (u64, u64)> + Clone, few: usize) -> usize {
    if spans.len() <= few {
        return spans.len();
    }
    let begins = spans.clone().map(|(from, _)| (from, false));
    let mut turns: Vec<_> = begins.chain(spans.map(|(_, to)| (to, true))).collect();
    // Who begins when another one ends is open beside it.
    turns.sort_unstable();
    let (mut open, mut most) = (0, few);
    for (_, ends) in turns {
        if ends {
            open -= 1;
        } else {
            open += 1;
            most = most.max(open);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Message {
        Message { src: 0, dst: 1, bytes: 1, group: 0, iteration: 0, delay_ns: us * 1000 }
    }

    fn most(plan: &Plan, longest_us: u64) -> Vec<(u32, u32, u32)> {
        plan.most_open(&|_| longest_us * 1000)
    }

    #[test]
    fn messages_that_end_make_room_for_later_ones() {
        let plan = Plan { messages: (0..100).map(|nth| at(10 * nth)).collect(), ..Plan::default() };
        assert_eq!(most(&plan, 95), [(0, 1, 10)]);
        assert_eq!(most(&plan, 100), [(0, 1, 11)], "one begins as another one ends");
        assert_eq!(most(&plan, 1), [(0, 1, FEW as u32)]);
        assert_eq!(most(&plan, u64::MAX / 1000), [(0, 1, 100)]);
    }

    #[test]
    fn a_host_counts_what_it_sends_to_all_and_what_lingers_there() {
        let messages = (0..300).map(|nth| Message { dst: 1 + nth as u32 % 3, ..at(nth) }).collect();
        let plan = Plan { messages, ..Plan::default() };
        let most = |longest_us: u64, lingers_us: u64| plan.most_open_at(5, &|_| longest_us * 1000, lingers_us * 1000);
        assert_eq!(most(99, 0), [[100, 0], [0, 64], [0, 64], [0, 64], [0, 0]], "at least 64 of a hundred");
        assert_eq!(most(149, 149), [[150, 0], [0, 100], [0, 100], [0, 100], [0, 0]]);
        assert_eq!(most(209, 0), [[210, 0], [0, 70], [0, 70], [0, 70], [0, 0]]);
        assert_eq!(most(209, 30), [[210, 0], [0, 80], [0, 80], [0, 80], [0, 0]]);
    }

    #[test]
    fn the_busier_direction_counts() {
        let back = Message { src: 1, dst: 0, ..at(0) };
        let messages = [vec![at(0); 12], vec![back; 20], vec![Message { dst: 2, ..at(5) }; 3]].concat();
        assert_eq!(most(&Plan { messages, ..Plan::default() }, 1), [(0, 1, 20), (0, 2, 3)]);
    }

    #[test]
    fn who_waits_begins_no_earlier_and_ends_no_later_than_what_it_waits_for_allows() {
        // Twenty at once, and twenty more 50 us behind the last of them.
        let mut plan = Plan { messages: [vec![at(0); 20], vec![at(50); 20]].concat(), ..Plan::default() };
        for then in 20..40 {
            plan.after_delivery(then - 20, then);
        }
        assert_eq!(most(&plan, 40), [(0, 1, 20)], "the first are done");
        assert_eq!(most(&plan, 60), [(0, 1, 40)], "they may still be open");
        // The first one of a chain may be late, and then all that follow.
        let mut chain = Plan { messages: vec![at(0); 30], ..Plan::default() };
        (1..30).for_each(|then| chain.after_completion(then - 1, then));
        assert_eq!(most(&chain, 1), [(0, 1, 30)]);
    }
}
