/*
 * kymo-process: one NTFF with its NEFFs, or the system trace of one session, to one directory of tables. Progress and
 * the outcome are JSON lines on the descriptor of --progress-fd; a failure is one line on stderr, and so is each
 * serious warning. Exit code 0 done, 1 failed, 2 wrong usage, 3 nothing was recorded.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "base/sandbox.h"
#include "pipeline/crew.h"
#include "pipeline/process.h"
#include "pipeline/system/system.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_EMPTY = 3 };

#define THREADS_MAX 4      /* by default: more find little to do */
#define WARNINGS_SHOWN 20u /* the table has them all */

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

struct report {
    int fd; /* -1: none */
    enum process_stage stage;
    unsigned percent, warnings;
};

static int report_progress(void *ctx, enum process_stage stage, uint64_t done, uint64_t total)
{
    struct report *r = ctx;
    unsigned percent = total ? (unsigned)(100 * done / total) : 0;
    if (r->fd >= 0 && (stage != r->stage || percent != r->percent)) {
        (void)dprintf(r->fd, "{\"event\":\"progress\",\"stage\":\"%s\",\"done\":%" PRIu64 ",\"total\":%" PRIu64 "}\n",
                      process_stage_name(stage), done, total);
        r->stage = stage;
        r->percent = percent;
    }
    return stopped;
}

static void report_done(const struct report *r, const struct process_result *p)
{
    if (r->fd < 0)
        return;
    (void)dprintf(r->fd,
                  "{\"event\":\"done\",\"records\":%" PRIu64 ",\"instructions\":%" PRIu64 ",\"packets\":%" PRIu64
                  ",\"transfers\":%" PRIu64 ",\"host_transfers\":%" PRIu64 ",\"semaphores\":%" PRIu64
                  ",\"partials\":%" PRIu64 ",\"warnings\":%" PRIu64 "}\n",
                  p->records, p->instructions, p->packets, p->transfers, p->host_transfers, p->semaphores, p->partials,
                  p->warnings);
}

static void report_warning(void *ctx, const char *category, const char *text)
{
    struct report *r = ctx;
    if (r->warnings++ < WARNINGS_SHOWN)
        (void)fprintf(stderr, "kymo-process: warning: %s: %s\n", category, text);
}

/* The text comes from file names and contents, so what JSON would not take is replaced. */
static void json_text(const char *text, char *out, size_t max)
{
    size_t n = 0;
    for (const char *p = text; *p && n + 1 < max; p++)
        out[n++] = (unsigned char)*p < 0x20 || *p == '"' || *p == '\\' || (unsigned char)*p >= 0x7f ? '?' : *p;
    out[n] = 0;
}

static void report_loss(void *ctx, const struct ledger_loss *l)
{
    const struct report *r = ctx;
    char stage[sizeof l->stage], ring[sizeof l->ring], cause[sizeof l->cause], records[40] = "", emitted[40] = "";
    if (r->fd < 0)
        return;
    json_text(l->stage, stage, sizeof stage);
    json_text(l->ring, ring, sizeof ring);
    json_text(l->cause, cause, sizeof cause);
    if (l->has_records)
        (void)snprintf(records, sizeof records, ",\"records\":%" PRIu64, l->records);
    if (l->has_emitted)
        (void)snprintf(emitted, sizeof emitted, ",\"emitted\":%" PRIu64, l->emitted);
    (void)dprintf(r->fd, "{\"event\":\"loss\",\"stage\":\"%s\",\"ring\":\"%s\",\"cause\":\"%s\"%s%s}\n", stage, ring,
                  cause, records, emitted);
}

/* Errors about a place in a file say "NAME: offset N: cause". */
static const char *offset_of(const char *text, char *out, size_t n)
{
    static const char mark[] = ": offset ";
    const char *at = strstr(text, mark);
    size_t digits = at ? strspn(at + sizeof mark - 1, "0123456789") : 0;
    if (!digits || digits > 18)
        return "";
    (void)snprintf(out, n, ",\"offset\":%.*s", (int)digits, at + sizeof mark - 1);
    return out;
}

static void report_failure(const struct report *r, const struct kymo_err *err)
{
    (void)fprintf(stderr, "kymo-process: %s\n", err->text);
    if (r->fd < 0)
        return;
    char text[KYMO_ERR_TEXT_MAX], offset[40];
    json_text(err->text, text, sizeof text);
    (void)dprintf(r->fd, "{\"event\":\"failed\",\"code\":%d%s,\"reason\":\"%s\"}\n", err->code,
                  offset_of(err->text, offset, sizeof offset), text);
}

