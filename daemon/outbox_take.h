/*
 * Take-over of one capture into the spool, step by step, so that the network has its turn between the files. The order
 * of durable steps is in README.md.
 */
#ifndef KYMO_DAEMON_OUTBOX_TAKE_H
#define KYMO_DAEMON_OUTBOX_TAKE_H

#include "daemon/outbox.h"

struct outbox_take;

/* A name beside a manifest's own that a capture's file may have, which the spool bounds. */
int outbox_take_new(const Kymo__Manifest__Capture *meta, const struct outbox_file *files, size_t n, enum spool_how how,
                    const char *directory, struct outbox_take **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* One that only gets a loss row. */
int outbox_take_new_lost(const char *capture_id, uint32_t cause, const char *directory, struct outbox_take **ret,
                         struct kymo_err *err) KYMO_MUST_CHECK;
/* What is half done stays as it is: the next spool_open removes it. NULL is fine; returns NULL. */
struct outbox_take *outbox_take_free(struct outbox_take *t);

enum outbox_take_result {
    OUTBOX_TAKE_MORE = 1, /* call again */
    OUTBOX_TAKE_OVER = 0, /* it is in the spool, or has its loss row: see the fields */
};

struct outbox_take_end {
    int code; /* 0: published */
    uint32_t cause;
    struct kymo_err err; /* with code 0: what could not be removed */
};

/*
 * The next step. Negative: neither could the capture be published nor its loss be written down; nothing is lost, the
 * originals are there, and the next call begins anew. writer: for manifests that name none.
 */
int outbox_take_step(struct outbox_take *t, struct spool *s, const char *writer, struct outbox_take_end *ret,
                     struct kymo_err *err) KYMO_MUST_CHECK;

#endif
