/*
 * What hosts had to give up goes into the catalogue, and the daemon hears of it once it is durable there. One batch of
 * a connection at a time: more are not answered, and come again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/receiver_impl.h"

struct host_job {
    struct store_job job; /* first */
    struct receiver *r;
    uint64_t serial, batch; /* serial: as the connection has it */
    char source[WIRE_NAME_MAX + 1];
    int code;
    struct kymo_err err;
    size_t n;
    struct catalog_host_loss rows[];
};

static bool run(struct store_job *job, struct store_thread *t)
{
    struct host_job *j = (struct host_job *)job;
    j->code = catalog_add_host_losses(store_thread_store(t)->catalog, j->source, j->rows, j->n, &j->err);
    return true;
}

static void done(struct store_job *job)
{
    struct host_job *j = (struct host_job *)job;
    struct receiver_conn *c = j->r->first;
    struct kymo_err err = {0};
    while (c && c->host_serial != j->serial)
        c = c->next;
    if (c)
        c->host_serial = 0;
    /* What the catalogue cannot take now is sent again later. */
    if (c && !c->ending && j->code == 0)
        receiver_check(c, uplink_recv_losses_kept(c->recv, j->batch, &err), &err);
    kymo_free(j);
}

static void copy_row(struct catalog_host_loss *to, const Kymo__Uplink__HostLoss *from)
{
    to->row = from->row;
    to->first_seq = from->first_seq;
    to->last_seq = from->last_seq;
    to->captures = from->captures;
    to->bytes = from->bytes;
    to->first_unix_ns = (int64_t)from->first_unix_ns;
    to->last_unix_ns = (int64_t)from->last_unix_ns;
    (void)snprintf(to->cause, sizeof to->cause, "%s", from->cause);
}

int receiver_on_host_losses(void *ctx, const Kymo__Uplink__HostLosses *losses, struct kymo_err *err)
{
    struct receiver_conn *c = ctx;
    struct receiver *r = c->r;
    if (c->host_serial || r->stopped)
        return kymo_err_set(err, -EBUSY, "losses are being noted");
    struct host_job *j = kymo_calloc(1, sizeof *j + losses->n_rows * sizeof j->rows[0]);
    if (!j)
        return kymo_err_set(err, -ENOMEM, "no memory for losses");
    j->job.run = run;
    j->job.done = done;
    j->r = r;
    j->serial = c->host_serial = ++r->last_host_serial;
    j->batch = losses->batch;
    (void)snprintf(j->source, sizeof j->source, "%s", c->identity);
    for (size_t i = 0; i < losses->n_rows; i++)
        copy_row(&j->rows[j->n++], losses->rows[i]);
    store_thread_post(r->config.store, &j->job);
    return UPLINK_RECV_LATER;
}