struct args {
    const char *ntff, *system, *output, *manifest, *name;
    struct kymo_option_list neffs, devices, settings;
    uint64_t split_rows, progress_fd, threads;
    bool sandbox;
};

static const struct kymo_option rows[] = {
    {.name = "ntff",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     .offset = offsetof(struct args, ntff),
     .help = "device profile"},
    {.name = "system",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR|FILE",
     .offset = offsetof(struct args, system),
     .help = "instead of --ntff: a session's directory, whose ntrace.pb, trace_info.pb, cpu_util.pb, host_mem.pb and "
             "trace.json make a system profile; or one of them, the others having the same beginning"},
    {.name = "device",
     .type = KYMO_OPTION_LIST,
     .arg = "NAME=NTFF",
     .offset = offsetof(struct args, devices),
     .help = "with --system: a device profile of the session, by its name and its NTFF"},
    {.name = "neff",
     .type = KYMO_OPTION_LIST,
     .arg = "FILE",
     .offset = offsetof(struct args, neffs),
     .help = "compiled programs that ran; one that cannot be used is left out with a warning"},
    {.name = "output",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .required = true,
     .offset = offsetof(struct args, output),
     .help = "directory for the tables; a profile that is there is replaced, anything else is not"},
    {.name = "manifest",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     .offset = offsetof(struct args, manifest),
     .help = "the capture's manifest"},
    {.name = "name",
     .type = KYMO_OPTION_TEXT,
     .arg = "NAME",
     .offset = offsetof(struct args, name),
     .help = "name of the profile"},
    {.name = "split-rows",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .offset = offsetof(struct args, split_rows),
     .help = "split tables into files of N rows"},
    {.name = "set",
     .letter = 'F',
     .type = KYMO_OPTION_LIST,
     .arg = "NAME=N",
     .check = settings_check,
     .offset = offsetof(struct args, settings),
     .help = "change a condition of TimelineWarning or another setting, see above"},
    {.name = "progress-fd",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .min = 1,
     .max = INT_MAX,
     .offset = offsetof(struct args, progress_fd),
     .help = "write progress as JSON lines to this open descriptor (default: nowhere)"},
    {.name = "threads",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .min = 1,
     .max = CREW_MAX,
     .offset = offsetof(struct args, threads),
     .help = "threads that read records and write tables (default: one per processor, at most 4)"},
    {.name = "sandbox",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, sandbox),
     .help = "give up all but files and memory before anything is read"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo-process",
    .about = "Makes one directory of Parquet tables from one device profile or one system trace. Started by kymo "
             "process and the collector.\n"
             "Serious warnings (missing inputs, lost records) are on stderr too, all are in the table Warning.\n"
             "Exit code: 0 done, 1 failed, 2 wrong usage, 3 nothing was recorded.\n" SETTINGS_HELP,
    .rows = rows,
};

static int catch_signals(void)
{
    static const int stops[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction stop = {.sa_handler = on_signal}, old;
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
        /* What the parent ignores, as nohup does, stays ignored. */
        if (sigaction(stops[i], NULL, &old) < 0 || (old.sa_handler != SIG_IGN && sigaction(stops[i], &stop, NULL) < 0))
            return -errno;
    /* A reader of the progress that goes away must not kill the work, and a limit on file size is an error of writing.
     */
    return signal(SIGPIPE, SIG_IGN) == SIG_ERR || signal(SIGXFSZ, SIG_IGN) == SIG_ERR ? -errno : 0;
}

static int finish_stdout(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    (void)fprintf(stderr, "kymo-process: cannot write the output\n");
    return EXIT_FAILED;
}

/* Threads beside this one. */
static unsigned helpers(const struct args *args)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (args->threads)
        return (unsigned)args->threads - 1;
    return processors > THREADS_MAX ? THREADS_MAX - 1 : processors > 1 ? (unsigned)processors - 1 : 0;
}

