/* Rules of verbs that programs rest on without saying so: when a completion makes an event, what goes with a queue pair,
 * what is granted, and what a child after fork may do. Two queue pairs of one device, connected to each other through the
 * host's first switch. One line per check. */
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "pair.h"

static int readable(int fd) {
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, 0) == 1;
}

/* Whether the channel has an event now; takes it. */
static int event_of(struct ibv_comp_channel *channel, int milliseconds) {
    struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *context;
    if (poll(&fd, 1, milliseconds) != 1) return 0;
    NEED("event", !ibv_get_cq_event(channel, &cq, &context));
    ibv_ack_cq_events(cq, 1);
    return 1;
}

/* Lets completions of `count` writes come without polling for them. */
static void complete(struct ibv_qp *qp, struct ibv_mr *from, struct ibv_mr *to, int count) {
    volatile unsigned char *last = (unsigned char *)to->addr + 7;
    for (int i = 0; i < count; i++) {
        ((unsigned char *)from->addr)[7] = *last + 1;
        NEED("post", !post(qp, from, 0, 8, to, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED));
        while (*last != ((unsigned char *)from->addr)[7]) usleep(100);
    }
    usleep(100000); /* for the acknowledgement */
}

static void notification(struct ibv_mr *from, struct ibv_mr *to) {
    struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
    struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, channel, 0);
    struct ibv_qp *a = make_qp(cq, 0, 0), *b = make_qp(cq, 16, 0);
    NEED("queue pairs", channel && cq && a && b && !join(a, b));
    struct ibv_wc wc[4];

    complete(a, from, to, 1);
    NEED("notify", !ibv_req_notify_cq(cq, 0));
    CHECK("a completion that is there makes no event", !event_of(channel, 200));
    complete(a, from, to, 1);
    CHECK("  the next one does", event_of(channel, 5000) && ibv_poll_cq(cq, 4, wc) == 2);
    complete(a, from, to, 1);
    CHECK("  and one without a request does not", !event_of(channel, 200) && ibv_poll_cq(cq, 4, wc) == 1);

    /* Takes an event, asks for the next, polls once: as many completions as events. */
    NEED("notify", !ibv_req_notify_cq(cq, 0));
    int lost = 0;
    for (int i = 0; i < 2000 && !lost; i++) {
        NEED("post", !post(a, from, 0, 8, to, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED));
        lost = !event_of(channel, 5000) || ibv_req_notify_cq(cq, 0) || ibv_poll_cq(cq, 1, wc) != 1;
    }
    CHECK("an event, a request, one poll: 2000 completions", !lost);

    /* Now a request for any completion waits; this event uses it up. */
    complete(a, from, to, 1);
    NEED("event", event_of(channel, 5000));
    NEED("notify", !ibv_req_notify_cq(cq, 1));
    CHECK("solicited only: one that is there makes no event", !event_of(channel, 200) && ibv_poll_cq(cq, 4, wc) == 1);
    complete(a, from, to, 1);
    CHECK("  one that nobody solicited makes none", !event_of(channel, 200) && ibv_poll_cq(cq, 4, wc) == 1);
    NEED("receive", !receive(b, 1) && !receive(b, 2));
    NEED("post", !post(a, from, 0, 8, to, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SOLICITED));
    CHECK("  a solicited one does", event_of(channel, 5000) && one(cq, wc, 1) == 1);
    NEED("notify", !ibv_req_notify_cq(cq, 0) && !ibv_req_notify_cq(cq, 1));
    complete(a, from, to, 1);
    CHECK("  and does not lower a request for any", event_of(channel, 5000) && ibv_poll_cq(cq, 4, wc) == 1);
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    NEED("notify", !ibv_req_notify_cq(cq, 1) && !ibv_modify_qp(b, &error, IBV_QP_STATE));
    CHECK("  and hears of one that failed", event_of(channel, 5000) && one(cq, wc, 1) == 1 && wc->status == IBV_WC_WR_FLUSH_ERR);
    NEED("destroy", !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));
}

