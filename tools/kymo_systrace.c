/* kymo systrace inspect: prints what a file of the runtime's system trace holds, or the framework's trace.json. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "formats/systrace/systrace_facts.h"
#include "formats/systrace/systrace_reader.h"
#include "formats/systrace/trace_json.h"
#include "tools/subcommands.h"
#include "tools/tree.h"

#define KINDS "ntrace|trace_info|cpu_util|host_mem|framework"
#define KIND_FRAMEWORK SYSTRACE_KIND_MAX

struct args {
    const char *file;
    int kind;
    bool json, events;
};

static const struct kymo_option rows[] = {
    {.name = "FILE",
     .type = KYMO_OPTION_POSITIONAL,
     .required = true,
     .offset = offsetof(struct args, file),
     .help = "ntrace.pb, trace_info.pb, cpu_util.pb, host_mem.pb or trace.json"},
    {.name = "kind",
     .type = KYMO_OPTION_CHOICE,
     .choices = KINDS,
     .offset = offsetof(struct args, kind),
     .help = "which of them it is, when its name does not say"},
    {.name = "events",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, events),
     .help = "each event or sample"},
    {.name = "json", .type = KYMO_OPTION_FLAG, .offset = offsetof(struct args, json), .help = "as JSON"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo systrace inspect",
    .about = "Prints what one file of the runtime's system trace holds, or the framework's trace.json.",
    .rows = rows,
};

/* -1: the name does not say. */
static int kind_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    for (int k = 0; k < SYSTRACE_KIND_MAX; k++)
        if (!strcmp(base, systrace_file_name((enum systrace_kind)k)))
            return k;
    return !strcmp(base, TRACE_JSON_FILE) ? KIND_FRAMEWORK : -1;
}

static void show_text(struct tree *t, const char *key, const char *text)
{
    if (text && *text)
        tree_text(t, key, text);
}

static void show_number(struct tree *t, const char *key, uint64_t v)
{
    if (v)
        tree_u64(t, key, v);
}

static const char *phase_name(int phase)
{
    static const char *const names[] = {"invalid", "start", "stop", "instant"};
    return phase >= 0 && phase < 4 ? names[phase] : "unknown";
}

static void show_event(struct tree *t, const Ntff__NtraceEvent *e)
{
    const char *name = systrace_event_name(e->event_type);
    tree_row(t, NULL);
    tree_u64(t, "timestamp", e->timestamp);
    tree_u64(t, "nc_idx", e->nc_idx);
    tree_text(t, "event", name ? name : "unknown");
    show_number(t, "event_type", name ? 0 : e->event_type);
    tree_text(t, "phase", phase_name((int)e->phase));
    show_number(t, "tracking_id", e->tracking_id);
    show_number(t, "thread_id", e->thread_id);
    show_number(t, "id", e->id);
    show_number(t, "parent_id", e->parent_id);
    show_number(t, "duration", e->duration);
    show_number(t, "status", e->status);
    show_text(t, "hint", e->hint);
    if (e->nrta_seq_id_oneof_case)
        tree_u64(t, "nrta_seq_id", e->nrta_seq_id);
    for (size_t i = 0; i < e->n_attributes; i++)
        tree_text(t, e->attributes[i]->key, e->attributes[i]->value);
    tree_close(t);
}

static void show_item(struct tree *t, const struct systrace_item *item)
{
    switch (item->type) {
    case SYSTRACE_ITEM_EVENT:
        show_event(t, item->event);
        return;
    case SYSTRACE_ITEM_CPU:
        tree_row(t, NULL);
        tree_u64(t, "timestamp", item->cpu->timestamp);
        tree_u64(t, "cpu", item->cpu->cpu);
        tree_double(t, "percent", (double)item->cpu->percent);
        tree_close(t);
        return;
    case SYSTRACE_ITEM_MEMORY:
        tree_row(t, NULL);
        tree_u64(t, "timestamp", item->memory->timestamp);
        tree_i64(t, "bytes", item->memory->bytes);
        tree_close(t);
        return;
    }
}

static void show_cores(struct tree *t, const Ntff__NtraceInfo *info)
{
    tree_list(t, "cores");
    for (size_t i = 0; i < info->n_cores; i++) {
        const Ntff__NtraceCoreInfo *c = info->cores[i];
        tree_row(t, NULL);
        tree_u64(t, "nc_idx", c->nc_idx);
        tree_u64(t, "vnc", c->vnc);
        tree_u64(t, "nd_idx", c->nd_idx);
        tree_u64(t, "first_pcore", c->first_pcore);
        if (c->emitted_oneof_case)
            tree_u64(t, "emitted", c->emitted);
        if (c->dropped_oneof_case)
            tree_u64(t, "dropped", c->dropped);
        tree_close(t);
    }
    tree_close(t);
}

static void show_files(struct tree *t, const Ntff__NtraceInfo *info)
{
    tree_list(t, "collected_profiles");
    for (size_t i = 0; i < info->n_collected_profiles; i++) {
        tree_row(t, NULL);
        tree_text(t, "name", info->collected_profiles[i]->name);
        tree_text(t, "type", info->collected_profiles[i]->type);
        tree_u64(t, "size", info->collected_profiles[i]->size);
        tree_close(t);
    }
    tree_close(t);
}