static int process(const struct args *args)
{
    struct settings settings;
    settings_defaults(&settings);
    for (size_t i = 0; i < args->settings.n; i++)
        (void)!settings_set(&settings, args->settings.items[i], NULL); /* the option's check has seen them */
    struct report report = {.fd = args->progress_fd ? (int)args->progress_fd : -1};
    struct process_options options = {
        .ntff = args->ntff,
        .neffs = args->neffs.items,
        .neff_count = args->neffs.n,
        .manifest = args->manifest,
        .output = args->output,
        .name = args->name,
        .split_rows = args->split_rows,
        .settings = &settings,
        .progress = report_progress,
        .warning = report_warning,
        .loss = report_loss,
        .ctx = &report,
    };
    struct process_result result;
    struct kymo_err err = {0};
    /* Threads come first: the sandbox closes around those that there are and allows no others. */
    options.crew = crew_new(helpers(args));
    int r = args->sandbox ? kymo_sandbox_enter(&err) : 0;
    r = r < 0 ? r : process_run(&options, &result, &err);
    crew_free(options.crew);
    if (r < 0) {
        report_failure(&report, &err);
        return r == -ENODATA ? EXIT_EMPTY : EXIT_FAILED;
    }
    if (report.warnings > WARNINGS_SHOWN)
        (void)fprintf(stderr, "kymo-process: warning: %u more are in the table Warning\n",
                      report.warnings - WARNINGS_SHOWN);
    report_done(&report, &result);
    return EXIT_DONE;
}

static void report_system_done(const struct report *r, const struct system_result *p)
{
    if (r->fd < 0)
        return;
    (void)dprintf(r->fd,
                  "{\"event\":\"done\",\"records\":%" PRIu64 ",\"events\":%" PRIu64 ",\"samples\":%" PRIu64
                  ",\"memory\":%" PRIu64 ",\"partials\":%" PRIu64 ",\"warnings\":%" PRIu64 "}\n",
                  p->records, p->events, p->samples, p->memory, p->partials, p->warnings);
}

/* NAME=NTFF; names of profiles have no '='. */
static int split_devices(const struct args *args, struct system_device *ret, char names[][256])
{
    for (size_t i = 0; i < args->devices.n; i++) {
        const char *item = args->devices.items[i], *equals = strchr(item, '=');
        if (!equals || equals == item || (size_t)(equals - item) >= sizeof names[i])
            return -EINVAL;
        (void)snprintf(names[i], sizeof names[i], "%.*s", (int)(equals - item), item);
        ret[i] = (struct system_device){.name = names[i], .ntff = equals + 1};
    }
    return 0;
}

static int process_system(const struct args *args)
{
    static char names[KYMO_OPTION_LIST_MAX][256];
    struct system_device devices[KYMO_OPTION_LIST_MAX];
    struct report report = {.fd = args->progress_fd ? (int)args->progress_fd : -1};
    const struct system_options options = {
        .dir = args->system,
        .devices = devices,
        .device_count = args->devices.n,
        .manifest = args->manifest,
        .output = args->output,
        .split_rows = args->split_rows,
        .progress = report_progress,
        .warning = report_warning,
        .loss = report_loss,
        .ctx = &report,
    };
    struct system_result result;
    struct kymo_err err = {0};
    if (split_devices(args, devices, names) < 0) {
        (void)fprintf(stderr, "kymo-process: --device takes NAME=NTFF; see kymo-process --help\n");
        return EXIT_USAGE;
    }
    int r = args->sandbox ? kymo_sandbox_enter(&err) : 0;
    r = r < 0 ? r : system_run(&options, &result, &err);
    if (r < 0) {
        report_failure(&report, &err);
        return r == -ENODATA ? EXIT_EMPTY : EXIT_FAILED;
    }
    report_system_done(&report, &result);
    return EXIT_DONE;
}

/* NULL: the arguments go together. */
static const char *wrong_usage(const struct args *args)
{
    if (!args->ntff == !args->system)
        return "give one of --ntff and --system";
    if (args->system && args->neffs.n)
        return "--neff goes with --ntff";
    return args->ntff && args->devices.n ? "--device goes with --system" : NULL;
}

int main(int argc, char **argv)
{
    struct args args;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return finish_stdout(code);
    if (args.progress_fd && fcntl((int)args.progress_fd, F_GETFD) < 0) {
        (void)fprintf(stderr, "kymo-process: --progress-fd %" PRIu64 ": no open descriptor; see kymo-process --help\n",
                      args.progress_fd);
        return EXIT_USAGE;
    }
    const char *wrong = wrong_usage(&args);
    if (wrong) {
        (void)fprintf(stderr, "kymo-process: %s; see kymo-process --help\n", wrong);
        return EXIT_USAGE;
    }
    int r = catch_signals();
    if (r < 0) {
        (void)fprintf(stderr, "kymo-process: cannot handle signals: %s\n", strerror(-r));
        return EXIT_FAILED;
    }
    return args.system ? process_system(&args) : process(&args);
}
