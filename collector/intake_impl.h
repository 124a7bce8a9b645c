/* What the two sides of intake.h share: the loop's in intake.c, the store's thread's in intake_store.c. */
#ifndef KYMO_COLLECTOR_INTAKE_IMPL_H
#define KYMO_COLLECTOR_INTAKE_IMPL_H

#include <stdatomic.h>

#include "collector/intake.h"

#define INTAKE_NO_FILE UINT32_MAX
#define INTAKE_NEFFS_LOOKED_AT 64 /* items of a capture that may wait or be waited for */

struct intake_item {
    char *name; /* NULL: a NEFF without one */
    uint64_t size;
    uint8_t sha256[UPLINK_SHA256_SIZE];
    bool neff;
    uint32_t file;     /* its place in the manifest */
    uint64_t unsynced; /* bytes written and not made durable */
};

struct intake_job;

struct intake {
    struct intakes *all;
    char id[WIRE_ID_MAX + 1];
    char source[WIRE_NAME_MAX + 1];
    /* the loop's */
    void *owner;
    bool ended;
    struct intake_job *end; /* until it is posted */
    struct intake *next, **link;
    /* the thread's, from the offer on */
    uint8_t *manifest; /* until begun */
    size_t manifest_n, n_items;
    struct intake_item *items;
    Kymo__Manifest__Capture *parsed; /* until begun: then raw_capture_manifest */
    struct raw_capture *raw;
    bool held; /* in store.incoming */
    int code;  /* it has failed so; later bytes are dropped */
    struct intake_job *offer;
    struct intake *next_waiting;
    uint64_t waits_since_ns, progress_ns;
};

enum intake_kind { INTAKE_OFFER, INTAKE_WRITE, INTAKE_DONE, INTAKE_END };

/* Goes to the thread with what is to be done and comes back with what became of it. */
struct intake_job {
    struct store_job job; /* first */
    struct intake *intake;
    enum intake_kind kind;
    int code; /* of a failure, or 0; INTAKE_OFFER: enum raw_begin */
    char *text;
    uint64_t *offsets; /* INTAKE_OFFER: one per item */
    uint32_t item;
    uint64_t offset, durable; /* durable: 0 nothing new */
    size_t n, cost;
    uint8_t data[];
};

struct intake_claim {
    uint8_t sha256[UPLINK_SHA256_SIZE];
    const struct intake *by;
};

struct intakes {
    struct intakes_config config;
    struct store_thread *thread;
    /* the loop's */
    struct intake *first;
    size_t n;
    uint64_t bytes;
    /* the thread's */
    struct intake_claim claims[INTAKE_CLAIMS_MAX];
    size_t n_claims;
    struct intake *waiting; /* in the order they came */
    bool claims_changed, limited, in_trouble;
    uint64_t looked_ns;
    /* any thread's */
    _Atomic uint64_t captures, on_disk, forgotten[INCOMING_CAUSE_MAX];
};

/* On the store's thread. */
bool intake_run(struct store_job *j, struct store_thread *t);

#endif
