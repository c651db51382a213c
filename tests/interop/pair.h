/* Queue pairs of one device that are connected to each other, through the host's first switch. */
#ifndef MRC_INTEROP_PAIR_H
#define MRC_INTEROP_PAIR_H

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include "check.h"

#define SIZE (1 << 20)

static struct ibv_context *ctx;
static struct ibv_pd *pd;

/* One completion, or none within the time. */
static int one(struct ibv_cq *cq, struct ibv_wc *wc, double seconds) {
    double end = now() + seconds;
    while (now() < end) {
        int n = ibv_poll_cq(cq, 1, wc);
        if (n) return n;
    }
    return 0;
}

static struct ibv_qp *make_qp(struct ibv_cq *cq, uint32_t receives, uint32_t inline_bytes) {
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 64, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = inline_bytes},
    };
    return ibv_create_qp(pd, &init);
}

static int to_init(struct ibv_qp *qp) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct ibv_qp *qp, uint32_t peer) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = peer, .rq_psn = 0xfffffe};
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.sgid_index = 3;
    if (ibv_query_gid(ctx, 1, 3, &attr.ah_attr.grh.dgid)) return -1;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ibv_qp *qp) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .sq_psn = 0xfffffe, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_MAX_QP_RD_ATOMIC);
}

static int join(struct ibv_qp *a, struct ibv_qp *b) {
    return to_init(a) || to_init(b) || to_rtr(a, b->qp_num) || to_rtr(b, a->qp_num) || to_rts(a) || to_rts(b);
}

static int post(struct ibv_qp *qp, struct ibv_mr *from, size_t offset, uint32_t len, struct ibv_mr *to, int opcode, int flags) {
    struct ibv_sge sge = {.addr = (uintptr_t)from->addr + offset, .length = len, .lkey = from->lkey};
    struct ibv_send_wr wr = {.wr_id = 0x1234, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags}, *bad;
    wr.imm_data = htonl(0xfeed);
    wr.wr.rdma.remote_addr = (uintptr_t)to->addr + offset;
    wr.wr.rdma.rkey = to->rkey;
    return ibv_post_send(qp, &wr, &bad);
}

static int receive(struct ibv_qp *qp, uint64_t wr_id) {
    struct ibv_recv_wr wr = {.wr_id = wr_id}, *bad;
    return ibv_post_recv(qp, &wr, &bad);
}

#endif
