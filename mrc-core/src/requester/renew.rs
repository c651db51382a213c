//! A requester that begins or ends, in the place of another one.

use super::Requester;
use crate::renew::renew;

impl Requester {
    /// Becomes `new`, whose table of probes is empty. What this table has already is not written, and it knows which identifiers were
    /// used.
    #[inline(always)]
    pub(crate) fn renew(&mut self, new: Self) {
        renew!(self = new; {
            last_heard, last_answer, unack, max_sent, tack, hi_sacked, mpr_tx, lost, held, prev_rcvd_units, path_mtu, next_msn,
            next_rqmsn, wimm_tx, wimm_inflight, begin_gate, was_heard, resend_tail, dynamic_mpr, retry_cnt, resource_nacks,
            retry, trimming, blame_silence, next_scan, next_tail_probe, tack_wait, next_release, path_retry, portless,
            next_probe, tail_probe_ns, last_path, srtt_ns, base_rtt, target_delay_ns, keepalive_ns, next_keepalive, lateness,
            reorder, reorder_pkts_min, reorder_factor, last_retry, keepalive_probes, keepalive_unheard, keepalive_from,
            started, probe_rate_limit_ns,
        } but { probes });
        self.probes.end();
    }
}
