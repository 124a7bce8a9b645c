/*
 * Our own declarations of the public C interface of libnrt.so.1 (facts: ntff.md 5, driver.md 4). One list gives the
 * prototypes and the loader's table; nothing here is taken over from a vendor header but names, argument types and
 * numbers. Class of a signature, in the last column: A public header, C one third party's notes, G our guess. A
 * signature of class C or G may differ between runtime versions: callers must be ready for its absence.
 */
#ifndef KYMO_DRIVER_IFACE_NRT_NRT_ABI_H
#define KYMO_DRIVER_IFACE_NRT_NRT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, value) */
#define NRT_STATUS_MAP(X)                                                                                              \
    X(NRT_SUCCESS, 0)                                                                                                  \
    X(NRT_FAILURE, 1)                                                                                                  \
    X(NRT_INVALID, 2)                                                                                                  \
    X(NRT_INVALID_HANDLE, 3)                                                                                           \
    X(NRT_RESOURCE, 4)                                                                                                 \
    X(NRT_TIMEOUT, 5)                                                                                                  \
    X(NRT_HW_ERROR, 6)                                                                                                 \
    X(NRT_QUEUE_FULL, 7)                                                                                               \
    X(NRT_LOAD_NOT_ENOUGH_NC, 9)                                                                                       \
    X(NRT_UNSUPPORTED_NEFF_VERSION, 10)                                                                                \
    X(NRT_FAIL_HOST_MEM_ALLOC, 11)                                                                                     \
    X(NRT_UNINITIALIZED, 13)                                                                                           \
    X(NRT_CLOSED, 14)                                                                                                  \
    X(NRT_QUEUE_EMPTY, 15)                                                                                             \
    X(NRT_EXEC_UNIT_UNRECOVERABLE, 101)                                                                                \
    X(NRT_EXEC_BAD_INPUT, 1002)                                                                                        \
    X(NRT_EXEC_COMPLETED_WITH_NUM_ERR, 1003)                                                                           \
    X(NRT_EXEC_COMPLETED_WITH_ERR, 1004)                                                                               \
    X(NRT_EXEC_NC_BUSY, 1005)                                                                                          \
    X(NRT_EXEC_OOB, 1006)                                                                                              \
    X(NRT_COLL_PENDING, 1100)                                                                                          \
    X(NRT_EXEC_HW_ERR_COLLECTIVES, 1200)                                                                               \
    X(NRT_EXEC_HW_ERR_HBM_UE, 1201)                                                                                    \
    X(NRT_EXEC_HW_ERR_NC_UE, 1202)                                                                                     \
    X(NRT_EXEC_HW_ERR_DMA_ABORT, 1203)                                                                                 \
    X(NRT_EXEC_SW_NQ_OVERFLOW, 1204)                                                                                   \
    X(NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE, 1205)                                                                         \
    X(NRT_NETWORK_PROXY_FAILURE, 1206)

typedef enum {
#define X(name, value) name = value,
    NRT_STATUS_MAP(X)
#undef X
} NRT_STATUS;

typedef enum {
    NRT_TENSOR_PLACEMENT_DEVICE,
    NRT_TENSOR_PLACEMENT_HOST,
    NRT_TENSOR_PLACEMENT_VIRTUAL
} nrt_tensor_placement_t;

typedef enum {
    NRT_FRAMEWORK_TYPE_INVALID,
    NRT_FRAMEWORK_TYPE_NO_FW,
    NRT_FRAMEWORK_TYPE_TENSORFLOW,
    NRT_FRAMEWORK_TYPE_PYTORCH,
    NRT_FRAMEWORK_TYPE_MXNET,
    NRT_FRAMEWORK_TYPE_PRECHECK,
} nrt_framework_type_t;

/* Numbers G: the setter is in newer public headers, its enum is not in the facts. */
typedef enum {
    NRT_INSPECT_DEVICE_PROFILE_MODE_NONE,
    NRT_INSPECT_DEVICE_PROFILE_MODE_MODEL,
    NRT_INSPECT_DEVICE_PROFILE_MODE_SESSION,
} nrt_inspect_device_profile_mode_t;

/* Execution units of the asynchronous interface (A; older runtimes number them otherwise, C). */
typedef enum {
    NRTA_XU_TENSOR_READ,
    NRTA_XU_TENSOR_WRITE,
    NRTA_XU_TENSOR_OP,
    NRTA_XU_COMPUTE,
    NRTA_XU_COLLECTIVES,
    NRTA_XU_TYPE_NUM,
} nrta_xu_t;