/* A request with a wrong key completes after the older ones, which succeed; those behind it are flushed. */
static void in_order(struct ibv_mr *from, struct ibv_mr *to) {
    struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
    struct ibv_qp *a = make_qp(cq, 0, 0), *b = make_qp(cq, 0, 0);
    struct ibv_wc wc[8];
    NEED("queue pairs", cq && a && b && !join(a, b));
    for (uint64_t id = 0; id < 8; id++) {
        struct ibv_sge sge = {.addr = (uintptr_t)from->addr, .length = SIZE, .lkey = from->lkey ^ (id >= 5)};
        struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
        wr.wr.rdma.remote_addr = (uintptr_t)to->addr;
        wr.wr.rdma.rkey = to->rkey;
        NEED("post", !ibv_post_send(a, &wr, &bad));
    }
    int order = 1;
    for (uint64_t id = 0; id < 8; id++) {
        enum ibv_wc_status want = id < 5 ? IBV_WC_SUCCESS : id == 5 ? IBV_WC_LOC_PROT_ERR : IBV_WC_WR_FLUSH_ERR;
        order &= one(cq, wc, 10) == 1 && wc->wr_id == id && wc->status == want;
    }
    CHECK("a refused request completes in its turn", order);
    CHECK("polling for no completion needs no room", ibv_poll_cq(cq, 0, NULL) == 0 && ibv_poll_cq(cq, -1, wc) < 0);
    NEED("destroy", !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq));
}

/* Requests that wait go with their queue pair, without a message. */
static void destroyed(void) {
    struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
    struct ibv_wc wc;
    int error = dup(2), caught[2];
    char text[4096];
    NEED("pipe", cq && !pipe(caught) && dup2(caught[1], 2) == 2);
    for (int round = 0; round < 4; round++) {
        struct ibv_qp *a = make_qp(cq, 600, 0), *b = make_qp(cq, 600, 0);
        NEED("queue pairs", a && b && !join(a, b));
        for (int i = 0; i < 600; i++) NEED("receive", !receive(a, i) && !receive(b, i));
        NEED("destroy", !ibv_destroy_qp(a) && !ibv_destroy_qp(b));
    }
    usleep(100000);
    dup2(error, 2);
    close(caught[1]);
    ssize_t length = read(caught[0], text, sizeof text - 1);
    if (length > 0) printf("%.*s", (int)length, text);
    CHECK("receives that wait go with their queue pair, silently", length == 0 && one(cq, &wc, 0.1) == 0);
    close(caught[0]);
    close(error);
    NEED("destroy", !ibv_destroy_cq(cq));
}

