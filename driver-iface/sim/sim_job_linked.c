/* kymo-sim-job: the same rank, linked against libnrt.so.1 as a C program would be. */
#include "base/log.h"
#include "driver-iface/sim/sim_job.h"

#define USED(X)                                                                                                        \
    X(nrt_init)                                                                                                        \
    X(nrt_close)                                                                                                       \
    X(nrt_load)                                                                                                        \
    X(nrt_load_collectives)                                                                                            \
    X(nrt_unload)                                                                                                      \
    X(nrt_execute)                                                                                                     \
    X(nrt_tensor_allocate)                                                                                             \
    X(nrt_tensor_free)                                                                                                 \
    X(nrt_tensor_read)                                                                                                 \
    X(nrt_tensor_write)                                                                                                \
    X(nrt_tensor_get_size)                                                                                             \
    X(nrt_allocate_tensor_set)                                                                                         \
    X(nrt_destroy_tensor_set)                                                                                          \
    X(nrt_add_tensor_to_tensor_set)                                                                                    \
    X(nrt_profile_continuous_options_allocate)                                                                         \
    X(nrt_profile_continuous_options_free)                                                                             \
    X(nrt_profile_continuous_options_set_output_dir)                                                                   \
    X(nrt_profile_continuous_start)                                                                                    \
    X(nrt_profile_continuous_save)                                                                                     \
    X(nrt_profile_continuous_stop)                                                                                     \
    X(nrt_inspect_begin_with_options)                                                                                  \
    X(nrt_inspect_stop)                                                                                                \
    X(nrt_inspect_config_allocate)                                                                                     \
    X(nrt_inspect_config_free)                                                                                         \
    X(nrt_inspect_config_set_output_dir)                                                                               \
    X(nrt_inspect_config_set_activity)                                                                                 \
    X(nrt_inspect_config_set_enable_inspect)                                                                           \
    X(nrt_inspect_config_set_inspect_device_profile_mode)                                                              \
    X(nrta_execute_schedule)                                                                                           \
    X(nrta_is_completed)                                                                                               \
    X(nrta_error_tracker_create)                                                                                       \
    X(nrta_error_tracker_destroy)                                                                                      \
    X(nrta_error_tracker_get_list)

static const struct nrt_api linked = {
#define X(name) .name = name,
    USED(X)
#undef X
};

int main(int argc, char **argv)
{
    struct sim_job job;
    int code = sim_job_parse("kymo-sim-job", argc, argv, &job);

    if (code >= 0)
        return code;
    kymo_log_init("kymo-sim-job", KYMO_LOG_INFO);
    return sim_job_run(&linked, &job);
}
