/* MRC, the controller's half: profiles, ports, tests of paths. Its calls need CAP_NET_ADMIN, else they fail with EPERM.
 *
 * Unless a line says otherwise a call answers 0, or -1 and errno. */
#ifndef MRC_CTL_H
#define MRC_CTL_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "mrc.h"
#include "mrc_ctl_api_ver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MRC_CTL_MAX_VENDOR_CFG_SIZE 128
#define MRC_CTL_EV_MAX_BYTES 32

enum mrc_ctl_protocol_version {
    MRC_CTL_PROTOCOL_VERSION_0 = 0,
    MRC_CTL_PROTOCOL_VERSION_1 = 1,
};

/* A profile begins in INIT, under whatever number a call names, and goes to ONLINE and back through OFFLINE. */
enum mrc_ctl_profile_state {
    MRC_CTL_PROFILE_INIT = 0,
    MRC_CTL_PROFILE_OFFLINE = 1,
    MRC_CTL_PROFILE_ONLINE = 2,
};

enum mrc_ctl_attr_opt {
    MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE = 1 << 0,
    MRC_CTL_OPT_CAP_CC_PROFILE_MODIFY_ONLINE = 1 << 1,
    MRC_CTL_OPT_CAP_EV_EVENT = 1 << 2,
    MRC_CTL_OPT_CAP_EV_EXPLICIT_RANGE = 1 << 3,
    MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT = 1 << 4,
    MRC_CTL_OPT_CAP_EP_OP_EV_PROBE = 1 << 5,
};

struct mrc_ctl_device_attr {
    uint32_t mrc_ctl_protocol_version;
    struct {
        uint32_t ev_max_fmt_profiles;
        uint32_t ev_max_profiles;
        uint32_t ev_max_count; /* EVs of all profiles together */
        uint32_t ev_free_count;
        uint32_t ev_max_count_profile; /* EVs of one profile */
        uint32_t ev_count_align;       /* explicit arrays are a multiple of this long */
        uint32_t ev_max_width;         /* bits of an EV */
        uint32_t ev_fmt_mode_mask;
        uint32_t ev_mode_mask;
        uint32_t ev_op_max_entries; /* per call, 0 = any number */
    } ev;
    struct {
        uint32_t cc_max_profiles;
        const char **algorithms; /* ends with NULL; the library's */
    } cc;
    uint32_t phy_port_mask; /* bit N is port N, ports count from 1 */
    uint32_t opt_attr;      /* enum mrc_ctl_attr_opt */
};

enum mrc_ctl_port_admin_state {
    MRC_CTL_PORT_ADMIN_DISABLED = 0,
    MRC_CTL_PORT_ADMIN_ENABLED = 1,
};

enum mrc_ctl_port_attr_mask {
    MRC_CTL_PORT_ADMIN_STATE = 1 << 0,
};

struct mrc_ctl_port_attr {
    enum mrc_ctl_port_admin_state port_admin_state;
};

enum mrc_ctl_ev_fmt_mode {
    MRC_CTL_EV_FMT_MODE_STEV = 1 << 0,
    MRC_CTL_EV_FMT_MODE_SRV6 = 1 << 1,
    MRC_CTL_EV_FMT_MODE_UDP = 1 << 2,
};

enum mrc_ctl_ev_fmt_op {
    MRC_CTL_EV_FMT_OP_MODIFY_FIELDS = 0,
    MRC_CTL_EV_FMT_OP_QUERY_FIELDS = 1,
};

struct mrc_ctl_ev_fmt_field {
    uint8_t width; /* bits */
};

enum mrc_ctl_ev_fmt_profile_attr_mask {
    MRC_CTL_EV_FMT_PROFILE_STATE = 1 << 0,
    MRC_CTL_EV_FMT_PROFILE_CUR_STATE = 1 << 1,
    MRC_CTL_EV_FMT_PROFILE_MODE = 1 << 2,
    MRC_CTL_EV_FMT_PROFILE_OP = 1 << 3,
    MRC_CTL_EV_FMT_VENDOR_CFG = (int)(1u << 31),
};

