/* One rank's connection to the device process. */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_RANK_H
#define KYMO_DRIVER_IFACE_SIM_SIM_RANK_H

#include "driver-iface/sim/sim_device.h"

/* Serves one connection until the rank goes away or sends nonsense; its cores are then free again. fd stays the
 * caller's. */
void sim_rank_serve(struct sim_device *device, int fd);

#endif
