/* Tables of samples: HBM, CPUs and memory of the host. */
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "pipeline/system/system_impl.h"

struct hbm {
    uint32_t device, hbm;
    uint64_t usage[SYSTRACE_USAGE_MAX + 1]; /* the last one: classes that are not known */
};

static int finish(struct parquet_row *row, int r, struct kymo_err *err)
{
    if (r < 0) {
        parquet_row_discard(row);
        return r;
    }
    return parquet_row_finish(row, err);
}

struct hbms {
    struct hbm *list;
    size_t n, cap;
    uint64_t contradictions;
};

static int find_hbm(struct hbms *h, const struct system_memory *m, struct hbm **ret, struct kymo_err *err)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->list[i].device == m->device && h->list[i].hbm == m->hbm) {
            *ret = &h->list[i];
            return 0;
        }
    void *p = h->list;
    int r = kymo_grow(&p, &h->cap, h->n + 1, SYSTEM_HBMS_MAX, sizeof *h->list);
    h->list = p;
    if (r < 0)
        return kymo_err_set(err, r, "memory events of more than %u HBMs", SYSTEM_HBMS_MAX);
    h->list[h->n] = (struct hbm){.device = m->device, .hbm = m->hbm};
    *ret = &h->list[h->n++];
    return 0;
}

/* What the runtime counts beyond the classes that were heard of is of classes not known. */
static uint64_t unknown_of(struct hbms *h, const struct hbm *state, const struct system_memory *m, uint64_t sum)
{
    if (!m->has_total)
        return state->usage[SYSTRACE_USAGE_MAX];
    if (m->total < sum)
        h->contradictions++;
    return m->total > sum ? m->total - sum : 0;
}

static int put_hbm(struct hbms *h, struct parquet_row *row, const struct system_job *j, const struct hbm *state,
                   const struct system_memory *m, struct kymo_err *err)
{
    static const unsigned columns[SYSTRACE_USAGE_MAX] = {
#define SYSTRACE_USAGE(id, word) [SYSTRACE_USAGE_##id] = KYMO_SYSTEM_PROFILE_HBM_USAGE_##id##_BYTES,
#include "formats/systrace/systrace_usage.def"
#undef SYSTRACE_USAGE
    };
    uint64_t sum = 0;
    for (unsigned u = 0; u < SYSTRACE_USAGE_MAX; u++) {
        parquet_row_int(row, columns[u], (int64_t)state->usage[u]);
        sum += state->usage[u];
    }
    uint64_t unknown = unknown_of(h, state, m, sum);
    parquet_row_int(row, KYMO_SYSTEM_PROFILE_HBM_USAGE_TIMESTAMP, m->ts);
    parquet_row_int(row, KYMO_SYSTEM_PROFILE_HBM_USAGE_TOTAL_BYTES, (int64_t)(sum + unknown));
    parquet_row_int(row, KYMO_SYSTEM_PROFILE_HBM_USAGE_UNKNOWN_BYTES, (int64_t)unknown);
    parquet_row_int(row, KYMO_SYSTEM_PROFILE_HBM_USAGE_DEVICE_IDX, state->device);
    parquet_row_int(row, KYMO_SYSTEM_PROFILE_HBM_USAGE_HBM_IDX, state->hbm);
    parquet_row_string(row, KYMO_SYSTEM_PROFILE_HBM_USAGE_INSTANCE_ID, j->instance);
    return parquet_row_end(row, err);
}

static int put_memory(struct system_job *j, struct hbms *h, struct parquet_row *row, const struct system_memory *m,
                      struct kymo_err *err)
{
    struct hbm *state;
    int r = find_hbm(h, m, &state, err);
    if (r < 0)
        return r;
    if (m->has_class)
        state->usage[m->usage] = m->class_total;
    system_span(j, m->ts);
    j->result.memory++;
    return put_hbm(h, row, j, state, m, err);
}

int system_write_memory(struct system_job *j, struct kymo_err *err)
{
    struct parquet_row *row = NULL;
    struct hbms h = {0};
    const void *m;
    int code, r = sort_spill_merge(j->memory, err);
    if (r == 0)
        r = parquet_row_open(j->dir, kymo_schema_table(KYMO_T_SYSTEM_PROFILE_HBM_USAGE), &j->parquet, &row, err);
    if (r < 0)
        return r;
    while (r == 0 && (code = sort_spill_next(j->memory, &m, err)) != 0)
        r = code < 0 ? code : put_memory(j, &h, row, m, err);
    if (h.contradictions)
        warnings_add(
            j->warnings, "Contradiction",
            "%llu memory events have a total below what their classes make together: total_bytes is the sum of "
            "the classes",
            (unsigned long long)h.contradictions);
    kymo_free(h.list);
    return finish(row, r, err);
}

