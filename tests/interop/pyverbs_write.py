"""RDMA WRITE and WRITE WITH IMMEDIATE between two hosts with pyverbs, rdma-core's Python binding.

  pyverbs_write.py server             waits for one client
  pyverbs_write.py client ADDRESS     connects, writes, checks, and tries what MRC refuses

Both sides check; each prints one line per check and exits with 1 if one failed.
"""

import json
import socket
import struct
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel, CqInitAttrEx, CQEX, PollCqAttr
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.wr import SGE, RecvWR, SendWR

PORT = 18600
SIZE = 1 << 20
GID_INDEX = 3
WRITABLE = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
PATIENCE = 20

failed = False


def check(name, passed):
    global failed
    failed |= not passed
    print(f"{name} {'ok' if passed else 'FAIL'}", flush=True)


def refused(name, attempt, *errors):
    """The attempt must raise one of the error numbers."""
    try:
        attempt()
        check(f"{name}: accepted", False)
    except PyverbsRDMAError as error:
        number = error.error_code
        check(f"{name}: errno {number}", number in errors)
    except PyverbsError as error:
        # Some of pyverbs' errors have the number in their text only.
        check(f"{name}: {error}", any(f"{number}" in str(error) for number in errors))


class Peer:
    """A TCP connection that carries lines of JSON: addresses, and `I am here`."""

    def __init__(self, address):
        if address is None:
            listener = socket.create_server(("", PORT))
            listener.settimeout(PATIENCE)
            self.socket, _ = listener.accept()
        else:
            self.socket = socket.create_connection((address, PORT), PATIENCE)
        self.socket.settimeout(PATIENCE)
        self.lines = self.socket.makefile("r")

    def exchange(self, mine=None):
        self.socket.sendall(json.dumps(mine).encode() + b"\n")
        return json.loads(self.lines.readline())


def poll(cq, count=1):
    """`count` completions of a plain CQ."""
    found, until = [], time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < until:
        found += cq.poll(count - len(found))[1]
    return found


def poll_extended(cq, count=1):
    """`(status, opcode, immediate)` of `count` completions of an extended CQ."""
    found, until = [], time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < until:
        if cq.start_poll(PollCqAttr()) != 0:
            continue
        while True:
            found.append((cq.status, cq.read_opcode(), cq.read_imm_data()))
            if len(found) == count or cq.poll_next() != 0:
                break
        cq.end_poll()
    return found


class Side:
    """A queue pair with a region, connected to the peer's."""

    def __init__(self, context, peer, extended=False, access=WRITABLE):
        self.context, self.peer = context, peer
        self.pd = PD(context)
        self.mr = MR(self.pd, SIZE, WRITABLE)
        cap = QPCap(max_send_wr=64, max_recv_wr=64, max_send_sge=1, max_recv_sge=1, max_inline_data=64)
        if extended:
            self.cq = CQEX(context, CqInitAttrEx(cqe=256, wc_flags=e.IBV_WC_STANDARD_FLAGS))
            operations = e.IBV_QP_EX_WITH_RDMA_WRITE | e.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
            mask = e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
            init = QPInitAttrEx(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap, pd=self.pd, comp_mask=mask,
                                send_ops_flags=operations)
            self.qp = QPEx(context, init)
        else:
            self.channel = CompChannel(context)
            self.cq = CQ(context, 256, None, self.channel, 0)
            self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap))
        self.connect(access)

    def connect(self, access):
        gid = self.context.query_gid(1, GID_INDEX).gid
        mine = {"qpn": self.qp.qp_num, "psn": 0xFFFF80, "gid": gid, "va": self.mr.buf, "rkey": self.mr.rkey}
        self.remote = self.peer.exchange(mine)
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = access
        self.qp.to_init(attr)
        route = GlobalRoute(dgid=GID(self.remote["gid"]), sgid_index=GID_INDEX)
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        attr.path_mtu = e.IBV_MTU_4096
        attr.dest_qp_num, attr.rq_psn, attr.sq_psn = self.remote["qpn"], self.remote["psn"], mine["psn"]
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 14, 7, 7, 12
        self.qp.to_rts(attr)
        self.peer.exchange()

    def request(self, opcode, offset, length, imm=None, flags=e.IBV_SEND_SIGNALED):
        sge = [SGE(self.mr.buf + offset, length, self.mr.lkey)]
        wr = SendWR(wr_id=7, sg=sge, num_sge=1, opcode=opcode, send_flags=flags,
                    imm_data=0 if imm is None else socket.htonl(imm))
        wr.set_wr_rdma(self.remote["rkey"], self.remote["va"] + offset)
        return wr

    def write(self, offset, length, imm=None, **others):
        opcode = e.IBV_WR_RDMA_WRITE if imm is None else e.IBV_WR_RDMA_WRITE_WITH_IMM
        self.qp.post_send(self.request(opcode, offset, length, imm, **others))

    def write_extended(self, offset, length, imm=None):
        self.qp.wr_id, self.qp.wr_flags = 7, e.IBV_SEND_SIGNALED
        if imm is None:
            self.qp.wr_rdma_write(self.remote["rkey"], self.remote["va"] + offset)
        else:
            self.qp.wr_rdma_write_imm(self.remote["rkey"], self.remote["va"] + offset, socket.htonl(imm))
        self.qp.wr_set_sge(SGE(self.mr.buf + offset, length, self.mr.lkey))

    def receive(self, wr_id):
        # pyverbs insists on an entry, which a write with immediate does not use.
        self.qp.post_recv(RecvWR(wr_id=wr_id, num_sge=1, sg=[SGE(self.mr.buf, 0, self.mr.lkey)]))

    def close(self):
        for thing in (self.qp, self.cq, self.mr, self.pd):
            thing.close()


