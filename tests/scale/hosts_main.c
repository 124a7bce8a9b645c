/*
 * Many hosts on one collector; tests/scale/hosts.py runs it and looks at the collector meanwhile. Prints "connected"
 * and waits, idle, for a byte on stdin; prints "sending", sends, and prints what came of it as NAME=NUMBER words. Exit
 * code 0: all that honest hosts had is stored, once, and nothing of the hostile; 1: not so; 2: wrong usage.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/options.h"
#include "tests/scale/hosts.h"
#include "tests/unit/tls_sample.h"

#define FILE_MAX (256u << 20)
#define OTHER_DESCRIPTORS 64u

struct args {
    const char *address, *prefix, *ntff, *neff, *tls;
    bool make_tls;
    uint64_t hosts, captures, seconds, breaking, slow, hostile;
};

#define NUMBER(field, default, least, most, text)                                                                      \
    {                                                                                                                  \
        .name = #field, .type = KYMO_OPTION_U64, .def = default, .min = least, .max = most,                            \
        .offset = offsetof(struct args, field), .help = text                                                           \
    }
#define TEXT(field, default, text)                                                                                     \
    {                                                                                                                  \
        .name = #field, .type = KYMO_OPTION_TEXT, .def = default, .offset = offsetof(struct args, field), .help = text \
    }

static const struct kymo_option rows[] = {
    TEXT(address, "127.0.0.1:3002", "of the collector"),
    TEXT(prefix, "s", "of the captures' ids"),
    TEXT(ntff, NULL, "bytes of every capture"),
    TEXT(neff, NULL, "its program"),
    NUMBER(hosts, "1000", 1, 20000, "so many"),
    NUMBER(captures, "2", 0, 1000, "of each"),
    NUMBER(seconds, "300", 1, 86400, "for all to connect, and again for all to be stored"),
    NUMBER(breaking, "50", 0, 1000, "of a thousand hosts, whose connections break"),
    NUMBER(slow, "30", 0, 1000, "of a thousand"),
    NUMBER(hostile, "20", 0, 1000, "of a thousand"),
    TEXT(tls, NULL, "directory with the certificates of tests; all hosts have the same"),
    {.name = "make-tls",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, make_tls),
     .help = "only make these certificates"},
    {0},
};
static const struct kymo_options spec = {
    .program = "scale_hosts", .about = "Many hosts on one collector, for tests.", .rows = rows};

static int load(struct hosts_file *f, const char *path, struct kymo_err *err)
{
    if (!path)
        return kymo_err_set(err, -EINVAL, "--ntff and --neff are needed");
    int r = kymo_file_read_all(path, FILE_MAX, &f->data, &f->n, err);
    if (r == 0 && f->n == 0)
        r = kymo_err_set(err, -EINVAL, "%s: empty", path);
    return r < 0 ? r : kymo_hash_sha256(f->data, f->n, f->sha256);
}

/* One descriptor for each host, and one that a closing connection may still have. */
static int raise_descriptors(uint64_t hosts, struct kymo_err *err)
{
    struct rlimit limit;
    rlim_t need = (rlim_t)(2 * hosts + OTHER_DESCRIPTORS);
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return kymo_err_set(err, -errno, "getrlimit: %s", strerror(errno));
    if (limit.rlim_cur >= need)
        return 0;
    if (limit.rlim_max < need)
        return kymo_err_set(err, -EMFILE, "%llu hosts need %llu descriptors, and the limit is %llu: see ulimit -Hn",
                            (unsigned long long)hosts, (unsigned long long)need, (unsigned long long)limit.rlim_max);
    limit.rlim_cur = need;
    return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? kymo_err_set(err, -errno, "setrlimit: %s", strerror(errno)) : 0;
}

static bool print_end(const struct hosts_counts *n, double connect_s, double send_s)
{
    bool good = n->stored == n->wanted && n->connected == n->honest && n->hostile_stored == 0 && n->doubled == 0;
    size_t hostile = 0;
    for (size_t kind = HOSTS_HOSTILE; kind < HOSTS_KINDS; kind++)
        hostile += n->nhosts[kind];
    printf("honest=%zu hostile=%zu breaking=%zu slow=%zu connected=%zu wanted=%zu stored=%zu bytes=%llu breaks=%zu "
           "resumed=%zu again=%zu turned_away=%zu hostile_stored=%zu doubled=%zu connect_s=%.3f send_s=%.3f\n",
           n->honest, hostile, n->nhosts[HOSTS_BREAKING], n->nhosts[HOSTS_SLOW], n->connected, n->wanted, n->stored,
           (unsigned long long)n->bytes, n->breaks, n->resumed, n->again, n->turned_away, n->hostile_stored, n->doubled,
           connect_s, send_s);
    return good;
}

static void say(const char *word)
{
    puts(word);
    (void)fflush(stdout);
}

static bool run(const struct hosts_config *config, unsigned seconds)
{
    static struct hosts hosts;
    uint64_t start = kymo_clock_mono_ns();
    hosts_open(&hosts, config);
    hosts_connect(&hosts, seconds);
    double connect_s = (double)(kymo_clock_mono_ns() - start) / 1e9;
    say("connected");
    hosts_idle(&hosts, 0);
    say("sending");
    start = kymo_clock_mono_ns();
    hosts_send(&hosts, seconds);
    bool good = print_end(&hosts.counts, connect_s, (double)(kymo_clock_mono_ns() - start) / 1e9);
    (void)fflush(stdout);
    hosts_close(&hosts);
    return good;
}

int main(int argc, char **argv)
{
    struct args a = {0};
    struct kymo_err err = {0};
    int code = kymo_options_outcome(&spec, kymo_options_parse(&spec, argc, argv, &a, &err), &err);
    if (code >= 0)
        return code;
    if (a.make_tls && a.tls) {
        tls_sample_make(a.tls);
        return 0;
    }
    struct hosts_config config = {.address = a.address,
                                  .prefix = a.prefix,
                                  .hosts = (size_t)a.hosts,
                                  .captures = (size_t)a.captures,
                                  .breaking = (unsigned)a.breaking,
                                  .slow = (unsigned)a.slow,
                                  .hostile = (unsigned)a.hostile};
    int r = load(&config.ntff, a.ntff, &err);
    if (r == 0)
        r = load(&config.neff, a.neff, &err);
    if (r == 0)
        r = raise_descriptors(a.hosts, &err);
    if (r < 0)
        (void)fprintf(stderr, "scale_hosts: %s\n", err.text);
    if (r == 0 && a.tls)
        config.tls = tls_sample_context(a.tls, TLS_CLIENT, TLS_SAMPLE_CLIENT, "ca");
    bool good = r == 0 && run(&config, (unsigned)a.seconds);
    tls_context_free(config.tls);
    kymo_free(config.ntff.data);
    kymo_free(config.neff.data);
    return r < 0 ? 2 : !good;
}
