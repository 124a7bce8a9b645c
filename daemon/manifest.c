#include "daemon/manifest.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

#define MODEL_PREFIX "model-"

/* protobuf-c's texts are not const; nothing here writes to them. */
static char *text(const char *s)
{
    union {
        const char *in;
        char *out;
    } u = {s};
    return u.out;
}

static void add_label(struct manifest *b, const char *key, const char *value)
{
    size_t i = b->m.n_labels;
    if (i == MANIFEST_LABELS || !*value)
        return;
    kymo__manifest__capture__labels_entry__init(&b->labels[i]);
    b->labels[i].key = text(key);
    b->labels[i].value = text(value);
    b->label_list[i] = &b->labels[i];
    b->m.n_labels++;
}

void manifest_label(struct manifest *b, const char *key, const char *fmt, ...)
{
    size_t room = sizeof b->texts - b->used;
    char *at = b->texts + b->used;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(at, room, fmt, args);
    va_end(args);
    if (n <= 0 || (size_t)n >= room || n > PROCESS_TEXT_MAX)
        return;
    b->used += (size_t)n + 1;
    add_label(b, key, at);
}

void manifest_number(struct manifest *b, const char *key, uint64_t value)
{
    manifest_label(b, key, "%llu", (unsigned long long)value);
}

void manifest_clock(struct manifest *b, Kymo__Manifest__HostClock__Moment at, const struct host_clock *c)
{
    size_t i = b->m.n_host_clocks;
    Kymo__Manifest__HostClock *to = &b->clocks[i];
    if (!c->real_ns || i == MANIFEST_CLOCKS)
        return;
    kymo__manifest__host_clock__init(to);
    to->has_at = to->has_realtime_ns = to->has_monotonic_ns = to->has_read_error_ns = 1;
    to->at = at;
    to->realtime_ns = c->real_ns;
    to->monotonic_ns = c->mono_ns;
    to->read_error_ns = c->read_error_ns;
    to->has_max_error_ns = to->has_synchronised = c->has_kernel;
    to->max_error_ns = c->max_error_ns;
    to->synchronised = c->synchronised;
    b->clock_list[i] = to;
    b->m.host_clocks = b->clock_list;
    b->m.n_host_clocks++;
}

void manifest_begin(struct manifest *b, const struct rank *r, const struct host *h, const char *capture_id)
{
    memset(b, 0, sizeof *b);
    kymo__manifest__capture__init(&b->m);
    b->m.labels = b->label_list;
    b->m.capture_id = text(capture_id);
    b->m.job = text(r->who.job);
    b->m.has_rank = r->who.rank_known;
    b->m.rank = r->who.rank;
    b->m.host = text(h->name);
    b->m.boot_id = text(h->boot_id);
    if (*h->instance)
        b->m.instance_type = text(h->instance);
    if (*h->driver)
        b->m.driver_version = text(h->driver);
    if (*r->runtime_version)
        b->m.runtime_version = text(r->runtime_version);
    for (size_t i = 0; i < r->who.nlabels; i++)
        add_label(b, r->who.labels[i].key, r->who.labels[i].value);
    manifest_number(b, "pid", (uint64_t)r->who.pid);
    manifest_number(b, "uid", r->uid);
    manifest_label(b, "program", "%s", r->program);
    manifest_label(b, "hook_version", "%s", r->hook_version);
}

/* Models */

struct models {
    Kymo__Manifest__File files[RANK_MODELS_MAX];
    Kymo__Manifest__File *list[RANK_MODELS_MAX];
    char names[RANK_MODELS_MAX][sizeof MODEL_PREFIX + 12 + RANK_MODEL_NAME_MAX];
    size_t n;
};

