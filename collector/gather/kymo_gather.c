/*
 * kymo-gather: finished profiles as one. Without --fleet the members of one request become a parent with joint tables;
 * with it one profile's small tables become rows of fleet tables. Progress and the outcome are JSON lines on the
 * descriptor of --progress-fd, as kymo-process has them; a failure is one line on stderr, and so is a member that is
 * left out. Exit code 0 done, 1 failed, 2 wrong usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/options.h"
#include "base/plain.h"
#include "base/sandbox.h"
#include "collector/gather/clock_map.h"
#include "collector/gather/gather_fleet.h"
#include "collector/gather/gather_output.h"
#include "collector/gather/gather_ranks.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static volatile sig_atomic_t stop_wanted;

static void on_signal(int signal_number)
{
    (void)signal_number;
    stop_wanted = 1;
}

struct args {
    struct kymo_option_list dirs;
    const char *output, *members, *name, *job, *host, *capture, *rank, *time;
    bool fleet, sandbox;
    uint64_t memory, drift_ppm, progress_fd;
};

static const struct kymo_option rows[] = {
    {.name = "DIR",
     .type = KYMO_OPTION_POSITIONALS,
     .offset = offsetof(struct args, dirs),
     .help = "directories of tables, one per member"},
    {.name = "output",
     .letter = 'o',
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .required = true,
     .offset = offsetof(struct args, output),
     .help = "directory for the tables; an earlier result that is there is replaced, anything else is not"},
    {.name = "members",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     .offset = offsetof(struct args, members),
     .help = "more members, as lines STATE<tab>NAME<tab>DIR<tab>REASON; only those in state ready have tables"},
    {.name = "name",
     .type = KYMO_OPTION_TEXT,
     .arg = "NAME",
     .offset = offsetof(struct args, name),
     .help = "name of the result; with --fleet, of the profile"},
    {.name = "drift-ppm",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "100",
     .max = 100000,
     .offset = offsetof(struct args, drift_ppm),
     .help = "millionths by which a device's clock may run off its host's"},
    {.name = "fleet",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, fleet),
     .help = "rows of fleet tables out of one profile"},
    {.name = "job",
     .type = KYMO_OPTION_TEXT,
     .arg = "NAME",
     .offset = offsetof(struct args, job),
     .help = "with --fleet: what the profile's Metadata would say"},
    {.name = "host",
     .type = KYMO_OPTION_TEXT,
     .arg = "NAME",
     .offset = offsetof(struct args, host),
     .help = "the same"},
    {.name = "capture",
     .type = KYMO_OPTION_TEXT,
     .arg = "ID",
     .offset = offsetof(struct args, capture),
     .help = "the same"},
    {.name = "rank", .type = KYMO_OPTION_TEXT, .arg = "N", .offset = offsetof(struct args, rank), .help = "the same"},
    {.name = "time",
     .type = KYMO_OPTION_TEXT,
     .arg = "NS",
     .offset = offsetof(struct args, time),
     .help = "with --fleet: when it was captured, since the Unix epoch"},
    {.name = "memory",
     .type = KYMO_OPTION_SIZE,
     .arg = "BYTES",
     .def = "512M",
     .min = 64u << 20,
     .offset = offsetof(struct args, memory),
     .help = "of memory; beyond it the disk is used"},
    {.name = "progress-fd",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .min = 1,
     .max = INT_MAX,
     .offset = offsetof(struct args, progress_fd),
     .help = "write progress as JSON lines to this open descriptor (default: nowhere)"},
    {.name = "sandbox",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, sandbox),
     .help = "give up all but files and memory before any table is read"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo gather",
    .about = "Puts the profiles of many ranks on one time axis and compares their collectives.",
    .rows = rows,
};

struct report {
    int fd; /* -1: none */
    uint64_t percent;
};

static void say(const struct report *r, json_t *line)
{
    if (r->fd >= 0 && line && json_dumpfd(line, r->fd, JSON_COMPACT) == 0)
        (void)dprintf(r->fd, "\n");
    json_decref(line);
}

static int on_progress(void *ctx, const char *stage, uint64_t done, uint64_t total)
{
    struct report *r = ctx;
    uint64_t percent = total ? 100 * done / total : 0;
    if (percent != r->percent || !total)
        say(r, json_pack("{s:s, s:s, s:I, s:I}", "event", "progress", "stage", stage, "done", (json_int_t)done, "total",
                         (json_int_t)total));
    r->percent = percent;
    return stop_wanted;
}