typedef uint64_t nrta_seq_t; /* execution unit id in the 16 high bits, sequence number in the 48 low ones */
#define NRTA_SEQ_NUM_MASK ((1ull << 48) - 1)

typedef struct nrt_model nrt_model_t;
typedef struct nrt_tensor nrt_tensor_t;
typedef void nrt_tensor_set_t;
typedef struct nrt_inspect_config nrt_inspect_config_t;
typedef struct nrt_profile_continuous_options nrt_profile_continuous_options_t;
typedef struct nrt_sys_trace_config nrt_sys_trace_config_t;
typedef struct nrt_sys_trace_fetch_options nrt_sys_trace_fetch_options_t;
typedef struct nrta_error_tracker nrta_error_tracker_t;
typedef struct nrt_cc_context nrt_cc_context_t;
typedef struct ndebug_stream_event_header ndebug_stream_event_header_t; /* layout in no fact: opaque here */

typedef struct nrta_error {
    nrta_seq_t seq_id;
    uint64_t error_code; /* NRT_STATUS */
} nrta_error_t;
_Static_assert(sizeof(nrta_error_t) == 16, "part of the binary interface");

#define NRT_VERSION_DETAIL_LEN 128
#define NRT_GIT_HASH_LEN 64
typedef struct nrt_version { /* 224 bytes */
    uint64_t rt_major, rt_minor, rt_patch, rt_maintenance;
    char rt_detail[NRT_VERSION_DETAIL_LEN];
    char git_hash[NRT_GIT_HASH_LEN];
} nrt_version_t;
_Static_assert(sizeof(nrt_version_t) == 224, "part of the binary interface");

typedef struct nrt_instance_info {
    uint32_t family, size;
    char arch_name[16];
    char device_revision[8];
} nrt_instance_info_t;

/* Member order of the operation is G (a driver header that the facts do not quote). */
typedef struct nrt_tensor_batch_op {
    uint64_t offset, size;
    void *buffer;
} nrt_tensor_batch_op_t;

typedef struct nrt_tensor_batch {
    const nrt_tensor_t *tensor;
    const nrt_tensor_batch_op_t *ops;
    uint32_t num_ops;
} nrt_tensor_batch_t;

/* X(return type, name, arguments, class): state, models, execution. */
#define NRT_CORE_MAP(X)                                                                                                \
    X(NRT_STATUS, nrt_init, (nrt_framework_type_t framework, const char *fw_version, const char *fal_version), A)      \
    X(void, nrt_close, (void), A)                                                                                      \
    X(NRT_STATUS, nrt_load, (const void *neff, size_t size, int32_t vnc, int32_t vnc_count, nrt_model_t **model), A)   \
    X(NRT_STATUS, nrt_load_collectives,                                                                                \
      (const void *neff, size_t size, int32_t vnc, int32_t vnc_count, uint32_t ctx_device_id,                          \
       uint32_t ctx_device_count, nrt_model_t **model),                                                                \
      A)                                                                                                               \
    X(NRT_STATUS, nrt_unload, (nrt_model_t * model), A)                                                                \
    X(NRT_STATUS, nrt_execute, (nrt_model_t * model, const nrt_tensor_set_t *in, nrt_tensor_set_t *out), A)            \
    X(NRT_STATUS, nrt_execute_repeat,                                                                                  \
      (nrt_model_t * model, const nrt_tensor_set_t *in, nrt_tensor_set_t *out, int repeat_count), A)                   \
    X(NRT_STATUS, nrt_get_version, (nrt_version_t * version, size_t size), C)                                          \
    X(NRT_STATUS, nrt_get_instance_info, (nrt_instance_info_t * info, size_t size), A)                                 \
    X(NRT_STATUS, nrt_get_total_nc_count, (uint32_t * count), A)                                                       \
    X(NRT_STATUS, nrt_get_total_vnc_count, (uint32_t * count), A)                                                      \
    X(NRT_STATUS, nrt_get_visible_nc_count, (uint32_t * count), A)                                                     \
    X(NRT_STATUS, nrt_get_visible_vnc_count, (uint32_t * count), A)                                                    \
    X(NRT_STATUS, nrt_get_model_nc_count, (const nrt_model_t *model, uint32_t *count), A)                              \
    X(NRT_STATUS, nrt_get_model_vnc_count, (const nrt_model_t *model, uint32_t *count), A)                             \
    X(NRT_STATUS, nrt_build_global_comm, (int32_t vnc, uint32_t g_device_id, uint32_t g_device_count), A)              \
    X(NRT_STATUS, nrt_cc_global_comm_init, (uint32_t vnc, uint32_t g_device_id, uint32_t g_device_count), A)

