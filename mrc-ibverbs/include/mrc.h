/* MRC: queue pairs over many paths. For programs of lib_mrc.so; link with -l_mrc (or -lnv_mrc) and -libverbs.
 *
 * Unless a line says otherwise a call answers 0, or -1 and errno; "as ibv_x" means zero or an error number. */
#ifndef MRC_H
#define MRC_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "mrc_api_ver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MRC_MAX_VENDOR_CFG_SIZE 128

struct mrc_context;
struct mrc_qp_hint;
struct mrc_qp;
struct mrc_cq;
struct mrc_comp_channel;

/* A bitmap in device attributes, one bit or 0 for a queue pair. */
enum mrc_protocol_version {
    MRC_PROTOCOL_VERSION_0 = 0, /* unspecified */
    MRC_PROTOCOL_VERSION_1 = 1,
};

enum mrc_device_cap {
    MRC_DEVICE_CAP_TRIM_NACK = 1 << 0,
    MRC_DEVICE_CAP_DYNAMIC_MPR = 1 << 1,
    MRC_DEVICE_CAP_SVC_TIME = 1 << 2,
};

struct mrc_device_attr {
    uint32_t mrc_protocol_version; /* bitmap */
    struct {
        uint16_t max_wimm;      /* writes with immediate in flight, as requester */
        uint16_t max_wimm_dest; /* as responder */
    } wimm_attr;
    struct {
        uint8_t max_mpr;        /* widest window, units of 128 PSNs */
        uint8_t mpr_resolution; /* its granularity, units of 128 PSNs */
    } mpr_attr;
    struct {
        uint32_t max_qp_hint;
    } qp_attr;
    uint32_t cap; /* enum mrc_device_cap */
};

struct mrc_context_attr {
    uint32_t mrc_api_version_used; /* MRC_API_VER_USED; 0 = latest */
    uint32_t mrc_vendor_api_version_used;
};

enum mrc_qp_hint_attr_mask {
    MRC_QP_HINT_NUM_QPS_PER_PEER = 1 << 0,
    MRC_QP_HINT_NUM_SEND_PEERS = 1 << 1,
    MRC_QP_HINT_NUM_REMOTE_RECV_PEERS = 1 << 2,
    MRC_QP_HINT_VENDOR_CFG = (int)(1u << 31),
};

struct mrc_qp_hint_attr {
    int num_qps_per_peer;      /* queue pairs of this hint that send to one peer */
    int num_send_peers;        /* peers sent to at the same time */
    int num_remote_recv_peers; /* senders that a peer receives from at the same time */
    uint8_t vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE];
};

struct mrc_qp_hint_init_attr {
    struct mrc_qp_hint_attr attr;
};

struct mrc_qp_init_attr {
    void *qp_context;
    struct mrc_cq *send_cq;
    struct mrc_cq *recv_cq;
    struct ibv_qp_cap cap;
    int sq_sig_all;
    struct ibv_pd *pd;
    uint64_t send_ops_flags; /* IBV_QP_EX_WITH_RDMA_WRITE, ..._WITH_IMM, or 0 */
    enum mrc_protocol_version protocol_version;
};

enum mrc_qp_attr_mask {
    MRC_QP_MAX_WIMM = 1 << 0,
    MRC_QP_MAX_WIMM_DEST = 1 << 1,
    MRC_QP_MPR = 1 << 2,
    MRC_QP_MPR_DEST = 1 << 3,
    MRC_QP_TIMEOUT = 1 << 4,
    MRC_QP_EV_PROFILE_ID = 1 << 5,
    MRC_QP_CC_PROFILE_ID = 1 << 6,
    MRC_QP_HINT = 1 << 7,
    MRC_QP_RETRY_CNT = 1 << 8,
    MRC_QP_CAP = 1 << 9,
    MRC_QP_VENDOR_CFG = (int)(1u << 31),
};

enum mrc_qp_cap {
    MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED = 1 << 0,
    MRC_QP_CAP_DYNAMIC_MPR = 1 << 1,
    MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED = 1 << 2,
};