static void granted(struct ibv_mr *from, struct ibv_mr *to) {
    struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 64, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64},
    };
    struct ibv_qp *a = ibv_create_qp(pd, &init), *b = ibv_create_qp(pd, &init);
    struct ibv_wc wc;
    NEED("queue pairs", cq && a && b && !join(a, b));
    memset(from->addr, 0x42, 512);
    memset(to->addr, 0, 513);
    CHECK("who asks for 64 bytes inline is granted 512", init.cap.max_inline_data >= 512);
    CHECK("  and may post them",
          !post(a, from, 0, 512, to, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_INLINE) && one(cq, &wc, 5) == 1 &&
              wc.status == IBV_WC_SUCCESS && !memcmp(from->addr, to->addr, 512));
    NEED("destroy", !ibv_destroy_qp(a) && !ibv_destroy_qp(b));
    struct ibv_qp_init_attr_ex ex = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = init.cap,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = pd,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
    };
    ex.cap.max_inline_data = 64;
    struct ibv_qp *extended = ibv_create_qp_ex(ctx, &ex);
    CHECK("create_qp_ex tells what it granted, too", extended && ex.cap.max_inline_data >= 512);
    /* More bytes than a number counts, which must not be taken for few. */
    struct ibv_qp_ex *batch = ibv_qp_to_qp_ex(extended);
    struct ibv_data_buf pieces[] = {{from->addr, SIZE_MAX}, {from->addr, 2}};
    struct ibv_qp *c = make_qp(cq, 0, 0);
    NEED("queue pairs", c && !join(extended, c));
    ibv_wr_start(batch);
    ibv_wr_rdma_write(batch, to->rkey, (uintptr_t)to->addr);
    ibv_wr_set_inline_data_list(batch, 2, pieces);
    CHECK("  and refuses too much inline data", ibv_wr_complete(batch) == EINVAL);
    CHECK("no data inline needs no room for any", !post(c, from, 0, 0, to, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_INLINE) &&
                                                      one(cq, &wc, 5) == 1 && wc.status == IBV_WC_SUCCESS);
    NEED("destroy", !ibv_destroy_qp(extended) && !ibv_destroy_qp(c));
    ex.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
    extended = ibv_create_qp_ex(ctx, &ex);
    ex.create_flags = IBV_QP_CREATE_SCATTER_FCS, errno = 0;
    CHECK("create_qp_ex takes creation flags that ask for nothing, and no others",
          extended && !ibv_destroy_qp(extended) && !ibv_create_qp_ex(ctx, &ex) && errno == EOPNOTSUPP);
    struct ibv_device_attr device;
    struct ibv_qp_init_attr two = init;
    two.cap.max_send_sge = 2;
    errno = 0;
    CHECK("more pieces to send than max_sge are EINVAL",
          !ibv_query_device(ctx, &device) && device.max_sge == 1 && !ibv_create_qp(pd, &two) && errno == EINVAL);
    two.cap.max_send_sge = 1, two.cap.max_recv_sge = 2, errno = 0;
    CHECK("  and so are more to receive", !ibv_create_qp(pd, &two) && errno == EINVAL);
    NEED("destroy", !ibv_destroy_cq(cq));
    errno = 0;
    CHECK("memory at address 0 is EFAULT", !ibv_reg_mr(pd, NULL, 4096, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT);
    CHECK("  and so is more than there is", !ibv_reg_mr(pd, from->addr, SIZE_MAX / 2, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT);
    CHECK("  no length is EINVAL", !ibv_reg_mr(pd, from->addr, 0, IBV_ACCESS_LOCAL_WRITE) && errno == EINVAL);
    errno = 0;
    CHECK("rights that MRC lacks are EOPNOTSUPP",
          !ibv_reg_mr(pd, from->addr, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND) && errno == EOPNOTSUPP);
    CHECK("  and rights that verbs do not know EINVAL",
          !ibv_reg_mr(pd, from->addr, 4096, IBV_ACCESS_LOCAL_WRITE | 1 << 15) && errno == EINVAL);
}

/* Posts writes with immediate for some seconds while one of the two queues is not polled; how many were posted. */
static int flood(struct ibv_qp *qp, struct ibv_mr *from, struct ibv_mr *to, int opcode, struct ibv_cq *polled, int *polls) {
    struct ibv_wc wc;
    int posted = 0;
    for (double end = now() + 3; now() < end;) {
        int code = post(qp, from, 0, 8, to, opcode, IBV_SEND_SIGNALED);
        if (!code) posted++;
        else if (code != ENOMEM) return -1;
        else usleep(1000);
        while (polled && ibv_poll_cq(polled, 1, &wc) == 1) *polls += wc.status == IBV_WC_SUCCESS;
    }
    return posted;
}

/* A completion queue that nobody polls loses nothing and fails nobody: who completes there waits. */
static void unpolled(struct ibv_mr *from, struct ibv_mr *to) {
    struct ibv_cq *writes = ibv_create_cq(ctx, 64, NULL, NULL, 0), *receives = ibv_create_cq(ctx, 64, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {
        .send_cq = writes,
        .recv_cq = receives,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 64, .max_recv_wr = 2000, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_wc wc;
    struct ibv_qp *a = ibv_create_qp(pd, &init), *b = ibv_create_qp(pd, &init);
    NEED("queue pairs", writes && receives && a && b && !join(a, b));
    int done = 0, posted = flood(a, from, to, IBV_WR_RDMA_WRITE, NULL, NULL), good = 1;
    CHECK("writes go on until their completions fill the queue, then posts are ENOMEM", posted > 512 && posted < 2000);
    while (one(writes, &wc, done < posted ? 5 : 0.2)) done++, good &= wc.status == IBV_WC_SUCCESS;
    CHECK("  and none of these completions is lost", good && done == posted);
    for (int i = 0; i < 1500; i++) NEED("receive", !receive(b, i));
    done = 0;
    posted = flood(a, from, to, IBV_WR_RDMA_WRITE_WITH_IMM, writes, &done);
    CHECK("writes with immediate wait where nobody polls for them", posted > done && done >= 512 && done < 1500);
    for (uint64_t next = 0; next < 1500 && good; next++) {
        while (!(good = ibv_poll_cq(receives, 1, &wc)) || good < 0) {
            if (one(writes, &wc, 0.001)) done++;
            if (posted < 1500 && !post(a, from, 0, 8, to, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED)) posted++;
        }
        good = wc.status == IBV_WC_SUCCESS && wc.wr_id == next;
    }
    while (done < posted && one(writes, &wc, 5)) done++;
    CHECK("  and go on in order when somebody does", good && done == posted);
    NEED("destroy", !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(writes) && !ibv_destroy_cq(receives));
}

/* A completion queue grows, also while completions come and wait in it; they keep their order. It cannot be smaller than what waits. */
static void resized(struct ibv_mr *from, struct ibv_mr *to) {
    enum { WRITES = 3000 };
    struct ibv_cq *cq = ibv_create_cq(ctx, 1, NULL, NULL, 0);
    struct ibv_qp *a = make_qp(cq, 0, 0), *b = make_qp(cq, 0, 0);
    struct ibv_wc wc;
    uint64_t next = 0;
    NEED("queue pairs", cq && a && b && !join(a, b));
    for (int posted = 0; posted < WRITES; posted++) {
        struct ibv_send_wr wr = {.wr_id = posted, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
        int code;
        if (posted % 1000 == 100) NEED("resize", !ibv_resize_cq(cq, posted + 1000));
        for (double end = now() + 5; (code = ibv_post_send(a, &wr, &bad)) == ENOMEM && now() < end;) usleep(100);
        NEED("post", !code);
    }
    CHECK("a completion queue grows while completions come", cq->cqe == 3100);
    usleep(200000);
    CHECK("  and holds as many as it was asked to", ibv_resize_cq(cq, WRITES - 1) == EINVAL && cq->cqe == 3100 && !ibv_resize_cq(cq, WRITES) && cq->cqe == WRITES);
    while (one(cq, &wc, 0.5) && wc.wr_id == next && wc.status == IBV_WC_SUCCESS) next++;
    CHECK("  in their order", next == WRITES);
    CHECK("  and a queue that is empty shrinks", !ibv_resize_cq(cq, 1) && cq->cqe == 1);
    NEED("destroy", !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq));
}

/* A step of a queue pair takes its own attributes, all that it needs, and changes nothing where one is missing or too many. */
static void steps(void) {
    struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
    struct ibv_qp *qp = make_qp(cq, 4, 0);
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .dest_qp_num = 77, .path_mtu = IBV_MTU_256}, told;
    struct ibv_qp_init_attr init_told;
    const int needs[] = {IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_ACCESS_FLAGS};
    const int foreign[] = {IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_TIMEOUT, IBV_QP_QKEY, IBV_QP_CAP};
    int all = IBV_QP_STATE | needs[0] | needs[1] | needs[2], refused = 1;
    NEED("queue pair", cq && qp);
    for (int i = 0; i < 3; i++) refused &= ibv_modify_qp(qp, &init, all & ~needs[i]) == EINVAL;
    for (int i = 0; i < 8; i++) refused &= ibv_modify_qp(qp, &init, all | foreign[i]) == EINVAL;
    CHECK("INIT takes three attributes, no less and no others", refused);
    CHECK("  and a refusal changes nothing", !ibv_query_qp(qp, &told, IBV_QP_STATE, &init_told) && told.qp_state == IBV_QPS_RESET &&
                                                 !told.dest_qp_num && !told.path_mtu && qp->state == IBV_QPS_RESET);
    NEED("INIT", !to_init(qp));
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = qp->qp_num};
    int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    rtr.ah_attr.is_global = 1;
    rtr.ah_attr.grh.sgid_index = 4;
    NEED("GID", !ibv_query_gid(ctx, 1, 3, &rtr.ah_attr.grh.dgid));
    CHECK("a source GID that is not in the table is EINVAL", ibv_modify_qp(qp, &rtr, rtr_mask) == EINVAL);
    CHECK("  so is a step with an attribute of the next one", (rtr.ah_attr.grh.sgid_index = 3, ibv_modify_qp(qp, &rtr, rtr_mask | IBV_QP_SQ_PSN) == EINVAL));
    NEED("RTS", !to_rtr(qp, qp->qp_num) && !to_rts(qp));
    struct ibv_qp_attr later = {.qp_state = IBV_QPS_RTS, .timeout = 3, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    CHECK("in RTS timers are EINVAL", ibv_modify_qp(qp, &later, IBV_QP_TIMEOUT) == EINVAL && ibv_modify_qp(qp, &later, IBV_QP_RETRY_CNT) == EINVAL);
    CHECK("  and rights may change", !ibv_modify_qp(qp, &later, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS) && !ibv_modify_qp(qp, &later, IBV_QP_ACCESS_FLAGS));
    struct ibv_qp_attr drain = {.qp_state = IBV_QPS_SQD}, reset = {.qp_state = IBV_QPS_RESET};
    CHECK("  and SQD is EOPNOTSUPP", ibv_modify_qp(qp, &drain, IBV_QP_STATE) == EOPNOTSUPP && qp->state == IBV_QPS_RTS);
    CHECK("RESET forgets the attributes", !ibv_modify_qp(qp, &reset, IBV_QP_STATE) && !ibv_query_qp(qp, &told, ~0, &init_told) &&
                                              told.qp_state == IBV_QPS_RESET && !told.timeout && !told.retry_cnt && !told.dest_qp_num &&
                                              !told.sq_psn && !told.qp_access_flags && told.cap.max_recv_wr == 4);
    rtr.rq_psn = 0x1000007, rtr.dest_qp_num = qp->qp_num | 0x5000000;
    CHECK("numbers of 24 bits are told as the wire has them", !to_init(qp) && !ibv_modify_qp(qp, &rtr, rtr_mask) && !ibv_query_qp(qp, &told, ~0, &init_told) &&
                                                                  told.rq_psn == 7 && told.dest_qp_num == qp->qp_num);
    CHECK("names and rates are those of rdma-core", !strcmp(ibv_port_state_str(IBV_PORT_ACTIVE), "active") &&
                                                        !strcmp(ibv_event_type_str(IBV_EVENT_WQ_FATAL), "WQ fatal") &&
                                                        ibv_rate_to_mbps(IBV_RATE_600_GBPS) == 637500 && mbps_to_ibv_rate(1275000) == IBV_RATE_1200_GBPS &&
                                                        ibv_rate_to_mult(IBV_RATE_400_GBPS) == 160 && mult_to_ibv_rate(11) == IBV_RATE_28_GBPS);
    NEED("destroy", !ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
}

/* Requests of one connection never show in the next, whose queue pairs have the same numbers. A query says the state anew. */
static void reconnected(struct ibv_mr *from, struct ibv_mr *to) {
    struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
    struct ibv_qp *a = make_qp(cq, 0, 0), *b = make_qp(cq, 600, 0);
    struct ibv_qp_attr attr, reset = {.qp_state = IBV_QPS_RESET};
    struct ibv_qp_init_attr init;
    struct ibv_wc wc[2];
    int good = 1, known = 1;
    NEED("queue pairs", cq && a && b && !join(a, b));
    for (int round = 0; round < 100 && good; round++) {
        struct ibv_mr wrong = *to;
        wrong.rkey = 3;
        for (int i = 0; i < 600; i++) NEED("receive", !receive(b, 1000 + i));
        NEED("post", !post(a, from, 0, 8, &wrong, IBV_WR_RDMA_WRITE, 0));
        if (round % 4 == 0) {
            /* Its peer fails first, and flushes its receives. */
            do good = one(cq, wc, 5) == 1;
            while (good && wc->qp_num != a->qp_num);
            known &= !ibv_query_qp(a, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR && a->state == IBV_QPS_ERR;
        }
        NEED("reset", !ibv_modify_qp(a, &reset, IBV_QP_STATE) && !ibv_modify_qp(b, &reset, IBV_QP_STATE));
        /* What the CQ has no room for follows as it is polled, when the library has a turn: on a busy machine that takes a while. */
        while (one(cq, wc, 0.05)) {}
        NEED("connect", !join(a, b) && !receive(b, 5) && !post(a, from, 0, 8, to, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED));
        good = good && one(cq, wc, 5) == 1 && one(cq, wc + 1, 5) == 1 && wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS &&
               wc[0].wr_id + wc[1].wr_id == 0x1234 + 5;
        NEED("reset", !ibv_modify_qp(a, &reset, IBV_QP_STATE) && !ibv_modify_qp(b, &reset, IBV_QP_STATE) && !join(a, b));
    }
    CHECK("no request of an earlier connection shows in the next one", good);
    CHECK("a query makes the state of a queue pair that failed known", known);
    NEED("destroy", !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq));
}

/* The next asynchronous event of `qp`, acknowledged; -1 when none comes. */
static int async_event(struct ibv_qp *qp, int milliseconds) {
    struct pollfd fd = {.fd = ctx->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    if (poll(&fd, 1, milliseconds) != 1) return -1;
    NEED("event", !ibv_get_async_event(ctx, &event) && event.element.qp == qp);
    ibv_ack_async_event(&event);
    return event.event_type;
}

/* The first data that arrives in RTR is an event, once for each connection; data in RTS is none. */
static void established(struct ibv_mr *from, struct ibv_mr *to) {
    struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
    struct ibv_qp *a = make_qp(cq, 0, 0), *b = make_qp(cq, 4, 0);
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    struct ibv_wc wc;
    NEED("queue pairs", cq && a && b);
    for (int round = 0; round < 2; round++) {
        NEED("RTR", !to_init(a) && !to_init(b) && !to_rtr(a, b->qp_num) && !to_rtr(b, a->qp_num) && !to_rts(a));
        CHECK("no event before the first data", async_event(b, 100) == -1);
        for (int i = 0; i < 3; i++)
            NEED("write", !post(a, from, 0, 8, to, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED) && one(cq, &wc, 5) == 1 && wc.status == IBV_WC_SUCCESS);
        CHECK("  the first data in RTR is IBV_EVENT_COMM_EST", async_event(b, 5000) == IBV_EVENT_COMM_EST);
        NEED("RTS", !to_rts(b));
        CHECK("  and what follows is none", async_event(b, 100) == -1);
        NEED("reset", !ibv_modify_qp(a, &reset, IBV_QP_STATE) && !ibv_modify_qp(b, &reset, IBV_QP_STATE));
    }
    NEED("queue pairs", !join(a, b));
    NEED("write", !post(a, from, 0, 8, to, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED) && one(cq, &wc, 5) == 1);
    CHECK("data that arrives in RTS is no event", async_event(b, 100) == -1);
    NEED("destroy", !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq));
}

/* A region changes its memory, rights and domain. */
static void reregistered(struct ibv_mr *from) {
    struct ibv_pd *other = ibv_alloc_pd(ctx);
    struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
    struct ibv_qp *a = make_qp(cq, 0, 0), *b = make_qp(cq, 0, 0);
    struct ibv_wc wc;
    char *memory = calloc(2, 4096);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
    NEED("objects", other && mr && cq && a && b && !join(a, b));
    CHECK("rereg_mr without sense", ibv_rereg_mr(mr, 16, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL &&
                                        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT &&
                                        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT &&
                                        ibv_rereg_mr(mr, 0, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE) == IBV_REREG_MR_ERR_INPUT);
    uint32_t key = mr->rkey;
    CHECK("  refused by the device", ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE) == IBV_REREG_MR_ERR_CMD &&
                                         errno == EINVAL && mr->rkey == key && mr->addr == memory);
    CHECK("  with other rights alone it keeps its keys",
          !ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) && mr->rkey == key && mr->lkey == key);
    CHECK("  and is written through them", !post(a, from, 0, 8, mr, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED) && one(cq, &wc, 5) == 1 && wc.status == IBV_WC_SUCCESS);
    CHECK("  with other rights and other memory",
          !ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory + 4096, 4096,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) && mr->addr == memory + 4096);
    memset(from->addr, 0x77, 8);
    memset(memory, 0, 8);
    CHECK("  it is written through the new key", !post(a, from, 0, 8, mr, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED) && one(cq, &wc, 5) == 1 &&
                                                     wc.status == IBV_WC_SUCCESS && memory[4096] == 0x77 && !memory[0]);
    key = mr->rkey;
    CHECK("  in another domain, with its keys", !ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0) && mr->pd == other &&
                                                    ibv_dealloc_pd(other) == EBUSY && mr->rkey == key);
    CHECK("  where queue pairs of the first do not find it", !post(a, from, 0, 8, mr, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED) && one(cq, &wc, 5) == 1 &&
                                                                 wc.status == IBV_WC_REM_ACCESS_ERR);
    CHECK("  and goes", !ibv_dereg_mr(mr) && !ibv_dealloc_pd(other));
    NEED("destroy", !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq));
    free(memory);
}