static int fail(const struct report *r, const struct kymo_err *err)
{
    (void)fprintf(stderr, "kymo-gather: %s\n", err->text);
    json_t *reason = json_string(err->text);
    say(r, json_pack("{s:s, s:i, s:o}", "event", "failed", "code", err->code, "reason",
                     reason ? reason : json_string("a table or a name that is no UTF-8 text")));
    return EXIT_FAILED;
}

/* A result that lacks somebody must not look whole to whoever asked for it. */
static void tell_unreadable(const char *member, const char *why)
{
    (void)fprintf(stderr, "kymo-gather: ");
    kymo_plain_print(stderr, member);
    (void)fprintf(stderr, " cannot be read and is left out: %s\n", why);
}

/* A shell's pattern over a job's profiles brings its system profiles as well. */
static int add_dir(struct gather_members *members, const char *dir, struct kymo_err *err)
{
    if (!gather_members_is_system(dir))
        return gather_members_add_dir(members, dir, err);
    (void)fprintf(stderr, "kymo-gather: ");
    kymo_plain_print(stderr, dir);
    (void)fprintf(stderr, " is a system profile, which is of no rank: it is left out\n");
    return 0;
}

static int run_ranks(struct gather_db *db, const struct args *a, struct report *report, uint64_t *ret,
                     struct kymo_err *err)
{
    struct gather_members members = {0};
    const struct gather_ranks g = {.members = &members,
                                   .name = a->name,
                                   .drift_max = (double)a->drift_ppm / 1e6,
                                   .progress = on_progress,
                                   .unreadable = tell_unreadable,
                                   .ctx = report};
    int r = a->members ? gather_members_read(&members, a->members, err) : 0;
    for (size_t i = 0; i < a->dirs.n && r == 0; i++)
        r = add_dir(&members, a->dirs.items[i], err);
    if (r == 0)
        r = gather_members_check(&members, err);
    if (r == 0)
        r = gather_ranks_run(db, &g, ret, err);
    gather_members_done(&members);
    return r;
}

static int run_fleet(struct gather_db *db, const struct args *a, struct kymo_err *err)
{
    const struct gather_fleet g = {.profile = a->name,
                                   .job = a->job,
                                   .host = a->host,
                                   .capture = a->capture,
                                   .rank = a->rank,
                                   .time_unix_ns = a->time};
    int dir KYMO_CLOSE = kymo_file_open(a->dirs.items[0], O_RDONLY | O_DIRECTORY, 0, err);
    return dir < 0 ? dir : gather_fleet_run(db, dir, &g, err);
}

static int gather(const struct args *a, struct report *report, uint64_t *ret, struct kymo_err *err)
{
    struct gather_db *db KYMO_CLEANUP(gather_db_freep) = NULL;
    struct gather_output out = {.dir = -1};
    int r = gather_output_open(&out, a->output, err);
    /* Before the sandbox: setting up reads the machine, no table. */
    if (r == 0)
        r = gather_db_open(out.dir, a->memory, &db, err);
    if (r == 0 && a->sandbox)
        r = kymo_sandbox_enter(err);
    if (r == 0)
        r = a->fleet ? run_fleet(db, a, err) : run_ranks(db, a, report, ret, err);
    db = gather_db_free(db);
    if (r == 0)
        r = gather_output_publish(&out, err);
    gather_output_done(&out);
    return r;
}

static const char *wrong_usage(const struct args *a)
{
    if (a->fleet && (a->dirs.n != 1 || a->members))
        return "--fleet takes one directory";
    if (!a->dirs.n && !a->members)
        return "give directories of tables";
    if (a->progress_fd && fcntl((int)a->progress_fd, F_GETFD) < 0)
        return "--progress-fd is no open descriptor";
    return NULL;
}

int main(int argc, char **argv)
{
    struct args args;
    struct kymo_err err = {0};
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    const char *wrong = wrong_usage(&args);
    if (wrong) {
        (void)fprintf(stderr, "kymo gather: %s; see kymo gather --help\n", wrong);
        return EXIT_USAGE;
    }
    struct report report = {.fd = args.progress_fd ? (int)args.progress_fd : -1};
    struct sigaction stop = {.sa_handler = on_signal};
    (void)sigaction(SIGTERM, &stop, NULL);
    (void)sigaction(SIGINT, &stop, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    uint64_t collectives = 0;
    if (gather(&args, &report, &collectives, &err) < 0)
        return fail(&report, &err);
    say(&report, json_pack("{s:s, s:I}", "event", "done", "records", (json_int_t)collectives));
    return EXIT_DONE;
}
