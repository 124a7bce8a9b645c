/* One host of hosts.h. */
#ifndef KYMO_TESTS_SCALE_HOSTS_HOST_H
#define KYMO_TESTS_SCALE_HOSTS_HOST_H

#include "tests/scale/hosts.h"

#define HOSTS_SLOW_BYTES 4096u /* of a tick */
#define HOSTS_TICK_MS 100

void hosts_must(bool holds, const char *what);
void hosts_host_open(struct hosts_host *h, struct hosts *all, size_t number, enum hosts_kind kind);
void hosts_host_tick(struct hosts_host *h);
/* Then the loop runs once more, and free comes last. */
void hosts_host_close(struct hosts_host *h);
void hosts_host_free(struct hosts_host *h);

#endif