struct cpu {
    int64_t ts;
    uint32_t cpu;
    float percent;
};

struct sampling {
    struct system_job *j;
    struct system_ring *ring;
    struct parquet_row *row;
    int64_t ts; /* of the rows that make the average */
    double sum;
    uint64_t n;
};

static void put_where(const struct system_job *j, struct parquet_row *row, unsigned instance, unsigned ultraserver,
                      unsigned position)
{
    const Ntff__NtraceInfo *info = j->info;
    parquet_row_string(row, instance, j->instance);
    if (info && info->ultraserver_id_oneof_case)
        parquet_row_int(row, ultraserver, (int64_t)info->ultraserver_id);
    if (info && info->ultraserver_index_oneof_case)
        parquet_row_int(row, position, (int64_t)info->ultraserver_index);
}

static int put_cpu(struct sampling *s, int64_t ts, const char *id, double percent, struct kymo_err *err)
{
    parquet_row_int(s->row, KYMO_CPU_USAGE_TIMESTAMP, ts);
    parquet_row_real(s->row, KYMO_CPU_USAGE_UTIL_PERCENT, percent);
    parquet_row_string(s->row, KYMO_CPU_USAGE_CPU_ID, id);
    put_where(s->j, s->row, KYMO_CPU_USAGE_INSTANCE_ID, KYMO_CPU_USAGE_ULTRASERVER_ID,
              KYMO_CPU_USAGE_ULTRASERVER_INSTANCE_INDEX);
    system_span(s->j, ts);
    return parquet_row_end(s->row, err);
}

static int put_average(struct sampling *s, struct kymo_err *err)
{
    int r = s->n ? put_cpu(s, s->ts, "average", s->sum / (double)s->n, err) : 0;
    s->sum = 0;
    s->n = 0;
    return r;
}

static int put_sample(struct sampling *s, const struct cpu *c, struct kymo_err *err)
{
    char id[16];
    int r = s->n && c->ts != s->ts ? put_average(s, err) : 0;
    if (r < 0)
        return r;
    s->ts = c->ts;
    s->sum += (double)c->percent;
    s->n++;
    s->ring->rows++;
    s->j->result.samples++;
    (void)snprintf(id, sizeof id, "%u", c->cpu);
    return put_cpu(s, c->ts, id, (double)c->percent, err);
}

/* A sample is stored unless its time or its value cannot be one. */
static bool is_cpu(const Ntff__CpuUtil *m)
{
    return m->timestamp <= INT64_MAX && m->percent >= 0.0f && m->percent <= 1e6f;
}

static void tell_broken(struct system_job *j, struct system_ring *ring, const struct kymo_err *why)
{
    ring->broken = "undecodable";
    warnings_add(j->warnings, "Lost records", "samples behind the damage are lost, how many is not known: %s",
                 why->text);
}

static int sort_item(struct system_ring *ring, struct sort_spill *sorted, const struct systrace_item *item,
                     struct kymo_err *err)
{
    ring->stored++;
    if (item->type == SYSTRACE_ITEM_CPU && is_cpu(item->cpu)) {
        const struct cpu c = {(int64_t)item->cpu->timestamp, item->cpu->cpu, item->cpu->percent};
        return sort_spill_add(sorted, c.ts, &c, err);
    }
    if (item->type == SYSTRACE_ITEM_MEMORY && item->memory->timestamp <= INT64_MAX && item->memory->bytes >= 0) {
        const int64_t pair[2] = {(int64_t)item->memory->timestamp, item->memory->bytes};
        return sort_spill_add(sorted, pair[0], pair, err);
    }
    ring->unknown++;
    return 0;
}

