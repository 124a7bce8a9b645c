/* A simulated Trn2 instance with LNC 1, served by the test process itself, a small program for it, and the runtime
 * loaded. */
#ifndef KYMO_TESTS_UNIT_SIM_FIXTURE_H
#define KYMO_TESTS_UNIT_SIM_FIXTURE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "driver-iface/nrt/nrt_loader.h"
#include "driver-iface/sim/sim_device.h"

struct sim_fixture {
    char dir[64], socket[96], neff[96], output[96], truth[96];
    struct sim_device *device;
    pthread_t server;
    int listen_fd, stop[2];
    struct nrt_loader *loader;
    const struct nrt_api *nrt;
    uint8_t *bytes;
    size_t size;
};

extern struct sim_fixture sim_fixture;

/* cmocka group fixtures; KYMO_SIM_SOCKET names the device from then on. */
int sim_fixture_setup(void **state);
int sim_fixture_teardown(void **state);

#endif
