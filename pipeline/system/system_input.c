/* Finds the files of a session, and what they say of it as a whole. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "pipeline/system/system_impl.h"
#include "proto/manifest_check.h"

/* False: there is no such file, or none with anything in it. Each holds at least what was counted, so that an empty one
 * was cut off before its first byte: it is told as a damaged one is. kind NULL: it holds no records. */
static bool is_there(struct system_job *j, const char *kind, const char *name, const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return false;
    if (st.st_size > 0)
        return true;
    int ring = kind ? system_ring_new(j, kind, name, NULL) : -1;
    if (ring >= 0)
        j->rings[ring].broken = "truncated";
    warnings_add(
        j->warnings, "Lost records",
        "%s is empty, as a file that was cut off or a full disk leaves it: what was recorded in it is lost, how "
        "much is not known",
        name);
    return false;
}

static const char *record_kind(enum systrace_kind kind)
{
    return kind == SYSTRACE_KIND_NTRACE ? "event" : kind == SYSTRACE_KIND_TRACE_INFO ? NULL : "sample";
}

/* NULL: no memory. */
static char *path_of(const struct system_job *j, const char *name)
{
    size_t n;
    bool directory;
    if (systrace_prefix(j->options->dir, &n, &directory) < 0)
        return kymo_strdup(j->options->dir); /* which is not there, or none of the files */
    return kymo_asprintf("%.*s%s%s", (int)n, j->options->dir, directory ? "/" : "", name);
}

static int open_file(struct system_job *j, enum systrace_kind kind, struct kymo_err *err)
{
    struct kymo_err why = {0};
    char *path KYMO_FREE = path_of(j, systrace_file_name(kind));
    if (!path)
        return kymo_err_set(err, -ENOMEM, "no memory for a path");
    if (!is_there(j, record_kind(kind), systrace_file_name(kind), path))
        return 0;
    int r = systrace_open(path, kind, &j->files[kind], err);
    if (r < 0)
        return r;
    r = systrace_read_head(j->files[kind], &why);
    if (r == -ENOMEM)
        return kymo_err_set(err, r, "%s", why.text);
    /* Files of events and samples tell of their damage when they are read. */
    if (r < 0 && kind == SYSTRACE_KIND_TRACE_INFO)
        warnings_add(j->warnings, "Unreadable trace", "what stands behind the damage is not known: %s", why.text);
    if (systrace_unknown_fields(j->files[kind]))
        warnings_add(
            j->warnings, "Unknown records",
            "%s has %llu fields that are not known: another version wrote it, and its contents may be in them; "
            "see formats/systrace/FORMAT.md",
            systrace_file_name(kind), (unsigned long long)systrace_unknown_fields(j->files[kind]));
    j->total_bytes++;
    return 0;
}

static int open_framework(struct system_job *j, struct kymo_err *err)
{
    struct kymo_err why = {0};
    char *path KYMO_FREE = path_of(j, TRACE_JSON_FILE);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "no memory for a path");
    if (!is_there(j, "event", TRACE_JSON_FILE, path))
        return 0;
    int r = trace_json_open(path, &j->framework, &why);
    j->total_bytes++;
    if (r == 0 || r == -ENOMEM)
        return r < 0 ? kymo_err_set(err, r, "%s", why.text) : 0;
    int ring = system_ring_new(j, "event", TRACE_JSON_FILE, err);
    if (ring >= 0)
        j->rings[ring].broken = "undecodable";
    warnings_add(j->warnings, "Lost records", "the framework's events are lost: %s", why.text);
    return ring < 0 ? ring : 0;
}

/* <instance>_pid_<pid>/<timestamp> names both where the files do not, also where it has become a part of their names.
 */
static void name_by_path(struct system_job *j)
{
    char real[PATH_MAX];
    if (!realpath(j->options->dir, real))
        return;
    for (int i = 0; i < 2; i++) {
        char *base = strrchr(real, '/');
        char *pid = base ? strstr(base, "_pid_") : NULL;
        if (pid && !j->instance[0])
            (void)snprintf(j->instance, sizeof j->instance, "%.*s", (int)(pid - base - 1), base + 1);
        if (pid && j->process < 0)
            j->process = strtoll(pid + strlen("_pid_"), NULL, 10);
        if (pid || !base)
            return;
        *base = '\0';
    }
}

static void name_session(struct system_job *j)
{
    const Ntff__NtraceInfo *info = j->info;
    j->process = info && info->pid && info->pid <= INT64_MAX ? (int64_t)info->pid : -1;
    if (info && info->instance_id)
        (void)snprintf(j->instance, sizeof j->instance, "%s", info->instance_id);
    name_by_path(j);
    if (!j->instance[0])
        warnings_add(j->warnings, "Missing Data",
                     "instance_id is empty: neither the files nor their directory name it");
    if (j->process < 0)
        warnings_add(j->warnings, "Missing Data", "process_id is -1: neither the files nor their directory name it");
    if (info && info->instance_type && *info->instance_type)
        j->arch = kymo_arch_find(info->instance_type);
    if (!j->arch && info && info->arch && *info->arch)
        j->arch = kymo_arch_find(info->arch);
}

