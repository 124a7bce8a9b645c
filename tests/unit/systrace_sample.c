#include "tests/unit/systrace_sample.h"

#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "formats/systrace/systrace_facts.h"
#include "formats/systrace/systrace_reader.h"
#include "formats/systrace/systrace_writer.h"

#define T0 SYSTRACE_SAMPLE_T0
#define D0 1000000000ull /* the device's clock when the host's shows T0 */
#define START NTFF__NTRACE_EVENT_PHASE_TYPE__PHASE_START
#define STOP NTFF__NTRACE_EVENT_PHASE_TYPE__PHASE_STOP
#define INSTANT NTFF__NTRACE_EVENT_PHASE_TYPE__PHASE_INSTANT
#define ATTRIBUTES_MAX 6

struct sample {
    unsigned type;
    int phase;
    uint64_t ts, tracking;
    const char *attributes[2 * ATTRIBUTES_MAX];
};

/* An execution with its hardware event and a clock reading, a copy, memory taken, and a start without a stop. */
static const struct sample samples[SYSTRACE_SAMPLE_EVENTS] = {
    {SYSTRACE_dma_mem_alloc, START, T0, 1, {"hbm_idx", "1", "usage_type", "tensors"}},
    {SYSTRACE_dma_mem_alloc,
     STOP,
     T0 + 500,
     1,
     {"allocated_bytes", "4096", "usage_type_total_bytes", "4096", "total_bytes", "5120"}},
    {SYSTRACE_dmem_buf_copyin, START, T0 + 1000, 2, {"mem_type", "device", "size", "4096"}},
    {SYSTRACE_dmem_buf_copyin, STOP, T0 + 3000, 2, {0}},
    {SYSTRACE_execute_api, START, T0 + 4000, 3, {"model_id", "7"}},
    {SYSTRACE_device_exec, START, D0 + 6000, 3, {"exec_id", "1", "nc_timestamp_ns", "1000006000"}},
    {SYSTRACE_device_exec, STOP, D0 + 9000, 3, {"nc_timestamp_ns", "1000009000"}},
    {SYSTRACE_timestamp_sync,
     INSTANT,
     D0 + 9500,
     3,
     {"exec_id", "1", "nc_timestamp_ns", "1000009500", "cpu_timestamp_ns", "1766072156592469982"}},
    {SYSTRACE_execute_api, STOP, T0 + 11000, 3, {0}},
    {SYSTRACE_generic, INSTANT, T0 + 12000, 4, {"note", "q\"uote"}},
    {60, INSTANT, T0 + 13000, 5, {"worker_gid", "3"}},
    {SYSTRACE_tensor_read, START, T0 + 14000, 6, {"size", "64"}},
};

static int put(struct systrace_writer *w, const struct sample *s, struct kymo_err *err)
{
    Ntff__NtraceEvent__AttributesEntry entries[ATTRIBUTES_MAX], *list[ATTRIBUTES_MAX];
    Ntff__NtraceEvent e = NTFF__NTRACE_EVENT__INIT;
    for (size_t i = 0; i < ATTRIBUTES_MAX && s->attributes[2 * i]; i++) {
        ntff__ntrace_event__attributes_entry__init(&entries[i]);
        entries[i].key = (char *)(uintptr_t)s->attributes[2 * i];
        entries[i].value = (char *)(uintptr_t)s->attributes[2 * i + 1];
        list[i] = &entries[i];
        e.n_attributes++;
    }
    e.attributes = list;
    e.timestamp = s->ts;
    e.event_type = s->type;
    e.phase = (Ntff__NtraceEventPhaseType)s->phase;
    e.tracking_id = s->tracking;
    e.thread_id = 77;
    e.hint = s->type == SYSTRACE_generic ? (char *)(uintptr_t) "my_event" : e.hint;
    return systrace_writer_event(w, &e, err);
}

static int put_events(struct systrace_writer *w, struct kymo_err *err)
{
    Ntff__NtraceCoreInfo core = NTFF__NTRACE_CORE_INFO__INIT, *cores[] = {&core};
    Ntff__NtraceInfo info = NTFF__NTRACE_INFO__INIT;
    int r = 0;
    for (size_t i = 0; i < SYSTRACE_SAMPLE_EVENTS && r == 0; i++)
        r = put(w, &samples[i], err);
    core.vnc = 4;
    core.first_pcore = 2;
    core.emitted_oneof_case = NTFF__NTRACE_CORE_INFO__EMITTED_ONEOF_EMITTED;
    core.emitted = SYSTRACE_SAMPLE_EVENTS + 5;
    core.dropped_oneof_case = NTFF__NTRACE_CORE_INFO__DROPPED_ONEOF_DROPPED;
    core.dropped = 5;
    info.cores = cores;
    info.n_cores = 1;
    return r < 0 ? r : systrace_writer_info(w, &info, err);
}

static int put_info(struct systrace_writer *w, struct kymo_err *err)
{
    Ntff__NtraceInfo info = NTFF__NTRACE_INFO__INIT;
    info.arch = (char *)(uintptr_t) "Trn2";
    info.instance_type = (char *)(uintptr_t) "trn2.48xlarge";
    info.instance_id = (char *)(uintptr_t) "i-0123";
    info.pid = 4711;
    info.session_id = 2;
    info.data_version = SYSTRACE_DATA_VERSION;
    info.logical_nc_size = 2;
    info.ntff_version = 7;
    return systrace_writer_info(w, &info, err);
}

static int put_cpu(struct systrace_writer *w, struct kymo_err *err)
{
    Ntff__HostStats s = NTFF__HOST_STATS__INIT;
    s.cpu_count = 2;
    int r = systrace_writer_stats(w, &s, err);
    for (unsigned i = 0; i < 4 && r == 0; i++) {
        Ntff__CpuUtil c = NTFF__CPU_UTIL__INIT;
        c.cpu = i % 2;
        c.percent = 10.0f * (float)(i + 1);
        c.timestamp = T0 + i / 2 * 1000000000ull;
        r = systrace_writer_cpu(w, &c, err);
    }
    return r;
}

static int put_memory(struct systrace_writer *w, struct kymo_err *err)
{
    Ntff__HostStats s = NTFF__HOST_STATS__INIT;
    Ntff__HostMemUsage m = NTFF__HOST_MEM_USAGE__INIT;
    s.memory_capacity = 4000;
    m.bytes = 1000;
    m.timestamp = T0;
    int r = systrace_writer_stats(w, &s, err);
    return r < 0 ? r : systrace_writer_memory(w, &m, err);
}

int systrace_sample_write(const char *dir, struct kymo_err *err)
{
    static int (*const puts[SYSTRACE_KIND_MAX])(struct systrace_writer * w, struct kymo_err * err) = {
        [SYSTRACE_KIND_NTRACE] = put_events,
        [SYSTRACE_KIND_TRACE_INFO] = put_info,
        [SYSTRACE_KIND_CPU_UTIL] = put_cpu,
        [SYSTRACE_KIND_HOST_MEM] = put_memory,
    };
    int r = 0;
    for (unsigned k = 0; k < SYSTRACE_KIND_MAX && r == 0; k++) {
        struct systrace_writer *w = NULL;
        char *path KYMO_FREE = kymo_asprintf("%s/%s", dir, systrace_file_name((enum systrace_kind)k));
        r = path ? systrace_writer_open(path, &w, err) : -ENOMEM;
        if (r == 0)
            r = puts[k](w, err);
        if (r == 0)
            r = systrace_writer_finish(w, err);
        else
            (void)systrace_writer_discard(w);
    }
    return r;
}