struct mrc_ctl_ev_fmt_profile_attr {
    enum mrc_ctl_profile_state profile_state;
    enum mrc_ctl_profile_state cur_profile_state;
    enum mrc_ctl_ev_fmt_mode ev_fmt_mode;
    struct {
        enum mrc_ctl_ev_fmt_op op;
        struct mrc_ctl_ev_fmt_field *fmt_fields;
        int fmt_field_count; /* in: room, out: how many there are */
    } ev_fmt_op;
    uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

/* Byte 0 is the most significant: STEV has its EV in the first 4 bytes, UDP in the first 2; SRV6 its destination in the
 * first 16 and the segment of an SRH in those that follow. */
typedef uint8_t mrc_ctl_ev_t[MRC_CTL_EV_MAX_BYTES];

struct mrc_ctl_ev {
    mrc_ctl_ev_t val;
    uint8_t port; /* counts from 1 */
};

/* What an entry of an explicit profile holds before it is replaced for the first time: a value to assign or to begin with. */
#ifdef __cplusplus
#define MRC_CTL_EV_UNPOPULATED (mrc_ctl_ev())
#else
#define MRC_CTL_EV_UNPOPULATED ((struct mrc_ctl_ev){{0}, 0})
#endif

enum mrc_ctl_ev_state {
    MRC_CTL_EV_GOOD = 1 << 0,
    MRC_CTL_EV_ASSUMED_BAD = 1 << 1,
    MRC_CTL_EV_DENIED = 1 << 2,
    MRC_CTL_EV_UNKNOWN = (int)(1u << 31),
};

enum mrc_ctl_ev_mode {
    MRC_CTL_EV_MODE_AUTO = 1 << 0,
    MRC_CTL_EV_MODE_EXP = 1 << 1,
    MRC_CTL_EV_MODE_GEN = 1 << 2,
};

struct mrc_ctl_ev_field {
    uint32_t width;
    uint32_t init_val;
    uint32_t min_val;
    uint32_t max_val;
    uint32_t mask; /* bits that come from the EV */
};

enum mrc_ctl_ev_op {
    MRC_CTL_EV_OP_REPLACE_EV = 0,
    MRC_CTL_EV_OP_MODIFY_EV_STATE = 1,
    MRC_CTL_EV_OP_QUERY_EV_STATE = 2,
    MRC_CTL_EV_OP_QUERY_EV_ARRAY = 3,
};

enum mrc_ctl_ev_op_flags {
    MRC_CTL_EV_OP_F_ALL_COPIES = 1 << 0, /* every match, not one of them */
};

struct mrc_ctl_ev_op_entry {
    struct mrc_ctl_ev ev;
    struct mrc_ctl_ev ev_new;
    enum mrc_ctl_ev_state state;
    uint32_t flags;
};

enum mrc_ctl_ev_fields_op {
    MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS = 0,
    MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS = 1,
};

enum mrc_ctl_ev_profile_attr_mask {
    MRC_CTL_EV_PROFILE_STATE = 1 << 0,
    MRC_CTL_EV_PROFILE_CUR_STATE = 1 << 1,
    MRC_CTL_EV_PROFILE_MODE = 1 << 2,
    MRC_CTL_EV_PROFILE_FMT_ID = 1 << 3,
    MRC_CTL_EV_PROFILE_COUNT = 1 << 4,
    MRC_CTL_EV_PROFILE_MIN_ACTIVE = 1 << 5,
    MRC_CTL_EV_PROFILE_EVENT_MASK = 1 << 6,
    MRC_CTL_EV_PROFILE_EV_OP = 1 << 7,
    MRC_CTL_EV_PROFILE_EV_FIELDS_OP = 1 << 8,
    MRC_CTL_EV_PROFILE_VENDOR_CFG = (int)(1u << 31),
};

struct mrc_ctl_ev_profile_attr {
    enum mrc_ctl_profile_state profile_state;
    enum mrc_ctl_profile_state cur_profile_state;
    enum mrc_ctl_ev_mode ev_mode;
    uint64_t ev_fmt_profile_id;
    uint32_t ev_count;
    uint32_t ev_min_active; /* at most ev_count */
    int ev_event_mask;      /* states whose beginning makes an event */
    struct {
        enum mrc_ctl_ev_op op;
        struct mrc_ctl_ev_op_entry *entries;
        int entry_count; /* in: room, out: how many there are */
    } ev_op;
    struct {
        enum mrc_ctl_ev_fields_op op;
        struct mrc_ctl_ev_field *fields;
        int field_count; /* in: room, out: how many there are */
    } ev_fields_op;
    uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

enum mrc_ctl_cc_profile_attr_mask {
    MRC_CTL_CC_PROFILE_STATE = 1 << 0,
    MRC_CTL_CC_PROFILE_CUR_STATE = 1 << 1,
    MRC_CTL_CC_PROFILE_ALGORITHM = 1 << 2,
    MRC_CTL_CC_PROFILE_CONFIG = 1 << 3,
    MRC_CTL_CC_PROFILE_VENDOR_CFG = (int)(1u << 31),
};

struct mrc_ctl_cc_profile_attr {
    enum mrc_ctl_profile_state profile_state;
    enum mrc_ctl_profile_state cur_profile_state;
    const char *algorithm; /* NULL = no congestion control */
    const void *cc_config;
    uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

/* Configuration of "uet-1.0-nscc". Zero leaves a parameter to the device, but for qa_gate and disable_qa, where it is a value, and
 * for qa_threshold, where it is no threshold, as is UINT32_MAX. */
struct mrc_ctl_cc_nscc_cfg {
    uint8_t disable_qa;
    uint32_t adjust_bytes_threshold;  /* bytes */
    uint32_t adjust_period_threshold; /* ns */
    uint32_t base_rtt;                /* ns */
    float eta;                        /* bytes */
    float fi;                         /* bytes */
    float fi_scale;
    float gamma;
    float max_md_jump;
    uint32_t max_cwnd; /* bytes */
    uint8_t qa_gate;
    uint32_t qa_threshold; /* ns */
    uint32_t target_delay; /* ns */
};

/* The array of mrc_ctl_poll_ev_event has the layout of the version that the context was created with. */
struct mrc_ctl_ev_event {
    uint64_t profile_id;
    struct mrc_ctl_ev ev;
    uint32_t drop_count;
#if MRC_CTL_API_VER_USED >= MRC_CTL_API_VER(1, 0, 1)
    enum mrc_ctl_ev_state state;
#endif
};

enum mrc_ctl_ep_op_type {
    MRC_CTL_EP_OP_EV_PROBE = 0,
    MRC_CTL_EP_OP_PORT_STATUS_UPDATE = 1,
};

struct mrc_ctl_ep_req {
    uint16_t req_id;
    union ibv_gid sgid;
    union ibv_gid dgid;
    enum mrc_ctl_ev_fmt_mode ev_fmt_mode;
    struct mrc_ctl_ev req_ev;
    union {
        struct {
            uint32_t port_status; /* bit N: port N is up */
        } port_status_update;
    } op;
};

struct mrc_ctl_ep_rsp {
    uint16_t req_id;
    uint8_t port;          /* where the answer arrived, counts from 1 */
    unsigned int rtt;      /* ns */
    uint8_t adj_svc_time;  /* not 0: without the peer's service time */
};

int mrc_ctl_query_device(struct ibv_context *context, struct mrc_ctl_device_attr *attr);
#if MRC_CTL_API_VER_USED >= MRC_CTL_API_VER(1, 0, 1)
int mrc_ctl_query_device_ex(struct ibv_context *context, struct mrc_context *mrc, struct mrc_ctl_device_attr *attr,
                            int *supported);
#endif
void mrc_ctl_query_version(uint32_t *current, uint32_t *last_supported, uint32_t *vendor,
                           uint32_t *last_supported_vendor);

/* EINVAL, EIO, EPERM */
int mrc_ctl_query_port(struct mrc_context *context, uint8_t port, struct mrc_ctl_port_attr *attr, int mask);
int mrc_ctl_modify_port(struct mrc_context *context, uint8_t port, struct mrc_ctl_port_attr *attr, int mask);

/* EINVAL, EBUSY (an ONLINE EV profile uses it), E2BIG (no such fields), EIO, EPERM */
int mrc_ctl_modify_ev_fmt_profile(struct mrc_context *context, uint64_t id, struct mrc_ctl_ev_fmt_profile_attr *attr,
                                  int mask);
/* EINVAL, E2BIG (no room; the count says how much is needed), EIO, EPERM */
int mrc_ctl_query_ev_fmt_profile(struct mrc_context *context, uint64_t id, struct mrc_ctl_ev_fmt_profile_attr *attr,
                                 int mask);
/* E2BIG, EINVAL, ENOENT (no such EV), EIO, EPERM, EBUSY (queue pairs use it) */
int mrc_ctl_modify_ev_profile(struct mrc_context *context, uint64_t id, struct mrc_ctl_ev_profile_attr *attr, int mask);
int mrc_ctl_query_ev_profile(struct mrc_context *context, uint64_t id, struct mrc_ctl_ev_profile_attr *attr, int mask);
/* EINVAL, EIO, EPERM, EBUSY (queue pairs use it) */
int mrc_ctl_modify_cc_profile(struct mrc_context *context, uint64_t id, struct mrc_ctl_cc_profile_attr *attr, int mask);
int mrc_ctl_query_cc_profile(struct mrc_context *context, uint64_t id, struct mrc_ctl_cc_profile_attr *attr, int mask);

/* Never overruns; destroyed by mrc_destroy_cq. */
struct mrc_cq *mrc_ctl_create_ev_event_cq(struct mrc_context *context, int cqe, void *cq_context,
                                          struct mrc_comp_channel *channel, int comp_vector);
/* How many, or a negative error number. */
int mrc_ctl_poll_ev_event(struct mrc_cq *cq, int num_entries, struct mrc_ctl_ev_event *events);

/* Sends `num_req` operations of one type and waits for their answers, which come in order of arrival. `num_rsp`: in: not
 * read, out: answers in `rsp`, also after ETIMEDOUT. `req_tc` is a DSCP. EAGAIN, EINVAL, EIO, ENOMEM, ENOTSUP, EPERM,
 * ETIMEDOUT. */
int mrc_ctl_ep_batch_send_wait(struct mrc_context *context, uint8_t req_tc, enum mrc_ctl_ep_op_type op_type,
                               struct mrc_ctl_ep_req *req, int num_req, uint32_t timeout_ns, struct mrc_ctl_ep_rsp *rsp,
                               int *num_rsp);

#ifdef __cplusplus
}
#endif

#endif