#define NRT_TENSOR_MAP(X)                                                                                              \
    X(NRT_STATUS, nrt_tensor_allocate,                                                                                 \
      (nrt_tensor_placement_t placement, int vnc, size_t size, const char *name, nrt_tensor_t **tensor), A)            \
    X(NRT_STATUS, nrt_tensor_allocate_empty, (const char *name, nrt_tensor_t **tensor), A)                             \
    X(NRT_STATUS, nrt_tensor_allocate_slice,                                                                           \
      (const nrt_tensor_t *source, size_t offset, size_t size, const char *name, nrt_tensor_t **slice), A)             \
    X(NRT_STATUS, nrt_tensor_attach_buffer, (nrt_tensor_t * tensor, void *buffer, size_t size), A)                     \
    X(void, nrt_tensor_free, (nrt_tensor_t * *tensor), A)                                                              \
    X(NRT_STATUS, nrt_tensor_read, (const nrt_tensor_t *tensor, void *buf, size_t offset, size_t size), A)             \
    X(NRT_STATUS, nrt_tensor_write, (nrt_tensor_t * tensor, const void *buf, size_t offset, size_t size), A)           \
    X(NRT_STATUS, nrt_tensor_read_batch, (const nrt_tensor_batch_t *batches, uint64_t num_batches, bool unsafe), A)    \
    X(NRT_STATUS, nrt_tensor_write_batch, (const nrt_tensor_batch_t *batches, uint64_t num_batches, bool unsafe), A)   \
    X(NRT_STATUS, nrt_tensor_copy,                                                                                     \
      (const nrt_tensor_t *src, size_t src_offset, nrt_tensor_t *dst, size_t dst_offset, size_t size), A)              \
    X(NRT_STATUS, nrt_tensor_memset, (nrt_tensor_t * tensor, uint64_t offset, int value, size_t size), A)              \
    X(size_t, nrt_tensor_get_size, (const nrt_tensor_t *tensor), A)                                                    \
    X(void *, nrt_tensor_get_va, (const nrt_tensor_t *tensor), A)                                                      \
    X(NRT_STATUS, nrt_allocate_tensor_set, (nrt_tensor_set_t * *set), A)                                               \
    X(void, nrt_destroy_tensor_set, (nrt_tensor_set_t * *set), A)                                                      \
    X(NRT_STATUS, nrt_add_tensor_to_tensor_set, (nrt_tensor_set_t * set, const char *name, nrt_tensor_t *tensor), A)   \
    X(NRT_STATUS, nrt_get_tensor_from_tensor_set, (nrt_tensor_set_t * set, const char *name, nrt_tensor_t **tensor), A)

#define NRT_PROFILE_MAP(X)                                                                                             \
    X(NRT_STATUS, nrt_profile_start, (nrt_model_t * model, const char *filename), A)                                   \
    X(NRT_STATUS, nrt_profile_stop, (const char *filename), A)                                                         \
    X(NRT_STATUS, nrt_profile_continuous_options_allocate, (nrt_profile_continuous_options_t * *options), A)           \
    X(NRT_STATUS, nrt_profile_continuous_options_free, (nrt_profile_continuous_options_t * options), A)                \
    X(NRT_STATUS, nrt_profile_continuous_options_set_output_dir,                                                       \
      (nrt_profile_continuous_options_t * options, const char *dir), A)                                                \
    X(NRT_STATUS, nrt_profile_continuous_start, (nrt_profile_continuous_options_t * options), A)                       \
    X(NRT_STATUS, nrt_profile_continuous_save, (uint32_t vnc, nrt_profile_continuous_options_t * options), A)          \
    X(NRT_STATUS, nrt_profile_continuous_stop, (void), A)                                                              \
    X(NRT_STATUS, nrt_profile_session_start, (int32_t vnc), C)                                                         \
    X(NRT_STATUS, nrt_profile_session_stop, (int32_t vnc, uint64_t * session_id), C)                                   \
    X(NRT_STATUS, nrt_profile_session_serialize, (uint64_t session_id, const char *filename), C)                       \
    X(NRT_STATUS, nrt_profile_session_drop, (uint64_t session_id), C)                                                  \
    X(NRT_STATUS, nrt_trace_start, (bool trace_mem), C)                                                                \
    X(NRT_STATUS, nrt_trace_stop, (const char *filename), C)