/* The same protection domain and region under other handles. */
static void shared(struct ibv_mr *from, struct ibv_mr *to) {
    int fd = dup(ctx->cmd_fd);
    struct ibv_context *second = ibv_import_device(fd);
    CHECK("a device by its descriptor", fd >= 0 && second && second->cmd_fd == fd);
    CHECK("  a descriptor of something else is none", !ibv_import_device(1) && errno == EOPNOTSUPP && !ibv_import_device(-1));
    if (!second) return;
    struct rlimit had, none;
    int spare = dup(fd);
    NEED("limits", !getrlimit(RLIMIT_NOFILE, &had));
    none = had;
    none.rlim_cur = 0;
    NEED("no descriptors left", !setrlimit(RLIMIT_NOFILE, &none));
    struct ibv_context *third = ibv_import_device(spare);
    int code = errno;
    NEED("descriptors again", !setrlimit(RLIMIT_NOFILE, &had));
    CHECK("  where none is left for it, the caller keeps his", !third && code == EMFILE && !close(spare));
    struct ibv_pd *other = ibv_import_pd(second, pd->handle), *mine = pd;
    CHECK("a protection domain by its handle", other && !ibv_import_pd(second, 12345));
    struct ibv_mr *mr = ibv_import_mr(other, to->handle), own = *to;
    CHECK("a memory region by its handle", mr && mr->rkey == to->rkey && mr->lkey == to->lkey);
    struct ibv_cq *cq = ibv_create_cq(second, 64, NULL, NULL, 0);
    pd = other;
    struct ibv_qp *a = make_qp(cq, 0, 0), *b = make_qp(cq, 0, 0);
    pd = mine;
    struct ibv_wc wc;
    NEED("queue pairs", a && b && !join(a, b));
    own.rkey = mr->rkey;
    CHECK("  and they are the same ones", !post(a, from, 0, 8, &own, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED) &&
                                              one(cq, &wc, 5) == 1 && wc.status == IBV_WC_SUCCESS);
    ibv_unimport_mr(mr);
    CHECK("  used by either", ibv_dealloc_pd(pd) == EBUSY);
    ibv_unimport_pd(other);
    CHECK("  and gone without harm", !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_close_device(second));
}

