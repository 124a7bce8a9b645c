#include "driver-iface/sim/sim_host.h"

#include <errno.h>

#include "arch/ring.h"

int sim_host_check(struct sim_host *host, struct kymo_err *err)
{
    host->instance = kymo_instance_find(host->type);
    if (!host->instance)
        return kymo_err_set(err, -EINVAL, "--instance %.64s: no instance type that kymo knows", host->type);
    host->arch = kymo_arch_get(host->instance->gen);
    host->lnc = host->lnc_asked ? (unsigned)host->lnc_asked : host->instance->default_lnc;
    if (host->driver && !kymo_version_valid(host->driver))
        return kymo_err_set(err, -EINVAL, "--driver %.64s: no version such as " SIM_HOST_DRIVER, host->driver);
    int r = sim_notices_parse(&host->throttle_texts, &host->notice_texts, &host->notices, err);
    return r < 0 ? r : kymo_arch_check_lnc(host->arch, host->lnc, err);
}