#define NRT_INSPECT_MAP(X)                                                                                             \
    X(NRT_STATUS, nrt_inspect_begin, (void), A)                                                                        \
    X(NRT_STATUS, nrt_inspect_begin_with_options, (nrt_inspect_config_t * options), A)                                 \
    X(NRT_STATUS, nrt_inspect_stop, (void), A)                                                                         \
    X(NRT_STATUS, nrt_inspect_config_allocate, (nrt_inspect_config_t * *options), A)                                   \
    X(NRT_STATUS, nrt_inspect_config_free, (nrt_inspect_config_t * options), A)                                        \
    X(NRT_STATUS, nrt_inspect_config_set_defaults, (nrt_inspect_config_t * options), A)                                \
    X(NRT_STATUS, nrt_inspect_config_set_session_id, (nrt_inspect_config_t * options, int session_id), A)              \
    X(NRT_STATUS, nrt_inspect_config_set_output_dir, (nrt_inspect_config_t * options, const char *dir), A)             \
    X(NRT_STATUS, nrt_inspect_config_set_sys_trace_max_events_per_nc,                                                  \
      (nrt_inspect_config_t * options, uint64_t max_events), A)                                                        \
    X(NRT_STATUS, nrt_inspect_config_set_capture_enabled_for_nc,                                                       \
      (nrt_inspect_config_t * options, uint32_t nc_idx, bool enabled), A)                                              \
    X(NRT_STATUS, nrt_inspect_config_set_capture_enabled_for_event_type_string,                                        \
      (nrt_inspect_config_t * options, const char *event_type, bool enabled), A)                                       \
    X(NRT_STATUS, nrt_inspect_config_set_enable_inspect, (nrt_inspect_config_t * options, bool enable), A)             \
    X(NRT_STATUS, nrt_inspect_config_set_enable_inspect_on_fail, (nrt_inspect_config_t * options, bool enable), A)     \
    X(NRT_STATUS, nrt_inspect_config_set_inspect_device_profile_mode,                                                  \
      (nrt_inspect_config_t * options, nrt_inspect_device_profile_mode_t mode), C)                                     \
    X(NRT_STATUS, nrt_inspect_config_set_activity,                                                                     \
      (nrt_inspect_config_t * options, const char *activity, bool enabled), A)                                         \
    X(NRT_STATUS, nrt_inspect_config_get_all_activity_types, (const char ***types, size_t *count), A)                  \
    X(NRT_STATUS, nrt_inspect_config_get_enabled_activity_types,                                                       \
      (nrt_inspect_config_t * options, const char ***types, size_t *count), A)                                         \
    X(void, nrt_inspect_config_free_activity_types, (const char **types, size_t count), A)                             \
    X(NRT_STATUS, nrt_inspect_export, (uint32_t mask), G)

#define NRT_DEBUG_MAP(X)                                                                                               \
    X(NRT_STATUS, nrt_debug_client_connect, (int32_t logical_nc_idx, int *stream_fd), C)                               \
    X(void, nrt_debug_client_connect_close, (int stream_fd), C)                                                        \
    X(NRT_STATUS, nrt_debug_client_read_one_event,                                                                     \
      (int stream_fd, ndebug_stream_event_header_t *header, void **payload), C)