/* All of a file's items of one kind, in order of time. */
static int sort_items(struct system_job *j, enum systrace_kind kind, enum systrace_item_type type,
                      struct system_ring *ring, struct sort_spill *sorted, struct kymo_err *err)
{
    struct systrace_item item;
    struct kymo_err why = {0};
    int r, code = 0;
    while (code == 0 && (r = systrace_next(j->files[kind], &item, &why)) != 0) {
        if (r == -ENOMEM)
            return kymo_err_set(err, r, "%s", why.text);
        if (r < 0) {
            tell_broken(j, ring, &why);
            break;
        }
        if (item.type == type)
            code = sort_item(ring, sorted, &item, err);
    }
    j->result.records += ring->stored;
    if (type == SYSTRACE_ITEM_MEMORY && ring->stored == SYSTRACE_SAMPLES_MAX)
        warnings_add(
            j->warnings, "Missing Data",
            "the host was sampled %d times, after which the runtime's sampler stops: what came later is not in "
            "HostMemUsage and CpuUsage",
            SYSTRACE_SAMPLES_MAX);
    return code < 0 ? code : sort_spill_merge(sorted, err);
}

int system_write_cpu(struct system_job *j, struct kymo_err *err)
{
    struct sort_spill *sorted = NULL;
    const void *c;
    int ring, code, r;
    if (!j->files[SYSTRACE_KIND_CPU_UTIL])
        return 0;
    r = ring = system_ring_new(j, "sample", systrace_file_name(SYSTRACE_KIND_CPU_UTIL), err);
    struct sampling s = {.j = j};
    if (r >= 0)
        r = sort_spill_open(j->dir, sizeof(struct cpu), 0, &sorted, err);
    if (r == 0)
        r = parquet_row_open(j->dir, kymo_schema_table(KYMO_T_CPU_USAGE), &j->parquet, &s.row, err);
    if (r < 0) {
        sort_spill_free(sorted);
        return r;
    }
    s.ring = &j->rings[ring];
    r = sort_items(j, SYSTRACE_KIND_CPU_UTIL, SYSTRACE_ITEM_CPU, s.ring, sorted, err);
    while (r == 0 && (code = sort_spill_next(sorted, &c, err)) != 0)
        r = code < 0 ? code : put_sample(&s, c, err);
    if (r == 0)
        r = put_average(&s, err);
    sort_spill_free(sorted);
    return finish(s.row, r, err);
}

static int put_host_memory(struct sampling *s, const int64_t pair[2], uint64_t capacity, struct kymo_err *err)
{
    parquet_row_int(s->row, KYMO_HOST_MEM_USAGE_TIMESTAMP, pair[0]);
    parquet_row_int(s->row, KYMO_HOST_MEM_USAGE_USED_BYTES, pair[1]);
    if (capacity)
        parquet_row_real(s->row, KYMO_HOST_MEM_USAGE_USED_PERCENT, 100.0 * (double)pair[1] / (double)capacity);
    put_where(s->j, s->row, KYMO_HOST_MEM_USAGE_INSTANCE_ID, KYMO_HOST_MEM_USAGE_ULTRASERVER_ID,
              KYMO_HOST_MEM_USAGE_ULTRASERVER_INSTANCE_INDEX);
    system_span(s->j, pair[0]);
    s->ring->rows++;
    s->j->result.samples++;
    return parquet_row_end(s->row, err);
}

int system_write_host_memory(struct system_job *j, struct kymo_err *err)
{
    struct systrace_reader *file = j->files[SYSTRACE_KIND_HOST_MEM];
    struct sort_spill *sorted = NULL;
    const void *pair;
    int ring, code, r;
    if (!file)
        return 0;
    r = ring = system_ring_new(j, "sample", systrace_file_name(SYSTRACE_KIND_HOST_MEM), err);
    struct sampling s = {.j = j};
    if (r >= 0)
        r = sort_spill_open(j->dir, 2 * sizeof(int64_t), 0, &sorted, err);
    if (r == 0)
        r = parquet_row_open(j->dir, kymo_schema_table(KYMO_T_HOST_MEM_USAGE), &j->parquet, &s.row, err);
    if (r < 0) {
        sort_spill_free(sorted);
        return r;
    }
    uint64_t capacity = systrace_stats(file) ? systrace_stats(file)->memory_capacity : 0;
    s.ring = &j->rings[ring];
    r = sort_items(j, SYSTRACE_KIND_HOST_MEM, SYSTRACE_ITEM_MEMORY, s.ring, sorted, err);
    while (r == 0 && (code = sort_spill_next(sorted, &pair, err)) != 0)
        r = code < 0 ? code : put_host_memory(&s, pair, capacity, err);
    if (!capacity && s.ring->rows)
        warnings_add(j->warnings, "Missing Data",
                     "HostMemUsage.used_percent is 0: %s does not say how much memory the host has",
                     systrace_file_name(SYSTRACE_KIND_HOST_MEM));
    sort_spill_free(sorted);
    return finish(s.row, r, err);
}