/* A child destroys what it inherited: that ends, says nothing wrong, and harms nobody. Of two events of its parent one is not
 * acknowledged, and the other waits. */
static void child(struct ibv_mr *from, struct ibv_mr *to) {
    struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
    struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, channel, 0), *told;
    void *context;
    struct ibv_qp *a = make_qp(cq, 4, 0), *b = make_qp(cq, 4, 0);
    struct ibv_mr *mine = ibv_reg_mr(pd, malloc(SIZE), SIZE, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_wc wc;
    NEED("objects", cq && a && b && mine && !join(a, b));
    for (int i = 0; i < 2; i++) {
        if (i == 1) NEED("event", !ibv_get_cq_event(channel, &told, &context));
        NEED("arm", !ibv_req_notify_cq(cq, 0) && !post(a, from, 0, 8, to, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED));
        NEED("completion", one(cq, &wc, 5) == 1 && wc.status == IBV_WC_SUCCESS);
    }
    NEED("second event", readable(channel->fd));
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;
        if (!ibv_query_qp(a, &attr, IBV_QP_STATE, &init) || ibv_req_notify_cq(cq, 0) != EIO) _exit(1);
        if (ibv_destroy_qp(a) || ibv_destroy_qp(b) || ibv_destroy_cq(cq) || ibv_dereg_mr(mine) || ibv_destroy_comp_channel(channel)) _exit(2);
        if (ibv_reg_mr(pd, malloc(SIZE), SIZE, 0) || ibv_create_cq(ctx, 1, NULL, NULL, 0)) _exit(3);
        _exit(0);
    }
    int status;
    NEED("child", waitpid(pid, &status, 0) == pid);
    CHECK("a child destroys what it inherited, and makes nothing", WIFEXITED(status) && WEXITSTATUS(status) == 0);
    NEED("post", !post(a, from, 0, 4096, to, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED));
    CHECK("  and its parent goes on", one(cq, &wc, 5) == 1 && wc.status == IBV_WC_SUCCESS);
    CHECK("  and has its event", readable(channel->fd) && !ibv_get_cq_event(channel, &told, &context) && told == cq);
    ibv_ack_cq_events(cq, 2);
    NEED("destroy", !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(mine));
    NEED("channel", !ibv_destroy_comp_channel(channel));
}

