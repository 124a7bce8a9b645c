/* The files of a system trace, as formats/systrace documents them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "driver-iface/sim/libnrt/libnrt_systrace.h"
#include "formats/ntff/ntff_reader.h"
#include "formats/systrace/systrace_reader.h"
#include "formats/systrace/systrace_writer.h"

#define ATTRIBUTES_MAX (LIBNRT_TRACE_ARGS_MAX + 2)
#define VALUE_MAX 24
#define FILES_MAX 3

struct attribute {
    Ntff__NtraceEvent__AttributesEntry entry;
    char value[VALUE_MAX];
};

struct attributes {
    struct attribute list[ATTRIBUTES_MAX];
    Ntff__NtraceEvent__AttributesEntry *entries[ATTRIBUTES_MAX];
    size_t n;
};

static void add(struct attributes *a, const char *key, const char *value)
{
    struct attribute *t = &a->list[a->n];

    ntff__ntrace_event__attributes_entry__init(&t->entry);
    (void)snprintf(t->value, sizeof t->value, "%s", value);
    t->entry.key = (char *)(uintptr_t)key;
    t->entry.value = t->value;
    a->entries[a->n++] = &t->entry;
}

static void add_arg(struct attributes *a, const struct libnrt_trace_arg *arg)
{
    static const struct {
        const char *key;
        char form;
    } keys[] = {
#define X(id, key, form) {key, #form[0]},
        LIBNRT_TRACE_KEYS(X)
#undef X
    };
    char text[VALUE_MAX];

    if (arg->key == LIBNRT_TRACE_NONE)
        return;
    if (keys[arg->key].form == 'u')
        (void)snprintf(text, sizeof text, "%s", systrace_usage_name((enum systrace_usage)arg->value));
    else
        (void)snprintf(text, sizeof text, keys[arg->key].form == 'x' ? "0x%" PRIx64 : "%" PRIu64, arg->value);
    add(a, keys[arg->key].key, text);
}

/* What a job's launcher gave this process; without it the worker is not known. */
static int64_t worker_of(unsigned core)
{
    const char *rank = getenv("RANK");

    return rank && *rank ? strtoll(rank, NULL, 10) * (int64_t)rt.n_cores + core : -1;
}

static int put_event(struct systrace_writer *w, unsigned core, const struct libnrt_trace_event *e, struct kymo_err *err)
{
    Ntff__NtraceEvent m = NTFF__NTRACE_EVENT__INIT;
    struct attributes a = {.n = 0};
    char text[VALUE_MAX];

    for (unsigned i = 0; i < LIBNRT_TRACE_ARGS_MAX; i++)
        add_arg(&a, &e->args[i]);
    (void)snprintf(text, sizeof text, "%u", rt.cores[core].first_pcore);
    add(&a, "nc_local_id", text);
    (void)snprintf(text, sizeof text, "%" PRId64, worker_of(core));
    add(&a, "worker_gid", text);
    m.timestamp = e->ns;
    m.nd_idx = rt.cores[core].nd_idx;
    m.nc_idx = core;
    m.event_type = e->type;
    m.thread_id = e->thread;
    m.status = e->status;
    m.phase = (Ntff__NtraceEventPhaseType)e->phase;
    m.tracking_id = e->tracking;
    m.attributes = a.entries;
    m.n_attributes = a.n;
    if (e->sequence) {
        m.nrta_seq_id_oneof_case = NTFF__NTRACE_EVENT__NRTA_SEQ_ID_ONEOF_NRTA_SEQ_ID;
        m.nrta_seq_id = e->sequence - 1;
    }
    return systrace_writer_event(w, &m, err);
}

static int put_ring(struct systrace_writer *w, unsigned core, struct kymo_err *err)
{
    const struct libnrt_trace_ring *r = &libnrt_trace.rings[core];
    uint64_t first = r->emitted > r->limit ? r->emitted - r->limit : 0;
    Ntff__NtraceCoreInfo c = NTFF__NTRACE_CORE_INFO__INIT, *cores[] = {&c};
    Ntff__NtraceInfo info = NTFF__NTRACE_INFO__INIT;
    int result = 0;

    for (uint64_t i = first; i < r->emitted && result == 0; i++)
        result = put_event(w, core, &r->events[i % r->limit], err);
    c.nc_idx = core;
    c.vnc = rt.cores[core].vnc;
    c.nd_idx = rt.cores[core].nd_idx;
    c.first_pcore = rt.cores[core].first_pcore;
    c.emitted_oneof_case = NTFF__NTRACE_CORE_INFO__EMITTED_ONEOF_EMITTED;
    c.emitted = r->emitted;
    c.dropped_oneof_case = NTFF__NTRACE_CORE_INFO__DROPPED_ONEOF_DROPPED;
    c.dropped = first;
    info.cores = cores;
    info.n_cores = 1;
    return result < 0 ? result : systrace_writer_info(w, &info, err);
}

static int put_rings(struct systrace_writer *w, struct kymo_err *err)
{
    int r = 0;

    for (unsigned core = 0; core < rt.n_cores && r == 0; core++)
        r = put_ring(w, core, err);
    return r;
}

