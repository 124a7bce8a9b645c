/*
 * kymo-export: other forms of a finished directory of tables. A process of its own, because it reads files that others
 * may have written. Exit code 0 done, 1 failed, 2 wrong usage.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/options.h"
#include "formats/schema/schema.h"
#include "tools/export/export_csv.h"
#include "tools/export/export_perfetto.h"
#include "tools/export/export_summary.h"

enum format { FORMAT_CSV, FORMAT_PERFETTO, FORMAT_TEXT, FORMAT_JSON };

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

struct args {
    const char *dir, *output, *start, *end;
    struct kymo_option_list tables;
    int format;
    uint64_t samples, flows, memory, threads;
};

static const struct kymo_option rows[] = {
    {.name = "DIR",
     .type = KYMO_OPTION_POSITIONAL,
     .required = true,
     .offset = offsetof(struct args, dir),
     .help = "profile: a directory of tables (NAME.parquet), of kymo or another tool with the same schema"},
    {.name = "output-format",
     .letter = 'f',
     .type = KYMO_OPTION_CHOICE,
     .required = true,
     .choices = "csv|perfetto|summary-text|summary-json",
     .offset = offsetof(struct args, format),
     .help = "what to make of it"},
    {.name = "output-file",
     .letter = 'o',
     .type = KYMO_OPTION_TEXT,
     .arg = "PATH",
     .offset = offsetof(struct args, output),
     .help = "where to: a file (NAME.pftrace for perfetto), for csv a directory; an earlier one is replaced; a summary "
             "goes to standard output without it"},
    {.name = "start",
     .type = KYMO_OPTION_TEXT,
     .arg = "NS",
     .offset = offsetof(struct args, start),
     .help = "first nanosecond of the range, as the tables count (default: all)"},
    {.name = "end",
     .type = KYMO_OPTION_TEXT,
     .arg = "NS",
     .offset = offsetof(struct args, end),
     .help = "first nanosecond behind the range (default: all)"},
    {.name = "table",
     .letter = 't',
     .type = KYMO_OPTION_LIST,
     .arg = "NAME",
     .offset = offsetof(struct args, tables),
     .help =
         "these tables only, any that has times; by default, for csv: Instruction, DmaPacketAggregated, DmaPacket, "
         "CcInstruction, SemaphoreUpdate, of a system profile SystemProfileEvents, SystemProfileHbmUsage, CpuUsage, "
         "HostMemUsage; for perfetto: all but SemaphoreUpdate"},
    {.name = "sample",
     .type = KYMO_OPTION_U64,
     .arg = "PIXELS",
     .min = 1,
     .max = EXPORT_SAMPLES_MAX,
     .offset = offsetof(struct args, samples),
     .help = "csv at a timeline's resolution: of the events of a track that begin in one of so many equal intervals of "
             "the range, the longest, and in events_in_sample for how many it stands (default: every event)"},
    {.name = "flows",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "4000000",
     .max = EXPORT_FLOWS_MAX,
     .offset = offsetof(struct args, flows),
     .help =
         "perfetto: arrows between dependent events at most; with more in the range the trace has none, and a message "
         "says so; 32 bytes of memory each; 0: no arrows"},
    QUERY_LIMIT_ROWS(struct args),
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo export",
    .about = "Makes CSV files, a Perfetto trace or a summary of a profile that is processed already.\n"
             "Files appear whole or not at all. A CSV export is a directory of NAME.csv, named like the tables, and "
             "export.json,\n"
             "which says what they hold; every event of the range is in them unless --sample is given.",
    .rows = rows,
};

static int usage_error(const char *text)
{
    (void)fprintf(stderr, "kymo export: %s; see kymo export --help\n", text);
    return 2;
}

static bool parse_ns(const char *text, int64_t *ret)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    *ret = v;
    return *text && !*end && errno == 0;
}

static const char *parse_range(const struct args *a, struct export_range *range)
{
    *range = (struct export_range){.start = INT64_MIN, .end = INT64_MAX, .whole = !a->start && !a->end};
    if (a->start && !parse_ns(a->start, &range->start))
        return "--start takes a whole number of nanoseconds";
    if (a->end && !parse_ns(a->end, &range->end))
        return "--end takes a whole number of nanoseconds";
    return range->start < range->end ? NULL : "the range is empty: --start must be less than --end";
}

static const char *wrong_usage(const struct args *a, struct export_range *range)
{
    bool summary = a->format == FORMAT_TEXT || a->format == FORMAT_JSON;
    if (!a->output && !summary)
        return "--output-file says where the files go";
    if (summary && (a->start || a->end || a->tables.n))
        return "a summary is of the whole profile: no --start, --end or --table";
    if (a->samples && a->format != FORMAT_CSV)
        return "--sample is for csv";
    if (a->samples && !a->start != !a->end)
        return "--sample wants both --start and --end, or the whole profile";
    return parse_range(a, range);
}

static int write_stdout(const struct kymo_buf *text, struct kymo_err *err)
{
    if (fwrite(text->data, 1, text->len, stdout) != text->len || fflush(stdout) != 0)
        return kymo_err_set(err, -EIO, "cannot write the output");
    return 0;
}

static int summary(const struct args *a, const struct export_profile *p, struct kymo_err *err)
{
    struct kymo_buf text;
    kymo_buf_init(&text, EXPORT_SUMMARY_MAX);
    int r = a->output ? kymo_file_check_target(a->output, NULL, 0, err) : 0;
    if (r == 0)
        r = (a->format == FORMAT_TEXT ? export_summary_text : export_summary_json)(p, &text, err);
    if (r == 0)
        r = a->output ? kymo_file_write_atomic(a->output, text.data, text.len, err) : write_stdout(&text, err);
    kymo_buf_done(&text);
    return r;
}

static int csv(const struct args *a, const struct export_profile *p, const struct export_range *range,
               struct kymo_err *err)
{
    const struct export_csv_options o = {
        .output = a->output,
        .tables = a->tables.items,
        .table_count = a->tables.n,
        .range = *range,
        .samples = a->samples,
        .stop = &stopped,
    };
    return export_csv(p, &o, err);
}

static int perfetto(const struct args *a, const struct export_profile *p, const struct export_range *range,
                    struct kymo_err *err)
{
    const struct export_perfetto_options o = {
        .output = a->output,
        .tables = a->tables.items,
        .table_count = a->tables.n,
        .range = *range,
        .flows = a->flows,
        .stop = &stopped,
    };
    uint64_t left_out;
    int r = export_perfetto(p, &o, &left_out, err);
    if (r == 0 && left_out && a->flows)
        (void)fprintf(stderr,
                      "kymo export: the range has %" PRIu64 " dependencies, more than --flows %" PRIu64
                      ": the trace has no arrows; choose a smaller range or a larger number\n",
                      left_out, a->flows);
    return r;
}

static int run(const struct args *a, const struct export_range *range, struct kymo_err *err)
{
    struct export_profile profile;
    /* Only tables of others need sorting, and only when they are sampled or drawn: what does not fit goes to files. */
    char spill[] = "/tmp/kymo-export-XXXXXX";
    const struct query_limits limits = {
        .memory_bytes = a->memory,
        .threads = (unsigned)a->threads,
        .spill_dir = a->format == FORMAT_CSV || a->format == FORMAT_PERFETTO ? mkdtemp(spill) : NULL,
    };
    int r = export_profile_open(&profile, a->dir, &limits, err);
    if (r == 0)
        r = a->format == FORMAT_CSV        ? csv(a, &profile, range, err)
            : a->format == FORMAT_PERFETTO ? perfetto(a, &profile, range, err)
                                           : summary(a, &profile, err);
    export_profile_done(&profile);
    if (limits.spill_dir) {
        int removed = kymo_file_remove_tree(spill, NULL);
        (void)removed;
    }
    return r;
}