struct mrc_qp_attr {
    struct {
        uint8_t mpr;      /* requester's window, units of 128 PSNs */
        uint8_t mpr_dest; /* responder's */
    } mpr;
    struct {
        uint16_t max_wimm;
        uint16_t max_wimm_dest;
    } wimm;
    uint8_t timeout; /* 1.024 us * 2^timeout, at most 24 */
    struct {
        uint64_t ev_profile_id;
        uint64_t cc_profile_id;
    } profile;
    struct {
        uint8_t linear_cnt; /* at most 7 */
        uint8_t exp_cnt;    /* at most 25, which is no limit */
    } retry;
    struct mrc_qp_hint *qp_hint; /* NULL = none */
    uint32_t cap;                /* enum mrc_qp_cap */
    uint8_t vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE];
};

struct mrc_async_event {
    union {
        struct mrc_cq *cq;
        struct mrc_qp *qp;
        int port_num;
    } element;
    enum ibv_event_type event_type;
};

/* *supported is 0 when there is no MRC device behind the context. */
int mrc_query_device(struct ibv_context *context, struct mrc_device_attr *attr, int *supported);
#if MRC_API_VER_USED >= MRC_API_VER(1, 0, 1)
int mrc_query_device_ex(struct ibv_context *context, struct mrc_context *mrc, struct mrc_device_attr *attr,
                        int *supported);
#endif
/* Needs no context. */
void mrc_query_version(uint32_t *current, uint32_t *last_supported, uint32_t *vendor, uint32_t *last_supported_vendor);

/* The parent of all that follows; NULL attributes mean the latest version. */
struct mrc_context *mrc_create_context(struct ibv_context *context, struct mrc_context_attr *attr);
int mrc_destroy_context(struct mrc_context *context);

int mrc_create_comp_channel(struct mrc_context *context, struct mrc_comp_channel **channel); /* as ibv_ */
int mrc_get_comp_channel_fd(struct mrc_comp_channel *channel, int *fd);
int mrc_destroy_comp_channel(struct mrc_comp_channel *channel); /* as ibv_ */

struct mrc_cq *mrc_create_cq(struct mrc_context *context, int cqe, void *cq_context, struct mrc_comp_channel *channel,
                             int comp_vector);
int mrc_poll_cq(struct mrc_cq *cq, int num_entries, struct ibv_wc *wc); /* how many, or -1 */
int mrc_destroy_cq(struct mrc_cq *cq);                                  /* as ibv_ */
int mrc_req_notify_cq(struct mrc_cq *cq, int solicited_only);           /* as ibv_ */
int mrc_get_cq_event(struct mrc_comp_channel *channel, struct mrc_cq **cq, void **cq_context);
void mrc_ack_cq_events(struct mrc_cq *cq, unsigned int nevents);

struct mrc_qp_hint *mrc_create_qp_hint(struct mrc_context *context, struct mrc_qp_hint_init_attr *attr);
int mrc_destroy_qp_hint(struct mrc_qp_hint *hint); /* EINVAL; EBUSY while a queue pair has it */
int mrc_query_qp_hint(struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int mask);
int mrc_modify_qp_hint(struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int mask);

struct mrc_qp *mrc_create_qp(struct mrc_context *context, struct mrc_qp_init_attr *attr);
int mrc_destroy_qp(struct mrc_qp *qp); /* as ibv_ */
int mrc_query_qp(struct mrc_qp *qp, struct ibv_qp_attr *attr, int mask, struct mrc_qp_attr *mrc_attr, int mrc_mask,
                 struct mrc_qp_init_attr *init); /* as ibv_ */
int mrc_modify_qp(struct mrc_qp *qp, struct ibv_qp_attr *attr, int mask, struct mrc_qp_attr *mrc_attr,
                  int mrc_mask); /* as ibv_ */
int mrc_get_qpn(struct mrc_qp *qp, uint32_t *qpn);

/* RDMA write and write with immediate. Receives serve writes with immediate only. */
int mrc_post_send(struct mrc_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad); /* as ibv_ */
int mrc_post_recv(struct mrc_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* Every event must be acknowledged. */
int mrc_get_async_event(struct mrc_context *context, struct mrc_async_event *event); /* as ibv_ */
void mrc_ack_async_event(struct mrc_async_event *event);

#ifdef __cplusplus
}
#endif

#endif
