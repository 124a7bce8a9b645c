#include "driver-iface/sim/sim_deeds.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"

#define HOST_BASE_BYTES (6ull << 30)
#define NS_PER_S 1000000000ull
#define FLUSH_BYTES (1u << 20)

struct memory {
    uint64_t ts_ns, bytes;
    unsigned vnc;
    enum sysfs_kind kind;
};

struct sample {
    uint64_t ts_ns, used;
    float cpu[SIM_WIRE_CPUS];
};

struct sim_deeds {
    struct sim_device *device;
    struct sim_deed *deeds;
    struct memory *memory;
    struct sample *samples;
    size_t n_deeds, deeds_cap, n_memory, memory_cap, n_samples, samples_cap;
    uint64_t left_out; /* rows beyond the maximum, or without memory */
    uint64_t busy_ns, busy_before, sampled_ns;
    uint64_t copied;
    uint64_t (*present)[SYSFS_KIND_MAX]; /* by vnc, as noted last */
};

struct sim_deeds *sim_deeds_new(struct sim_device *device)
{
    struct sim_deeds *d = KYMO_NEW(struct sim_deeds);

    if (!d)
        return NULL;
    d->device = device;
    d->present = kymo_calloc(sim_device_vnc_count(device), sizeof *d->present);
    return d->present ? d : sim_deeds_free(d);
}

struct sim_deeds *sim_deeds_free(struct sim_deeds *d)
{
    if (!d)
        return NULL;
    kymo_free(d->deeds);
    kymo_free(d->memory);
    kymo_free(d->samples);
    kymo_free(d->present);
    kymo_free(d);
    return NULL;
}

void sim_deeds_add(struct sim_deeds *d, const struct sim_deed *deed)
{
    void *p = d->deeds;
    int r = kymo_grow(&p, &d->deeds_cap, d->n_deeds + 1, SIM_DEEDS_MAX, sizeof *d->deeds);

    d->deeds = p;
    d->busy_ns += deed->end_ns - deed->start_ns;
    d->copied += deed->bytes;
    if (r == 0)
        d->deeds[d->n_deeds++] = *deed;
    else
        d->left_out++;
}

static void add_memory(struct sim_deeds *d, const struct memory *m)
{
    void *p = d->memory;
    int r = kymo_grow(&p, &d->memory_cap, d->n_memory + 1, SIM_DEEDS_MAX, sizeof *d->memory);

    d->memory = p;
    if (r == 0)
        d->memory[d->n_memory++] = *m;
    else
        d->left_out++;
}

void sim_deeds_memory(struct sim_deeds *d, unsigned vnc)
{
    uint64_t now[SYSFS_KIND_MAX], ps, host_ns;

    sim_device_memory(d->device, vnc, now);
    if (!memcmp(now, d->present[vnc], sizeof now))
        return;
    sim_device_now(d->device, vnc, &ps, &host_ns);
    for (unsigned k = 0; k < SYSFS_KIND_MAX; k++)
        if (now[k] != d->present[vnc][k])
            add_memory(d, &(struct memory){host_ns, now[k], vnc, (enum sysfs_kind)k});
    memcpy(d->present[vnc], now, sizeof now);
}

/* A number that looks arbitrary and depends on nothing but the two. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a + 1) * 0x9e3779b97f4a7c15ull ^ (b + 1) * 0xbf58476d1ce4e5b9ull;

    x = (x ^ (x >> 31)) * 0x94d049bb133111ebull;
    return x ^ (x >> 29);
}

void sim_deeds_sample(struct sim_deeds *d, uint64_t ts_ns, float cpu[SIM_WIRE_CPUS], uint64_t *ret_used)
{
    uint64_t span = ts_ns > d->sampled_ns && d->sampled_ns ? ts_ns - d->sampled_ns : NS_PER_S;
    uint64_t busy = d->busy_ns - d->busy_before;
    struct sample s = {.ts_ns = ts_ns, .used = HOST_BASE_BYTES + d->copied / 2};
    void *p = d->samples;

    /* The rank's own thread runs on the first CPU; the others do what hosts do. */
    for (unsigned i = 0; i < SIM_WIRE_CPUS; i++)
        s.cpu[i] = (float)(mix(i, d->n_samples) % 1000) / 40.0f;
    s.cpu[0] = busy < span ? (float)(100.0 * (double)busy / (double)span) : 100.0f;
    d->busy_before = d->busy_ns;
    d->sampled_ns = ts_ns;
    memcpy(cpu, s.cpu, sizeof s.cpu);
    *ret_used = s.used;
    if (kymo_grow(&p, &d->samples_cap, d->n_samples + 1, SIM_DEEDS_MAX, sizeof *d->samples) < 0)
        d->left_out++;
    d->samples = p;
    if (d->samples_cap > d->n_samples)
        d->samples[d->n_samples++] = s;
}

