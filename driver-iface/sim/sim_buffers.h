/* Options --buffer RING=MB of the simulator's commands, read as the runtime reads its NEURON_RT_PROFILE_BUF_<RING>_MB.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_BUFFERS_H
#define KYMO_DRIVER_IFACE_SIM_SIM_BUFFERS_H

#include "arch/ring.h"
#include "base/err.h"
#include "base/options.h"

/* -EINVAL names the option that is wrong. */
int sim_buffers_parse(const struct kymo_option_list *buffers, struct kymo_ring_sizes *ret,
                      struct kymo_err *err) KYMO_MUST_CHECK;

#endif