static int add_core(struct system_job *j, const Ntff__NtraceCoreInfo *c, struct kymo_err *err)
{
    char label[64];
    (void)snprintf(label, sizeof label, "SYSTEM(nc%u)", c->nc_idx);
    void *p = j->cores;
    int r = kymo_grow(&p, &j->cores_cap, j->n_cores + 1, SYSTEM_CORES_MAX, sizeof *j->cores);
    j->cores = p;
    if (r < 0)
        return kymo_err_set(err, r, "a trace of more than %d cores", SYSTEM_CORES_MAX);
    r = system_ring_new(j, "event", label, err);
    if (r < 0)
        return r;
    struct system_ring *ring = &j->rings[r];
    ring->has_counters = c->emitted_oneof_case && c->dropped_oneof_case && c->dropped <= c->emitted;
    ring->emitted = ring->has_counters ? c->emitted : 0;
    ring->dropped = ring->has_counters ? c->dropped : 0;
    j->cores[j->n_cores++] = (struct system_core){
        .nc = c->nc_idx, .vnc = c->vnc, .nd = c->nd_idx, .first_pcore = c->first_pcore, .ring = (uint32_t)r};
    return 0;
}

static bool has_core(const struct system_job *j, uint32_t nc)
{
    for (size_t i = 0; i < j->n_cores; i++)
        if (j->cores[i].nc == nc)
            return true;
    return false;
}

static int take_cores(struct system_job *j, struct kymo_err *err)
{
    const Ntff__NtraceInfo *info =
        j->files[SYSTRACE_KIND_NTRACE] ? systrace_info(j->files[SYSTRACE_KIND_NTRACE]) : NULL;
    int r = 0;
    for (size_t i = 0; info && i < info->n_cores && r == 0; i++)
        if (has_core(j, info->cores[i]->nc_idx))
            warnings_add(j->warnings, "Contradiction",
                         "%s counts events of core %u more than once: the first count holds",
                         systrace_file_name(SYSTRACE_KIND_NTRACE), info->cores[i]->nc_idx);
        else
            r = add_core(j, info->cores[i], err);
    return r;
}

static int read_manifest(struct system_job *j, struct kymo_err *err)
{
    uint8_t *data KYMO_FREE = NULL;
    size_t n;
    if (!j->options->manifest)
        return 0;
    int r = kymo_file_read_all(j->options->manifest, MANIFEST_BYTES_MAX, &data, &n, err);
    if (r < 0)
        return r;
    r = manifest_parse(data, n, &j->manifest, err);
    if (r < 0)
        kymo_err_prefix(err, "%s", j->options->manifest);
    return r;
}

/* Of an empty file it is told already. */
static bool is_told(const struct system_job *j, enum systrace_kind kind)
{
    for (size_t i = 0; i < j->n_rings; i++)
        if (!strcmp(j->rings[i].label, systrace_file_name(kind)))
            return true;
    return false;
}

static void tell_missing(struct system_job *j)
{
    if (!j->files[SYSTRACE_KIND_NTRACE] && !is_told(j, SYSTRACE_KIND_NTRACE))
        warnings_add(j->warnings, "Missing Data",
                     "there is no %s: no events of the runtime and the hardware, and no use of HBM; capture with "
                     "NEURON_RT_INSPECT_SYSTEM_PROFILE=1",
                     systrace_file_name(SYSTRACE_KIND_NTRACE));
    if (!j->files[SYSTRACE_KIND_TRACE_INFO])
        warnings_add(j->warnings, "Missing Data", "there is no %s: the session was not ended in order",
                     systrace_file_name(SYSTRACE_KIND_TRACE_INFO));
}

int system_open(struct system_job *j, struct kymo_err *err)
{
    size_t n;
    bool directory;
    if (systrace_prefix(j->options->dir, &n, &directory) < 0)
        return kymo_err_set(err, -ENOENT, "%s is no directory and no file of a system trace", j->options->dir);
    int r = read_manifest(j, err);
    for (unsigned k = 0; k < SYSTRACE_KIND_MAX && r == 0; k++)
        r = open_file(j, (enum systrace_kind)k, err);
    if (r == 0)
        r = open_framework(j, err);
    if (r < 0)
        return r;
    if (!j->total_bytes)
        return kymo_err_set(
            err, -ENODATA, "%s holds no trace of the system: no %s, %s, %s, %s or %s with anything in it",
            j->options->dir, systrace_file_name(SYSTRACE_KIND_NTRACE), systrace_file_name(SYSTRACE_KIND_TRACE_INFO),
            systrace_file_name(SYSTRACE_KIND_CPU_UTIL), systrace_file_name(SYSTRACE_KIND_HOST_MEM), TRACE_JSON_FILE);
    for (unsigned k = SYSTRACE_KIND_NTRACE; k <= SYSTRACE_KIND_TRACE_INFO; k++)
        if (j->files[k] && systrace_info(j->files[k]))
            j->info = systrace_info(j->files[k]);
    name_session(j);
    tell_missing(j);
    return take_cores(j, err);
}