static void show_info(struct tree *t, const Ntff__NtraceInfo *info)
{
    size_t strings = 0;
    show_text(t, "arch", info->arch);
    show_number(t, "pid", info->pid);
    show_number(t, "session_id", info->session_id);
    show_number(t, "data_version", info->data_version);
    show_number(t, "logical_nc_size", info->logical_nc_size);
    show_text(t, "instance_id", info->instance_id);
    show_text(t, "instance_type", info->instance_type);
    show_text(t, "hostname", info->hostname);
    show_number(t, "start_unix_ns", info->start_unix_ns);
    show_number(t, "end_unix_ns", info->end_unix_ns);
    show_number(t, "ntff_version", info->ntff_version);
    show_text(t, "runtime_version", info->runtime_version);
    show_text(t, "driver_version", info->driver_version);
    if (info->n_cores)
        show_cores(t, info);
    if (info->n_collected_profiles)
        show_files(t, info);
    for (size_t i = 0; i < info->n_interned_data; i++)
        strings += info->interned_data[i]->n_id_map;
    show_number(t, "interned_strings", strings);
}

static void show_stats(struct tree *t, const Ntff__HostStats *s)
{
    show_number(t, "cpu_count", s->cpu_count);
    show_text(t, "cpu_name", s->cpu_name);
    show_number(t, "memory_capacity", s->memory_capacity);
    if (s->sample_period > 0.0f)
        tree_double(t, "sample_period", (double)s->sample_period);
}

static int show_items(struct tree *t, struct systrace_reader *file, bool all, struct kymo_err *err)
{
    uint64_t by_type[SYSTRACE_EVENT_MAX + 1] = {0};
    struct systrace_item item;
    int r;
    if (all)
        tree_list(t, "items");
    while ((r = systrace_next(file, &item, err)) > 0) {
        if (item.type == SYSTRACE_ITEM_EVENT)
            by_type[item.event->event_type < SYSTRACE_EVENT_MAX ? item.event->event_type : SYSTRACE_EVENT_MAX]++;
        if (all)
            show_item(t, &item);
    }
    if (all)
        tree_close(t);
    tree_u64(t, "count", systrace_item_count(file));
    tree_row(t, "events");
    for (unsigned i = 0; i <= SYSTRACE_EVENT_MAX; i++)
        show_number(t, i < SYSTRACE_EVENT_MAX ? systrace_event_name(i) : "unknown", by_type[i]);
    tree_close(t);
    return r;
}

static int show_systrace(struct tree *t, const struct args *args, int kind, struct kymo_err *err)
{
    struct systrace_reader *file KYMO_CLEANUP(systrace_freep) = NULL;
    struct kymo_err why = {0};
    int r = systrace_open(args->file, (enum systrace_kind)kind, &file, err);
    if (r < 0)
        return r;
    r = systrace_read_head(file, &why);
    if (systrace_info(file))
        show_info(t, systrace_info(file));
    if (systrace_stats(file))
        show_stats(t, systrace_stats(file));
    show_number(t, "unknown_fields", systrace_unknown_fields(file));
    int last = show_items(t, file, args->events, err);
    return r < 0 && last == 0 ? kymo_err_set(err, r, "%s", why.text) : last;
}

static void show_json_event(struct tree *t, const struct trace_json_event *e)
{
    tree_row(t, NULL);
    tree_textf(t, "ph", "%c", e->phase >= ' ' ? e->phase : '?');
    tree_text(t, "name", e->name);
    if (e->timed)
        tree_i64(t, "start_ns", e->start_ns);
    if (e->has_duration)
        tree_i64(t, "duration_ns", e->duration_ns);
    if (e->has_pid)
        tree_i64(t, "pid", e->pid);
    if (e->has_tid)
        tree_i64(t, "tid", e->tid);
    show_text(t, "id", e->id);
    show_text(t, "args", e->args);
    tree_close(t);
}

static int show_framework(struct tree *t, const struct args *args, struct kymo_err *err)
{
    struct trace_json *file KYMO_CLEANUP(trace_json_freep) = NULL;
    const struct trace_json_event *e;
    uint64_t count = 0;
    int r = trace_json_open(args->file, &file, err);
    if (r < 0)
        return r;
    if (args->events)
        tree_list(t, "items");
    for (; (r = trace_json_next(file, &e, err)) > 0; count++)
        if (args->events)
            show_json_event(t, e);
    if (args->events)
        tree_close(t);
    tree_u64(t, "count", count);
    return r;
}

static int inspect(const struct args *args, struct kymo_err *err)
{
    int kind = args->kind >= 0 ? args->kind : kind_of(args->file);
    struct tree t;
    if (kind < 0)
        return kymo_err_set(err, -EINVAL, "%s: its name does not say which file of a trace it is; give --kind",
                            args->file);
    tree_start(&t, stdout, args->json);
    tree_text(&t, "file", args->file);
    tree_text(&t, "kind", kind == KIND_FRAMEWORK ? TRACE_JSON_FILE : systrace_file_name((enum systrace_kind)kind));
    int r = kind == KIND_FRAMEWORK ? show_framework(&t, args, err) : show_systrace(&t, args, kind, err);
    if (r < 0)
        tree_text(&t, "error", err->text);
    tree_finish(&t);
    if (r == 0 && (fflush(stdout) != 0 || ferror(stdout)))
        return kymo_err_set(err, -EIO, "cannot write the output");
    return r;
}

static int inspect_main(int argc, char **argv)
{
    struct args args;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    struct kymo_err err = {0};
    if (inspect(&args, &err) == 0)
        return 0;
    (void)fprintf(stderr, "kymo systrace inspect: %s\n", err.text);
    return 1;
}

int kymo_systrace_main(int argc, char **argv)
{
    if (argc >= 2 && !strcmp(argv[1], "inspect"))
        return inspect_main(argc - 1, argv + 1);
    bool help = argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
    if (argc >= 2 && !help)
        (void)fprintf(stderr, "kymo systrace: no command \"%.64s\", there is inspect\n", argv[1]);
    (void)fprintf(help ? stdout : stderr, "usage: kymo systrace inspect FILE [--kind KIND] [--events] [--json]\n");
    return help ? 0 : 2;
}