def pattern(length, salt):
    """Bytes that differ between any two words and salts."""
    words = range((length + 7) // 8)
    return b"".join(struct.pack("<Q", word * 0x9E3779B97F4A7C15 + salt & (1 << 64) - 1) for word in words)[:length]


def arrived(side, offset, length, salt):
    return side.mr.read(length, offset) == pattern(length, salt)


def plain(context, peer, client):
    """ibv_post_send and ibv_poll_cq; the server sleeps on a completion channel."""
    side = Side(context, peer)
    length = 300_001
    if client:
        side.mr.write(pattern(length, 1), length)
        side.write(0, length)
        done = poll(side.cq)
        check("RDMA WRITE", [(wc.status, wc.opcode) for wc in done] == [(e.IBV_WC_SUCCESS, e.IBV_WC_RDMA_WRITE)])
        peer.exchange()
        peer.exchange()
        side.mr.write(pattern(length, 2), length)
        side.write(0, length, imm=0x11223344)
        # Without bytes, and with bytes that the request itself carries.
        side.write(0, 0, imm=5)
        side.write(length, 16, imm=6, flags=e.IBV_SEND_SIGNALED | e.IBV_SEND_INLINE)
        check("WRITE_IMM of 300001, 0 and 16 bytes inline", [wc.status for wc in poll(side.cq, 3)] == [e.IBV_WC_SUCCESS] * 3)
    else:
        peer.exchange()
        check("RDMA WRITE placed", arrived(side, 0, length, 1))
        side.cq.req_notify()
        for number in range(3):
            side.receive(number)
        peer.exchange()
        side.channel.get_cq_event(side.cq)
        side.cq.ack_events(1)
        done = poll(side.cq, 3)
        wanted = [(number, e.IBV_WC_RECV_RDMA_WITH_IMM, imm) for number, imm in enumerate((0x11223344, 5, 6))]
        check("WRITE_IMM received in order", [(wc.wr_id, wc.opcode, socket.ntohl(wc.imm_data)) for wc in done] == wanted)
        check("WRITE_IMM lengths", [wc.byte_len for wc in done] == [length, 0, 16])
        check("WRITE_IMM placed", arrived(side, 0, length, 2))
    peer.exchange()
    return side


def extended(context, peer, client):
    """ibv_wr_* and the extended CQ."""
    side = Side(context, peer, extended=True)
    if client:
        side.mr.write(pattern(SIZE, 3), SIZE)
        side.qp.wr_start()
        for part in range(4):
            side.write_extended(part * SIZE // 4, SIZE // 4, imm=9 if part == 3 else None)
        side.qp.wr_complete()
        wanted = [(e.IBV_WC_SUCCESS, e.IBV_WC_RDMA_WRITE)] * 4
        check("QPEx: three writes and a WRITE_IMM", [done[:2] for done in poll_extended(side.cq, 4)] == wanted)
        side.qp.wr_start()
        side.write_extended(0, 8)
        side.qp.wr_abort()
        check("QPEx: wr_abort posts nothing", side.cq.start_poll(PollCqAttr()) == 2)
        peer.exchange()
    else:
        side.receive(1)
        wanted = [(e.IBV_WC_SUCCESS, e.IBV_WC_RECV_RDMA_WITH_IMM, 9)]
        check("CQEX: WRITE_IMM", poll_extended(side.cq) == wanted)
        check("QPEx: all parts placed", arrived(side, 0, SIZE, 3))
        peer.exchange()
    peer.exchange()
    side.close()


def bad_input(context, peer, client, side):
    """What MRC does not have, and what nobody has."""
    operations = [("SEND", e.IBV_WR_SEND), ("SEND_IMM", e.IBV_WR_SEND_WITH_IMM), ("READ", e.IBV_WR_RDMA_READ),
                  ("ATOMIC", e.IBV_WR_ATOMIC_CMP_AND_SWP)]
    for name, opcode in operations:
        refused(name, lambda opcode=opcode: side.qp.post_send(side.request(opcode, 0, 8)), 95)
    two = [SGE(side.mr.buf, 8, side.mr.lkey)] * 2
    many = SendWR(sg=two, num_sge=2, opcode=e.IBV_WR_RDMA_WRITE)
    many.set_wr_rdma(side.remote["rkey"], side.remote["va"])
    refused("two pieces where one was asked for", lambda: side.qp.post_send(many), 22)
    refused("inline beyond max_inline_data", lambda: side.write(0, 4096, flags=e.IBV_SEND_INLINE), 22)
    refused("REMOTE_WRITE without LOCAL_WRITE", lambda: MR(side.pd, 4096, e.IBV_ACCESS_REMOTE_WRITE), 22)
    refused("UD queue pair", lambda: QP(side.pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=side.cq, rcq=side.cq)), 95)
    mask = e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
    send = QPInitAttrEx(qp_type=e.IBV_QPT_RC, scq=side.cq, rcq=side.cq, pd=side.pd, comp_mask=mask,
                        send_ops_flags=e.IBV_QP_EX_WITH_SEND)
    refused("QPEx with SEND", lambda: QPEx(context, send), 95)
    refused("RTS from RESET", lambda: QP(side.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=side.cq, rcq=side.cq)).modify(
        QPAttr(qp_state=e.IBV_QPS_RTS), e.IBV_QP_STATE), 22)
    if client:
        side.write(0, 64)
        check("still works", [wc.status for wc in poll(side.cq)] == [e.IBV_WC_SUCCESS])
        peer.exchange()
        side.remote["rkey"] ^= 1 << 31
        side.write(0, 64)
        check("wrong R_Key", [wc.status for wc in poll(side.cq)] == [e.IBV_WC_REM_ACCESS_ERR])
    else:
        peer.exchange()
    peer.exchange()
    side.close()
    side = Side(context, peer, access=WRITABLE if client else e.IBV_ACCESS_LOCAL_WRITE)
    if client:
        side.mr.write(pattern(64, 4), 64)
        side.write(0, 64)
        check("queue pair without REMOTE_WRITE", [wc.status for wc in poll(side.cq)] == [e.IBV_WC_REM_ACCESS_ERR])
    peer.exchange()
    if not client:
        check("nothing placed through it", not arrived(side, 0, 64, 4))
    side.close()


def main():
    client = sys.argv[1] == "client"
    peer = Peer(sys.argv[2] if client else None)
    context = Context(name="mrc0")
    side = plain(context, peer, client)
    extended(context, peer, client)
    bad_input(context, peer, client, side)
    peer.exchange()
    context.close()
    return failed


if __name__ == "__main__":
    sys.exit(main())
