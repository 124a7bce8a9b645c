/*
 * Manifests of captures, and of ranks as they are kept beside the intake (a rank's is a capture of no files but the
 * NEFFs it has loaded). Everything a struct manifest points to outside itself must outlive it.
 */
#ifndef KYMO_DAEMON_MANIFEST_H
#define KYMO_DAEMON_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "daemon/host.h"
#include "daemon/host_clock.h"
#include "daemon/rank.h"
#include "proto/manifest.pb-c.h"

#define MANIFEST_LABELS 64
#define MANIFEST_TEXTS 2048 /* bytes of labels made here */
#define MANIFEST_CLOCKS 2

struct manifest {
    Kymo__Manifest__Capture m;
    Kymo__Manifest__Capture__LabelsEntry labels[MANIFEST_LABELS];
    Kymo__Manifest__Capture__LabelsEntry *label_list[MANIFEST_LABELS];
    char texts[MANIFEST_TEXTS];
    size_t used;
    Kymo__Manifest__HostClock clocks[MANIFEST_CLOCKS];
    Kymo__Manifest__HostClock *clock_list[MANIFEST_CLOCKS];
};

/* Who and where: job, rank, host, labels. */
void manifest_begin(struct manifest *b, const struct rank *r, const struct host *h, const char *capture_id);
/* Left out when there is no room. */
void manifest_label(struct manifest *b, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void manifest_number(struct manifest *b, const char *key, uint64_t value);

/* One that was never read is left out, and so is a third. */
void manifest_clock(struct manifest *b, Kymo__Manifest__HostClock__Moment at, const struct host_clock *c);

int manifest_pack_rank(const struct rank *r, const struct host *h, uint8_t **ret, size_t *ret_n) KYMO_MUST_CHECK;
/* What a former kymod knew of the rank: labels, job, models. */
void manifest_read_rank(const Kymo__Manifest__Capture *m, struct rank *r);

#endif
