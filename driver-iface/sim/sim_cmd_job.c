/* kymo-sim job: one rank over a runtime that is found by dlopen, as frameworks do. */
#include "base/alloc.h"
#include "base/log.h"
#include "driver-iface/sim/sim_job.h"
#include "driver-iface/sim/sim_subcommands.h"

int sim_cmd_job_main(int argc, char **argv)
{
    struct nrt_loader *loader KYMO_CLEANUP(nrt_loader_freep) = NULL;
    struct kymo_err err = {0};
    struct sim_job job;
    int code = sim_job_parse("kymo-sim job", argc, argv, &job);

    if (code >= 0)
        return code;
    kymo_log_init("kymo-sim job", KYMO_LOG_INFO);
    if (nrt_loader_open(NULL, &loader, &err) < 0) {
        kymo_log(KYMO_LOG_ERROR, "%s", err.text);
        return 1;
    }
    return sim_job_run(nrt_loader_api(loader), &job);
}
