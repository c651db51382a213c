/* Objects that come and go under load: threads of queue pairs on one device, connected through the first switch, whose
 * memory is deregistered and closed while its peer writes, and which are destroyed, reset and reconnected at any time. A byte
 * placed after ibv_dereg_mr returned hits a closed page and ends the program. Prints its seed.
 *
 *   verbs_stress SECONDS [SEED]
 *   verbs_stress SECONDS SEED late    closes memory too early, so that it is written late: must die of SIGSEGV */
#include <arpa/inet.h>
#include <dirent.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, PAIRS = 8, SIZE = 1 << 16 };

static struct ibv_context *ctx;
static unsigned seed;
static double end;
static int late;

struct pair {
    struct ibv_cq *cq;
    struct ibv_qp *qp[2];
    struct ibv_mr *mr[2];
    char *memory[2];
    int broken;
};

struct worker {
    pthread_t thread;
    unsigned random;
    struct ibv_pd *pd;
    struct pair pair[PAIRS];
    unsigned long writes, completions, failures, deregistered, destroyed, reset;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

#define NEED(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "line %d: %s: %m (seed %u)\n", __LINE__, #condition, seed);                                    \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

static unsigned pick(struct worker *w, unsigned n) { return rand_r(&w->random) % n; }

static void connect_qp(struct ibv_qp *qp, uint32_t peer) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = 7};
    attr.ah_attr.is_global = 1;
    NEED(!ibv_query_gid(ctx, 1, 3, &attr.ah_attr.grh.dgid));
    NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = 7};
    /* What the other side still sends to a key that is gone fails a queue pair as soon as it receives. */
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN)) {
        struct ibv_qp_init_attr init;
        NEED(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR);
    }
}

static void make_memory(struct worker *w, struct pair *p, int side) {
    p->memory[side] = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(p->memory[side] != MAP_FAILED);
    p->mr[side] = ibv_reg_mr(w->pd, p->memory[side], SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    NEED(p->mr[side]);
}

static void drop_memory(struct pair *p, int side) {
    if (late) {
        NEED(!mprotect(p->memory[side], SIZE, PROT_NONE));
        usleep(500);
    }
    NEED(!ibv_dereg_mr(p->mr[side]));
    /* Closed first, so that another thread's mapping cannot hide a late write. */
    NEED(!mprotect(p->memory[side], SIZE, PROT_NONE));
    usleep(500);
    munmap(p->memory[side], SIZE);
}

static void make_qps(struct worker *w, struct pair *p) {
    for (int side = 0; side < 2; side++) {
        struct ibv_qp_init_attr init = {
            .send_cq = p->cq,
            .recv_cq = p->cq,
            .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = pick(w, 2) * 64},
        };
        p->qp[side] = ibv_create_qp(w->pd, &init);
        NEED(p->qp[side]);
    }
    for (int side = 0; side < 2; side++) connect_qp(p->qp[side], p->qp[!side]->qp_num);
}

static void post(struct worker *w, struct pair *p, int side) {
    uint32_t len = pick(w, 4) ? pick(w, 64) : pick(w, SIZE + 1);
    struct ibv_sge sge = {.addr = (uintptr_t)p->memory[side], .length = len, .lkey = p->mr[side]->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .send_flags = pick(w, 2) * IBV_SEND_SIGNALED}, *bad;
    wr.opcode = pick(w, 4) ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.wr.rdma.remote_addr = (uintptr_t)p->memory[!side];
    wr.wr.rdma.rkey = p->mr[!side]->rkey;
    w->writes += !ibv_post_send(p->qp[side], &wr, &bad);
    struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
    ibv_post_recv(p->qp[!side], &recv, &bad_recv);
}

static void poll_some(struct worker *w, struct pair *p) {
    struct ibv_wc wc[8];
    int n = ibv_poll_cq(p->cq, 8, wc);
    NEED(n >= 0);
    for (int i = 0; i < n; i++) {
        p->broken |= wc[i].status != IBV_WC_SUCCESS;
        w->failures += wc[i].status != IBV_WC_SUCCESS;
    }
    w->completions += n;
}