/* Whether nobody listens at the control socket of this process. */
static int silent(pid_t pid) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "/run/mrc/engines/%d-0", (int)pid);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), refused = connect(fd, (struct sockaddr *)&at, sizeof at) && errno == ECONNREFUSED;
    close(fd);
    return refused;
}

/* Somebody opens the device, forks, and is killed; the child lives on. */
static pid_t killed_with_a_child(struct ibv_device *device) {
    int tell[2];
    pid_t child;
    NEED("pipe", !pipe(tell));
    pid_t pid = fork();
    if (pid == 0) {
        struct ibv_context *theirs = ibv_open_device(device);
        if (!theirs || !ibv_alloc_pd(theirs)) _exit(1);
        child = fork();
        if (child == 0) {
            sleep(60);
            _exit(0);
        }
        if (write(tell[1], &child, sizeof child) != sizeof child) _exit(1);
        pause();
    }
    NEED("device of a child", read(tell[0], &child, sizeof child) == sizeof child);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK("a child does not hold the control socket of a parent that was killed", silent(pid));
    close(tell[0]);
    close(tell[1]);
    return child;
}

/* The device says how many regions and queue pairs there may be: neither takes from the other. */
static void counted(struct ibv_mr *from) {
    struct ibv_device_attr device;
    NEED("device attributes", !ibv_query_device(ctx, &device));
    struct ibv_mr **regions = calloc(device.max_mr + 1, sizeof *regions);
    int count = 0, left = 0;
    while (count <= device.max_mr && (regions[count] = ibv_reg_mr(pd, from->addr, 64, IBV_ACCESS_LOCAL_WRITE))) count++;
    /* Two are of the caller. */
    CHECK("as many regions as the device says, then ENOMEM", count == device.max_mr - 2 && errno == ENOMEM);
    struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
    struct ibv_qp *qp = make_qp(cq, 8, 64);
    CHECK("a queue pair with inline data needs none of them", qp != NULL);
    CHECK("it goes, and its queue", qp && !ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
    for (int i = 0; i < count; i++) left += !!ibv_dereg_mr(regions[i]);
    regions[0] = ibv_reg_mr(pd, from->addr, 64, IBV_ACCESS_LOCAL_WRITE);
    CHECK("a region that goes makes room", !left && regions[0] && !ibv_dereg_mr(regions[0]));
    free(regions);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    NEED("device", list && count > 0);
    pid_t orphan = killed_with_a_child(list[0]);
    NEED("context", (ctx = ibv_open_device(list[0])));
    pd = ibv_alloc_pd(ctx);
    kill(orphan, SIGKILL);
    CHECK("a child does not keep the device of a parent that was killed", pd != NULL);
    if (!pd) NEED("protection domain", (pd = ibv_alloc_pd(ctx)));
    struct ibv_mr *from = ibv_reg_mr(pd, calloc(1, SIZE), SIZE, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mr *to = ibv_reg_mr(pd, calloc(1, SIZE), SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    NEED("memory", from && to);
    notification(from, to);
    in_order(from, to);
    destroyed();
    granted(from, to);
    unpolled(from, to);
    resized(from, to);
    steps();
    reconnected(from, to);
    established(from, to);
    reregistered(from);
    shared(from, to);
    child(from, to);
    counted(from);
    CHECK("everything goes", !ibv_dereg_mr(from) && !ibv_dereg_mr(to) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
    printf("%d failures\n", failures);
    return failures != 0;
}
