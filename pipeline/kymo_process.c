/*
 * kymo-process: one NTFF with its NEFFs to one directory of tables. Progress and the outcome are JSON lines on the
 * descriptor of
 * --progress-fd; a failure is one line on stderr. Exit code 0 done, 1 failed, 2 wrong usage, 3 empty NTFF.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "pipeline/input.h"
#include "pipeline/process.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_EMPTY = 3 };

static const char usage[] = "usage: kymo-process --ntff FILE [--neff FILE]... --output DIR\n"
                            "                    [--manifest FILE] [--name NAME] [--split-rows N] [--progress-fd N]\n";

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

struct report {
    int fd; /* -1: none */
    enum process_stage stage;
    unsigned percent;
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

/* The text comes from file names and contents, so what JSON would not take is replaced. */
static void report_failure(const struct report *r, const struct kymo_err *err)
{
    (void)fprintf(stderr, "kymo-process: %s\n", err->text);
    if (r->fd < 0)
        return;
    char text[KYMO_ERR_TEXT_MAX];
    size_t n = 0;
    for (const char *p = err->text; *p && n + 1 < sizeof text; p++)
        text[n++] = (unsigned char)*p < 0x20 || *p == '"' || *p == '\\' || (unsigned char)*p >= 0x7f ? '?' : *p;
    text[n] = 0;
    (void)dprintf(r->fd, "{\"event\":\"failed\",\"code\":%d,\"reason\":\"%s\"}\n", err->code, text);
}

static bool parse_number(const char *text, uint64_t max, uint64_t *ret)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || v > max)
        return false;
    *ret = v;
    return true;
}

struct arguments {
    struct process_options options;
    const char *neffs[INPUT_NEFFS_MAX];
    struct report report;
};

static bool take_option(struct arguments *a, int c)
{
    uint64_t v;
    switch (c) {
    case 's':
        a->options.ntff = optarg;
        return true;
    case 'n':
        if (a->options.neff_count == INPUT_NEFFS_MAX)
            return false;
        a->neffs[a->options.neff_count++] = optarg;
        return true;
    case 'o':
        a->options.output = optarg;
        return true;
    case 'm':
        a->options.manifest = optarg;
        return true;
    case 'N':
        a->options.name = optarg;
        return true;
    case 'r':
        return parse_number(optarg, UINT64_MAX, &a->options.split_rows);
    case 'p':
        if (!parse_number(optarg, 65535, &v))
            return false;
        a->report.fd = (int)v;
        return true;
    default:
        return false;
    }
}

static bool parse(int argc, char **argv, struct arguments *a)
{
    static const struct option options[] = {
        {"ntff", required_argument, NULL, 's'},        {"neff", required_argument, NULL, 'n'},
        {"output", required_argument, NULL, 'o'},      {"manifest", required_argument, NULL, 'm'},
        {"name", required_argument, NULL, 'N'},        {"split-rows", required_argument, NULL, 'r'},
        {"progress-fd", required_argument, NULL, 'p'}, {NULL, 0, NULL, 0},
    };
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!take_option(a, c))
            return false;
    return optind == argc && a->options.ntff && a->options.output;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--version")) {
        printf("kymo-process %s\n", KYMO_VERSION);
        return EXIT_DONE;
    }
    struct arguments a = {.report = {.fd = -1}};
    if (!parse(argc, argv, &a)) {
        (void)fputs(usage, stderr);
        return EXIT_USAGE;
    }
    /* A reader of the progress that goes away must not kill the work. */
    (void)signal(SIGPIPE, SIG_IGN);
    struct sigaction stop = {.sa_handler = on_signal};
    (void)sigaction(SIGTERM, &stop, NULL);
    (void)sigaction(SIGINT, &stop, NULL);
    a.options.neffs = a.neffs;
    a.options.progress = report_progress;
    a.options.ctx = &a.report;
    struct process_result result;
    struct kymo_err err = {0};
    int r = process_run(&a.options, &result, &err);
    if (r < 0) {
        report_failure(&a.report, &err);
        return r == -ENODATA ? EXIT_EMPTY : EXIT_FAILED;
    }
    report_done(&a.report, &result);
    return EXIT_DONE;
}
