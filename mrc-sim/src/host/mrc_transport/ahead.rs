//! Reads ahead: asks for what an MRC host reads for the calls that come next. The engine knows its own part; here it is joined with the
//! messages.

use super::{MrcTransport, OFFSET_BITS};
use crate::host::{MessageAhead, Soon, Upcoming};
use crate::prefetch::Caches;
use crate::workload::Exchange;

impl MrcTransport<'_> {
    pub(super) fn upcoming_of(&self, soon: Soon<'_>) -> Upcoming {
        let (engine, message) = match soon {
            Soon::Packet(packet) => {
                let received = (packet.payload.len > 0).then_some(MessageAhead::Received(packet.payload.region));
                (self.upcoming_packet(packet.header()), received)
            }
            Soon::Transmit(port) => (self.endpoint.upcoming_transmit(port), None),
            Soon::Timer => (self.endpoint.upcoming_timeout(), None),
            Soon::Wake => (mrc_core::Upcoming::NONE, Some(MessageAhead::Release)),
        };
        Upcoming { engine, message }
    }

    fn upcoming_packet(&self, header: &[u8]) -> mrc_core::Upcoming {
        match &self.own {
            None => self.endpoint.upcoming_packet(header),
            Some(own) => {
                let to = |qp| self.endpoint.upcoming_packet_to(qp, header);
                own.end_of(header).map_or(mrc_core::Upcoming::NONE, to)
            }
        }
    }

    pub(super) fn fetch_step(&self, next: &mut Upcoming, world: &Exchange) {
        match next.message.take() {
            None => {}
            Some(MessageAhead::Release) => next.message = world.next_released(self.index).map(MessageAhead::Post),
            Some(MessageAhead::Post(id)) => {
                let at = self.connection_to(world.message(id).dst).filter(|_| self.own.is_none());
                if let Some(lane) = at.and_then(|at| self.lanes.get(self.connections[at].first as usize)) {
                    next.engine = mrc_core::Upcoming::post(lane.qp);
                }
                return;
            }
            Some(message) => world.fetch(message),
        }
        self.endpoint.fetch(&mut next.engine, &Caches);
        if let Some(offset) = next.engine.take_offset() {
            next.message = Some(MessageAhead::Sent((offset >> OFFSET_BITS) as u32));
        }
    }
}