static void add_models(struct models *all, const struct rank *r)
{
    for (size_t i = 0; i < r->nmodels; i++) {
        const struct rank_model *m = &r->models[i];
        Kymo__Manifest__File *f = &all->files[all->n];
        union {
            const uint8_t *in;
            uint8_t *out;
        } sha256 = {m->sha256};
        if (!m->has_neff)
            continue;
        kymo__manifest__file__init(f);
        (void)snprintf(all->names[all->n], sizeof all->names[0], MODEL_PREFIX "%u%s%s", m->number, *m->name ? "." : "",
                       m->name);
        f->name = all->names[all->n];
        f->has_type = f->has_size = f->has_sha256 = 1;
        f->type = KYMO__MANIFEST__FILE__KIND__NEFF;
        f->size = m->bytes;
        f->sha256 = (ProtobufCBinaryData){KYMO_SHA256_SIZE, sha256.out};
        f->has_vnc = m->vnc >= 0;
        f->vnc = m->vnc >= 0 ? (uint32_t)m->vnc : 0;
        all->list[all->n++] = f;
    }
}

int manifest_pack_rank(const struct rank *r, const struct host *h, uint8_t **ret, size_t *ret_n)
{
    struct manifest *b KYMO_FREE = KYMO_NEW(struct manifest);
    struct models *models KYMO_FREE = KYMO_NEW(struct models);
    if (!b || !models)
        return -ENOMEM;
    manifest_begin(b, r, h, r->key);
    b->m.has_version = 1;
    b->m.version = 1;
    add_models(models, r);
    b->m.files = models->list;
    b->m.n_files = models->n;
    uint8_t *packed = kymo_malloc(kymo__manifest__capture__get_packed_size(&b->m) + 1);
    if (!packed)
        return -ENOMEM;
    *ret_n = kymo__manifest__capture__pack(&b->m, packed);
    *ret = packed;
    return 0;
}

/* Labels of a rank have constant keys: those that a process can have. */
static void read_label(struct rank *r, const char *key, const char *value)
{
    static const char *const keys[] = {"kymo_job",
                                       "slurm_job_id",
                                       "slurm_job_name",
                                       "slurm_step_id",
                                       "slurm_procid",
                                       "slurm_nodeid",
                                       "rank",
                                       "slurm_array_task_id",
                                       "local_rank",
                                       "world_size",
                                       "ompi_rank",
                                       "visible_cores",
                                       "torchelastic_run_id",
                                       "aws_batch_job_id",
                                       "num_cores",
                                       "lnc",
                                       "comm",
                                       "command",
                                       "unit",
                                       "slice",
                                       "user_unit",
                                       "container",
                                       "pod"};
    if (!strcmp(key, "program"))
        (void)snprintf(r->program, sizeof r->program, "%s", value);
    if (!strcmp(key, "hook_version"))
        (void)snprintf(r->hook_version, sizeof r->hook_version, "%s", value);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i]))
            process_set_label(&r->who, keys[i], value);
}

static void read_model(struct rank *r, const Kymo__Manifest__File *f)
{
    size_t prefix = sizeof MODEL_PREFIX - 1;
    struct rank_model *m = &r->models[r->nmodels];
    if (r->nmodels == RANK_MODELS_MAX || strncmp(f->name, MODEL_PREFIX, prefix) != 0)
        return;
    *m = (struct rank_model){.number = (uint32_t)strtoul(f->name + prefix, NULL, 10),
                             .vnc = f->has_vnc ? (int32_t)f->vnc : -1,
                             .slot = UINT32_MAX,
                             .bytes = f->size,
                             .has_neff = true};
    memcpy(m->sha256, f->sha256.data, KYMO_SHA256_SIZE);
    const char *name = strchr(f->name + prefix, '.');
    if (name)
        (void)snprintf(m->name, sizeof m->name, "%s", name + 1);
    r->nmodels++;
}

void manifest_read_rank(const Kymo__Manifest__Capture *m, struct rank *r)
{
    for (size_t i = 0; i < m->n_labels; i++)
        read_label(r, m->labels[i]->key, m->labels[i]->value);
    for (size_t i = 0; i < m->n_files; i++)
        read_model(r, m->files[i]);
    if (m->runtime_version)
        kymo_utf8_copy_plain(r->runtime_version, sizeof r->runtime_version, m->runtime_version,
                             strlen(m->runtime_version));
    if (m->job)
        kymo_utf8_copy_plain(r->who.job, sizeof r->who.job, m->job, strlen(m->job));
    r->who.rank_known = m->has_rank;
    r->who.rank = m->rank;
}