struct out {
    int fd;
    char *path;
    uint64_t written;
    struct kymo_buf buf;
};

static int flush(struct out *o, struct kymo_err *err)
{
    int r = kymo_file_pwrite_all(o->fd, o->buf.data, o->buf.len, o->written, o->path, err);

    o->written += o->buf.len;
    kymo_buf_reset(&o->buf);
    return r;
}

static int open_out(struct out *o, const char *dir, const char *name, const char *header, struct kymo_err *err)
{
    *o = (struct out){.fd = -1};
    kymo_buf_init(&o->buf, FLUSH_BYTES * 2);
    o->path = kymo_asprintf("%s/%s", dir, name);
    if (!o->path)
        return kymo_err_set(err, -ENOMEM, "no memory for the truth");
    o->fd = kymo_file_open(o->path, O_WRONLY | O_CREAT | O_EXCL, 0644, err);
    if (o->fd < 0)
        return o->fd;
    return kymo_buf_printf(&o->buf, "%s\n", header);
}

static int close_out(struct out *o, int r, struct kymo_err *err)
{
    if (r == 0)
        r = flush(o, err);
    else if (r == -ENOMEM || r == -ENOBUFS)
        r = kymo_err_set(err, r, "no memory for the truth");
    o->fd = kymo_file_close(o->fd);
    kymo_buf_done(&o->buf);
    kymo_free(o->path);
    return r;
}

static int room(struct out *o, int r, struct kymo_err *err)
{
    return r == 0 && o->buf.len > FLUSH_BYTES ? flush(o, err) : r;
}

static int write_deeds(const struct sim_deeds *d, const char *dir, struct kymo_err *err)
{
    struct out o;
    int r = open_out(&o, dir, "system.tsv", "kind\tvnc\tstart_ns\tend_ns\tbytes\tmodel_id\tstatus", err);

    for (size_t i = 0; r == 0 && i < d->n_deeds; i++) {
        const struct sim_deed *k = &d->deeds[i];

        r = kymo_buf_printf(&o.buf, "%s\t%u\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%u\n", k->kind, k->vnc,
                            k->start_ns, k->end_ns, k->bytes, k->model_id, k->status);
        r = room(&o, r, err);
    }
    return close_out(&o, r, err);
}

static int write_memory(const struct sim_deeds *d, const char *dir, struct kymo_err *err)
{
    static const char *const kinds[SYSFS_KIND_MAX] = {
#define X(name, text) [SYSFS_KIND_##name] = text,
        SYSFS_KIND_MAP(X)
#undef X
    };
    struct out o;
    int r = open_out(&o, dir, "memory.tsv", "ts_ns\tvnc\tkind\tbytes", err);

    for (size_t i = 0; r == 0 && i < d->n_memory; i++) {
        const struct memory *m = &d->memory[i];

        r = kymo_buf_printf(&o.buf, "%" PRIu64 "\t%u\t%s\t%" PRIu64 "\n", m->ts_ns, m->vnc, kinds[m->kind], m->bytes);
        r = room(&o, r, err);
    }
    return close_out(&o, r, err);
}

static int write_samples(const struct sim_deeds *d, const char *dir, struct kymo_err *err)
{
    struct out o;
    int r = open_out(&o, dir, "host.tsv", "ts_ns\tused_bytes\tcapacity_bytes\tcpu_percent", err);

    for (size_t i = 0; r == 0 && i < d->n_samples; i++) {
        const struct sample *s = &d->samples[i];

        r = kymo_buf_printf(&o.buf, "%" PRIu64 "\t%" PRIu64 "\t%llu\t", s->ts_ns, s->used, SIM_WIRE_HOST_BYTES);
        for (unsigned c = 0; r == 0 && c < SIM_WIRE_CPUS; c++)
            r = kymo_buf_printf(&o.buf, "%s%.9g", c ? "," : "", (double)s->cpu[c]);
        if (r == 0)
            r = kymo_buf_append(&o.buf, "\n", 1);
        r = room(&o, r, err);
    }
    return close_out(&o, r, err);
}

int sim_deeds_write(const struct sim_deeds *d, const char *dir, struct kymo_err *err)
{
    int r = d->left_out ? kymo_err_set(err, -EFBIG, "%llu deeds of a rank are beyond what its truth holds",
                                       (unsigned long long)d->left_out)
                        : write_deeds(d, dir, err);

    if (r == 0)
        r = write_memory(d, dir, err);
    return r < 0 ? r : write_samples(d, dir, err);
}