#define NRT_SYS_TRACE_MAP(X)                                                                                           \
    X(NRT_STATUS, nrt_sys_trace_config_allocate, (nrt_sys_trace_config_t * *config), A)                                \
    X(void, nrt_sys_trace_config_set_defaults, (nrt_sys_trace_config_t * config), A)                                   \
    X(void, nrt_sys_trace_config_free, (nrt_sys_trace_config_t * config), A)                                           \
    X(void, nrt_sys_trace_config_set_max_events_per_nc, (nrt_sys_trace_config_t * config, uint64_t max_events), A)     \
    X(void, nrt_sys_trace_config_set_capture_enabled_for_nc,                                                           \
      (nrt_sys_trace_config_t * config, uint32_t nc_idx, bool enabled), A)                                             \
    X(NRT_STATUS, nrt_sys_trace_config_set_capture_enabled_for_event_type,                                             \
      (nrt_sys_trace_config_t * config, const char *event_type, bool enabled), A)                                      \
    X(NRT_STATUS, nrt_sys_trace_config_get_enabled_event_types,                                                        \
      (nrt_sys_trace_config_t * config, const char ***types, size_t *count), A)                                        \
    X(NRT_STATUS, nrt_sys_trace_get_event_types, (const char ***types, size_t *count), A)                              \
    X(void, nrt_sys_trace_free_event_types, (const char **types, size_t count), A)                                     \
    X(NRT_STATUS, nrt_sys_trace_start, (nrt_sys_trace_config_t * config), A)                                           \
    X(NRT_STATUS, nrt_sys_trace_stop, (void), A)                                                                       \
    X(NRT_STATUS, nrt_sys_trace_fetch_options_allocate, (nrt_sys_trace_fetch_options_t * *options), A)                 \
    X(void, nrt_sys_trace_fetch_options_set_defaults, (nrt_sys_trace_fetch_options_t * options), A)                    \
    X(void, nrt_sys_trace_fetch_options_free, (nrt_sys_trace_fetch_options_t * options), A)                            \
    X(void, nrt_sys_trace_fetch_options_set_max_events_per_nc,                                                         \
      (nrt_sys_trace_fetch_options_t * options, uint64_t max_events), A)                                               \
    X(void, nrt_sys_trace_fetch_options_set_nc_idx, (nrt_sys_trace_fetch_options_t * options, uint64_t nc_idx), A)     \
    X(NRT_STATUS, nrt_sys_trace_fetch_events,                                                                          \
      (char **buffer, size_t *size, const nrt_sys_trace_fetch_options_t *options), A)                                  \
    X(void, nrt_sys_trace_buffer_free, (char *buffer), A)

#define NRT_ASYNC_MAP(X)                                                                                               \
    X(NRT_STATUS, nrta_execute_schedule,                                                                               \
      (nrt_model_t * model, const nrt_tensor_set_t *in, nrt_tensor_set_t *out, int queue,                              \
       nrta_error_tracker_t *errors, nrta_seq_t *seq),                                                                 \
      A)                                                                                                               \
    X(NRT_STATUS, nrta_tensor_write,                                                                                   \
      (nrt_tensor_t * tensor, const void *buf, uint64_t offset, uint64_t size, int queue,                              \
       nrta_error_tracker_t *errors, nrta_seq_t *seq),                                                                 \
      A)                                                                                                               \
    X(NRT_STATUS, nrta_tensor_read,                                                                                    \
      (void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size, int queue, nrta_error_tracker_t *errors,       \
       nrta_seq_t *seq),                                                                                               \
      A)                                                                                                               \
    X(NRT_STATUS, nrta_tensor_copy,                                                                                    \
      (nrt_tensor_t * src, uint64_t src_offset, nrt_tensor_t * dst, uint64_t dst_offset, uint64_t size, int queue,     \
       nrta_error_tracker_t *errors, nrta_seq_t *seq),                                                                 \
      A)                                                                                                               \
    X(NRT_STATUS, nrta_cc_schedule,                                                                                    \
      (nrt_cc_context_t * *cc_ctx, int queue, nrta_error_tracker_t *errors, nrta_seq_t *seq), A)                       \
    X(NRT_STATUS, nrta_is_completed, (nrta_seq_t seq, bool *is_completed), A)                                          \
    X(NRT_STATUS, nrta_get_sequence, (uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t *seq), A)                      \
    X(NRT_STATUS, nrta_get_completion_handle, (nrta_seq_t seq, int *fd), A)                                            \
    X(NRT_STATUS, nrta_error_tracker_create, (uint32_t lnc_idx, nrta_error_tracker_t * *tracker), A)                   \
    X(void, nrta_error_tracker_destroy, (nrta_error_tracker_t * tracker), A)                                           \
    X(NRT_STATUS, nrta_error_tracker_get_list,                                                                         \
      (nrta_error_tracker_t * tracker, const nrta_error_t **list, size_t *count), A)

#define NRT_FUNCTION_MAP(X)                                                                                            \
    NRT_CORE_MAP(X)                                                                                                    \
    NRT_TENSOR_MAP(X)                                                                                                  \
    NRT_PROFILE_MAP(X)                                                                                                 \
    NRT_INSPECT_MAP(X)                                                                                                 \
    NRT_DEBUG_MAP(X)                                                                                                   \
    NRT_SYS_TRACE_MAP(X)                                                                                               \
    NRT_ASYNC_MAP(X)

/* The simulated runtime defines these; a program may also link against it or the vendor's library directly. */
#define X(ret, name, args, class) __attribute__((visibility("default"))) ret name args;
NRT_FUNCTION_MAP(X)
#undef X

#endif