static int put_cpu(struct systrace_writer *w, struct kymo_err *err)
{
    const struct libnrt_trace *t = &libnrt_trace;
    Ntff__HostStats s = NTFF__HOST_STATS__INIT;
    int r;

    s.cpu_count = SIM_WIRE_CPUS;
    s.cpu_name = (char *)(uintptr_t) "simulated";
    s.sample_period = (float)t->period_ns / 1e9f;
    r = systrace_writer_stats(w, &s, err);
    for (size_t i = 0; i < t->n_samples; i++)
        for (unsigned c = 0; c < SIM_WIRE_CPUS && r == 0; c++) {
            Ntff__CpuUtil row = NTFF__CPU_UTIL__INIT;

            row.cpu = c;
            row.percent = t->samples[i].cpu[c];
            row.timestamp = t->samples[i].ns;
            r = systrace_writer_cpu(w, &row, err);
        }
    return r;
}

static int put_memory(struct systrace_writer *w, struct kymo_err *err)
{
    const struct libnrt_trace *t = &libnrt_trace;
    Ntff__HostStats s = NTFF__HOST_STATS__INIT;
    int r;

    s.memory_capacity = SIM_WIRE_HOST_BYTES;
    s.sample_period = (float)t->period_ns / 1e9f;
    r = systrace_writer_stats(w, &s, err);
    for (size_t i = 0; i < t->n_samples && r == 0; i++) {
        Ntff__HostMemUsage row = NTFF__HOST_MEM_USAGE__INIT;

        row.bytes = (int64_t)t->samples[i].used;
        row.timestamp = t->samples[i].ns;
        r = systrace_writer_memory(w, &row, err);
    }
    return r;
}

static int put_info(struct systrace_writer *w, Ntff__NtraceDataFile **files, size_t n_files, struct kymo_err *err)
{
    Ntff__NtraceInfo info = NTFF__NTRACE_INFO__INIT;
    char host[256] = "", id[LIBNRT_INSTANCE_MAX], version[160];
    nrt_version_t v;

    (void)gethostname(host, sizeof host - 1);
    (void)nrt_get_version(&v, sizeof v);
    (void)snprintf(version, sizeof version, "%.*s", (int)sizeof v.rt_detail, v.rt_detail);
    libnrt_instance_id(id);
    info.collected_profiles = files;
    info.n_collected_profiles = n_files;
    info.arch = (char *)(uintptr_t)rt.arch->name;
    info.pid = (uint64_t)getpid();
    info.session_id = (uint64_t)rt.inspect.session_id + rt.sessions;
    info.data_version = SYSTRACE_DATA_VERSION;
    info.logical_nc_size = rt.hello.lnc;
    info.instance_id = id;
    info.instance_type = rt.hello.instance;
    info.hostname = host;
    info.start_unix_ns = libnrt_trace.start_ns;
    info.end_unix_ns = libnrt_trace.end_ns;
    info.ntff_version = NTFF_VERSION;
    info.runtime_version = version;
    info.driver_version = rt.hello.driver_version;
    return systrace_writer_info(w, &info, err);
}

struct file {
    enum systrace_kind kind;
    bool wanted;
    int (*put)(struct systrace_writer *w, struct kymo_err *err);
    const char *type;
};

static int write_file(const struct file *f, Ntff__NtraceDataFile *ret, struct kymo_err *err)
{
    const char *name = systrace_file_name(f->kind);
    char *path KYMO_FREE = kymo_asprintf("%s/%s", rt.session_dir, name);
    struct systrace_writer *w = NULL;
    int r = path ? systrace_writer_open(path, &w, err) : kymo_err_set(err, -ENOMEM, "no memory for a path");

    if (r < 0)
        return r;
    r = f->put(w, err);
    if (r < 0) {
        (void)systrace_writer_discard(w);
        return r;
    }
    ntff__ntrace_data_file__init(ret);
    ret->name = (char *)(uintptr_t)name;
    ret->type = (char *)(uintptr_t)f->type;
    ret->size = systrace_writer_bytes(w);
    return systrace_writer_finish(w, err);
}

static int write_info(Ntff__NtraceDataFile **files, size_t n, struct kymo_err *err)
{
    char *path KYMO_FREE = kymo_asprintf("%s/%s", rt.session_dir, systrace_file_name(SYSTRACE_KIND_TRACE_INFO));
    struct systrace_writer *w = NULL;
    int r = path ? systrace_writer_open(path, &w, err) : kymo_err_set(err, -ENOMEM, "no memory for a path");

    if (r < 0)
        return r;
    r = put_info(w, files, n, err);
    if (r == 0)
        return systrace_writer_finish(w, err);
    (void)systrace_writer_discard(w);
    return r;
}

/* The file that names the others comes last, so that a directory with it is complete. */
int libnrt_trace_write(struct kymo_err *err)
{
    const struct file files[FILES_MAX] = {
        {SYSTRACE_KIND_CPU_UTIL, libnrt_trace.cpu, put_cpu, "cpu_util"},
        {SYSTRACE_KIND_HOST_MEM, libnrt_trace.memory, put_memory, "host_mem_usage"},
        {SYSTRACE_KIND_NTRACE, libnrt_trace.system, put_rings, "ntrace"},
    };
    Ntff__NtraceDataFile written[FILES_MAX], *list[FILES_MAX];
    size_t n = 0;
    int r = 0;

    for (size_t i = 0; i < FILES_MAX && r == 0; i++) {
        if (!files[i].wanted)
            continue;
        r = write_file(&files[i], &written[n], err);
        list[n] = &written[n];
        n++;
    }
    return r < 0 ? r : write_info(list, n, err);
}