/* What export_source_open takes: a table of the list, or one with times of its own. */
static bool has_times(const char *table)
{
    const struct kymo_table *t = kymo_schema_find(table);
    return export_tables_find(table) ||
           (t && (kymo_schema_column(t, "start_ts") >= 0 || kymo_schema_column(t, "timestamp") >= 0));
}

/* Whoever names a table that is not there, or not shown, wants to know which are. */
static void tell_tables(const struct args *a)
{
    struct kymo_buf names;
    kymo_buf_init(&names, EXPORT_TABLES_MAX * EXPORT_NAME_MAX);
    bool perfetto_only = a->format == FORMAT_PERFETTO;
    if (export_profile_list(a->dir, perfetto_only ? export_perfetto_shows : has_times, &names) == 0 && names.len)
        (void)fprintf(stderr, "kymo export: tables there that %s: %.*s\n",
                      perfetto_only ? "a trace shows" : "have times", (int)names.len, (const char *)names.data);
    kymo_buf_done(&names);
}

int main(int argc, char **argv)
{
    struct args args;
    struct export_range range;
    struct kymo_err err = {0};
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    const char *wrong = wrong_usage(&args, &range);
    if (wrong)
        return usage_error(wrong);
    const struct sigaction stop = {.sa_handler = on_signal};
    if (sigaction(SIGTERM, &stop, NULL) < 0 || sigaction(SIGINT, &stop, NULL) < 0 || sigaction(SIGHUP, &stop, NULL) < 0)
        return usage_error("signals cannot be handled here");
    if (run(&args, &range, &err) < 0) {
        (void)fprintf(stderr, "kymo export: %s\n", err.text);
        if (args.tables.n && (err.code == -ENODATA || err.code == -EINVAL))
            tell_tables(&args);
        return 1;
    }
    return 0;
}
