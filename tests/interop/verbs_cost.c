/* What a post and a poll cost the application while the rings have room: medians of bursts, in nanoseconds per call.
 * Two queue pairs of one device, connected through the first switch. The device sleeps between bursts; the post that wakes
 * it, which costs a system call, is counted apart. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BURST = 64, ROUNDS = 300 };

#define NEED(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "line %d: %s: %m\n", __LINE__, #condition);                                                    \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static int order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, count, sizeof *values, order);
    return values[count / 2];
}

int main(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    NEED(list && list[0]);
    struct ibv_context *ctx = ibv_open_device(list[0]);
    NEED(ctx);
    struct ibv_pd *pd = ibv_alloc_pd(ctx);
    struct ibv_cq *cq = ibv_create_cq(ctx, 4096, NULL, NULL, 0);
    NEED(pd && cq);
    char *memory = aligned_alloc(4096, 4096);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    NEED(mr);
    struct ibv_qp *qp[2];
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_init_attr init = {
            .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1024, .max_send_sge = 1}};
        NEED(qp[i] = ibv_create_qp(pd, &init));
    }
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
        NEED(!ibv_modify_qp(qp[i], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
        attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = qp[!i]->qp_num};
        attr.ah_attr.is_global = 1;
        NEED(!ibv_query_gid(ctx, 1, 3, &attr.ah_attr.grh.dgid));
        NEED(!ibv_modify_qp(qp[i], &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN));
        attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
        NEED(!ibv_modify_qp(qp[i], &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
    }
    struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 8, .lkey = mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)memory + 64;
    wr.wr.rdma.rkey = mr->rkey;
    static double first[ROUNDS], post[ROUNDS], found[ROUNDS], empty[ROUNDS];
    struct ibv_wc wc;
    for (int round = 0; round < ROUNDS; round++) {
        /* The first one wakes the device, which has slept since the last round. */
        double start = now();
        NEED(!ibv_post_send(qp[0], &wr, &bad));
        first[round] = now() - start;
        start = now();
        for (int i = 1; i < BURST; i++) NEED(!ibv_post_send(qp[0], &wr, &bad));
        post[round] = (now() - start) / (BURST - 1);
        usleep(3000); /* All of them complete meanwhile, or the burst is polled in two goes. */
        start = now();
        int n = 0;
        while (ibv_poll_cq(cq, 1, &wc) == 1) n++, wc.status != IBV_WC_SUCCESS ? abort() : (void)0;
        found[round] = n ? (now() - start) / (n + 1) : 1e9;
        for (double end = now() + 5e9; n < BURST && now() < end;) n += ibv_poll_cq(cq, 1, &wc);
        NEED(n == BURST);
        start = now();
        for (int i = 0; i < BURST; i++) n += ibv_poll_cq(cq, 1, &wc);
        empty[round] = (now() - start) / BURST;
        NEED(n == BURST);
    }
    printf("post %.0f ns, poll %.0f ns, empty poll %.0f ns; a post that wakes the device %.0f ns\n", median(post, ROUNDS),
           median(found, ROUNDS), median(empty, ROUNDS), median(first, ROUNDS));
    return 0;
}