static void *work(void *argument) {
    struct worker *w = argument;
    for (int i = 0; i < PAIRS; i++) {
        struct pair *p = &w->pair[i];
        NEED(p->cq = ibv_create_cq(ctx, 256, NULL, NULL, 0));
        make_memory(w, p, 0), make_memory(w, p, 1);
        make_qps(w, p);
    }
    while (now() < end) {
        struct pair *p = &w->pair[pick(w, PAIRS)];
        for (int n = pick(w, 16); n > 0; n--) post(w, p, pick(w, 2));
        poll_some(w, p);
        /* A queue pair that failed is of use again after a reset. */
        switch (p->broken && pick(w, 4) ? 2 : pick(w, 200)) {
        case 0: { /* Memory goes while it is read and written. */
            int side = pick(w, 2);
            drop_memory(p, side);
            make_memory(w, p, side);
            w->deregistered++;
            break;
        }
        case 1: /* Queue pairs go with work in them. */
            NEED(!ibv_destroy_qp(p->qp[0]) && !ibv_destroy_qp(p->qp[1]));
            make_qps(w, p);
            p->broken = 0;
            w->destroyed++;
            break;
        case 2: /* ERROR, RESET, and connected again, first one side, then the other. */
            for (int side = 0; side < 2; side++) {
                struct ibv_qp_attr attr = {.qp_state = pick(w, 2) ? IBV_QPS_ERR : IBV_QPS_RESET};
                NEED(!ibv_modify_qp(p->qp[side], &attr, IBV_QP_STATE));
                attr.qp_state = IBV_QPS_RESET;
                NEED(!ibv_modify_qp(p->qp[side], &attr, IBV_QP_STATE));
                connect_qp(p->qp[side], p->qp[!side]->qp_num);
            }
            p->broken = 0;
            w->reset++;
            break;
        }
    }
    for (int i = 0; i < PAIRS; i++) {
        struct pair *p = &w->pair[i];
        for (int side = 0; side < 2; side++) {
            NEED(!ibv_destroy_qp(p->qp[side]));
            drop_memory(p, side);
        }
        NEED(!ibv_destroy_cq(p->cq));
    }
    return NULL;
}

/* As many objects as the device has places for: none is lost. */
static void fill(void) {
    struct ibv_device_attr limits;
    NEED(!ibv_query_device(ctx, &limits));
    struct ibv_pd *pd = ibv_alloc_pd(ctx);
    struct ibv_cq **cq = calloc(limits.max_cq + 1, sizeof *cq);
    struct ibv_qp **qp = calloc(limits.max_qp + 1, sizeof *qp);
    struct ibv_mr **mr = calloc(limits.max_mr + 1, sizeof *mr);
    static char memory[4096];
    NEED(pd && cq && qp && mr);
    for (int i = 0; i < limits.max_cq; i++) NEED(cq[i] = ibv_create_cq(ctx, 1, NULL, NULL, 0));
    for (int i = 0; i < limits.max_mr; i++) NEED(mr[i] = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE));
    struct ibv_qp_init_attr init = {.send_cq = cq[0], .recv_cq = cq[0], .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1}};
    for (int i = 0; i < limits.max_qp; i++) NEED(qp[i] = ibv_create_qp(pd, &init));
    NEED(!ibv_create_cq(ctx, 1, NULL, NULL, 0) && !ibv_create_qp(pd, &init));
    NEED(!ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE));
    for (int i = 0; i < limits.max_qp; i++) NEED(!ibv_destroy_qp(qp[i]));
    for (int i = 0; i < limits.max_mr; i++) NEED(!ibv_dereg_mr(mr[i]));
    for (int i = 0; i < limits.max_cq; i++) NEED(!ibv_destroy_cq(cq[i]));
    NEED(!ibv_dealloc_pd(pd));
    free(cq), free(qp), free(mr);
}

static int descriptors(void) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    NEED(directory);
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

/* Pages of ours. */
static long resident(void) {
    long total, pages;
    FILE *file = fopen("/proc/self/statm", "r");
    NEED(file && fscanf(file, "%ld %ld", &total, &pages) == 2);
    fclose(file);
    return pages;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 10;
    seed = argc > 2 ? (unsigned)atoi(argv[2]) : (unsigned)time(NULL);
    struct ibv_device **list = ibv_get_device_list(NULL);
    NEED(list && list[0]);
    NEED(ctx = ibv_open_device(list[0]));
    ibv_free_device_list(list);
    late = argc > 3 && !strcmp(argv[3], "late");
    static struct worker workers[THREADS];
    unsigned long writes = 0, completions = 0, failures = 0, changes = 0;
    long before = 0;
    int open_before = 0;
    /* Two rounds: the second must not need more memory than the first left behind. */
    for (int round = 0; round < 2; round++) {
        end = now() + seconds / 2;
        for (int i = 0; i < THREADS; i++) {
            struct worker *w = &workers[i];
            memset(w, 0, sizeof *w);
            w->random = seed + i + round * THREADS;
            NEED(w->pd = ibv_alloc_pd(ctx));
            NEED(!pthread_create(&w->thread, NULL, work, w));
        }
        for (int i = 0; i < THREADS; i++) {
            struct worker *w = &workers[i];
            NEED(!pthread_join(w->thread, NULL));
            NEED(!ibv_dealloc_pd(w->pd));
            writes += w->writes, completions += w->completions, failures += w->failures;
            changes += w->deregistered + w->destroyed + w->reset;
        }
        if (round == 0) before = resident(), open_before = descriptors();
    }
    /* A recording that is written has a descriptor for a moment, and so has who looks at the engine (`mrc top`). */
    for (int i = 0; i < 50 && descriptors() > open_before; i++) usleep(100000);
    NEED(descriptors() <= open_before);
    long grown = (resident() - before) * 4;
    fill();
    printf("seed %u: %lu writes, %lu completions, %lu of them failed, %lu objects revoked, destroyed or reset, %ld KiB grown\n", seed,
           writes, completions, failures, changes, grown);
    NEED(!ibv_close_device(ctx));
    /* The allocator keeps some; what leaks per object would be far more. */
    NEED(grown < 8192);
    return !(writes > 100 && completions > failures + 100 && changes > 10);
}
