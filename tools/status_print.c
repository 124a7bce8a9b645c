#include "tools/status_print.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/tree.h"

#define TEXT_MAX (2 * STATUS_PRINT_COLUMNS)
#define JOB_COLUMNS 56
#define CORES_COLUMNS 14
#define INDENT "      "

/* Scales value down by step to a unit; three figures at least. */
static void scaled(double value, double step, const char *const *units, size_t nunits, char *out, size_t n)
{
    size_t i = 0;
    for (; value >= step && i + 1 < nunits; i++)
        value /= step;
    (void)snprintf(out, n,
                   i == 0        ? "%.0f %s"
                   : value < 10  ? "%.2f %s"
                   : value < 100 ? "%.1f %s"
                                 : "%.0f %s",
                   value, units[i]);
}

void status_print_bytes(uint64_t bytes, char *out, size_t n)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    scaled((double)bytes, 1000, units, sizeof units / sizeof units[0], out, n);
}

void status_print_ns(uint64_t ns, char *out, size_t n)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    if (ns > 99999ull * 1000000000)
        (void)snprintf(out, n, "> 1 day");
    else
        scaled((double)ns, 1000, units, sizeof units / sizeof units[0], out, n);
}

void status_print_age(uint64_t ms, char *out, size_t n)
{
    uint64_t s = ms / 1000;
    if (s < 120)
        (void)snprintf(out, n, "%" PRIu64 " s", s);
    else if (s < 7200)
        (void)snprintf(out, n, "%" PRIu64 " min", s / 60);
    else if (s < 2 * 86400)
        (void)snprintf(out, n, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s / 60 % 60);
    else
        (void)snprintf(out, n, "%" PRIu64 " d %" PRIu64 " h", s / 86400, s / 3600 % 24);
}

void status_print_cores(const uint32_t *cores, size_t ncores, char *out, size_t width)
{
    char piece[32];
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0, last; i < ncores; i = last + 1) {
        for (last = i; last + 1 < ncores && cores[last + 1] == cores[last] + 1;)
            last++;
        int n = last > i ? snprintf(piece, sizeof piece, "%s%u-%u", i ? "," : "", cores[i], cores[last])
                         : snprintf(piece, sizeof piece, "%s%u", i ? "," : "", cores[i]);
        if (used + (size_t)n + (last + 1 < ncores) > width) {
            (void)snprintf(out + used, 2, "+");
            return;
        }
        memcpy(out + used, piece, (size_t)n + 1);
        used += (size_t)n;
    }
}

/* At most columns characters, each taken as one column wide; what is cut ends in "...". */
static const char *fit(const char *from, size_t columns, char out[static TEXT_MAX])
{
    size_t n = 0, chars = 0, cut = 0, left = from ? strlen(from) : 0;
    while (left > 0) {
        size_t step = kymo_utf8_sequence(from, left);
        const uint8_t *at = (const uint8_t *)from;
        bool control = step == 1 ? *at < 0x20 || *at == 0x7f : step == 2 && at[0] == 0xc2 && at[1] < 0xa0;
        bool plain = step > 0 && !control;
        if (chars == columns || n + 8 > TEXT_MAX) {
            memcpy(out + cut, "...", 4);
            return out;
        }
        if (chars + 3 == columns)
            cut = n;
        if (plain)
            memcpy(out + n, from, step);
        else
            out[n] = '?';
        n += plain ? step : 1;
        chars++;
        from += step ? step : 1;
        left -= step ? step : 1;
        if (chars + 3 <= columns)
            cut = n;
    }
    out[n] = '\0';
    return out;
}

static void print_cost(const Kymo__Control__StatusReply *s, FILE *out)
{
    char a[32], b[32], c[32], text[TEXT_MAX];
    const Kymo__Control__OwnCost *cost = s->cost;
    if (!cost)
        return;
    status_print_bytes(cost->rss_bytes, a, sizeof a);
    status_print_bytes(cost->disk_bytes_s, b, sizeof b);
    status_print_bytes(cost->net_bytes_s, c, sizeof c);
    (void)fprintf(out, "own cost    %.3g %% of a core, %s of memory, %s/s to disk, %s/s to the network\n",
                  (double)cost->cpu_ppm / 10000, a, b, c);
    if (cost->shedding)
        (void)fprintf(out, "            sheds: %s", fit(cost->shedding, 30, text));
    if (cost->shedding)
        (void)fprintf(out, " (%s)\n", fit(cost->reason, 48, text));
}

static void print_counted(const char *head, Kymo__Control__Counted **list, size_t n, FILE *out)
{
    char bytes[32], text[TEXT_MAX];
    for (size_t i = 0; i < n; i++) {
        status_print_bytes(list[i]->bytes, bytes, sizeof bytes);
        (void)fprintf(out, "%-11s %" PRIu64 " %s", i == 0 ? head : "", list[i]->count, fit(list[i]->name, 50, text));
        (void)fprintf(out, list[i]->has_bytes ? " (%s)\n" : "\n", bytes);
    }
}

static void print_states(const Kymo__Control__StatusReply *s, FILE *out)
{
    char item[TEXT_MAX], text[TEXT_MAX];
    size_t column = (size_t)fprintf(out, "captures   ");
    for (size_t i = 0; i < s->n_states; i++) {
        int n = snprintf(item, sizeof item, " %" PRIu64 " %s%s", s->states[i]->count, fit(s->states[i]->name, 20, text),
                         i + 1 < s->n_states ? "," : "");
        /* Bytes are never fewer than columns. */
        if (column + (size_t)n > STATUS_PRINT_COLUMNS)
            column = (size_t)fprintf(out, "\n           ") - 1;
        (void)fputs(item, out);
        column += (size_t)n;
    }
    if (s->n_states == 0)
        (void)fprintf(out, " %" PRIu64 " in the spool", s->captures);
    (void)fputc('\n', out);
}

static void print_captures(const Kymo__Control__StatusReply *s, FILE *out)
{
    char stall[32];
    print_states(s, out);
    if (s->stall_ns) {
        status_print_ns(s->stall_ns, stall, sizeof stall);
        (void)fprintf(out, "            they held jobs up for %s in all\n", stall);
    }
    if (s->ring_records_lost)
        (void)fprintf(out, "            %" PRIu64 " records were lost in full rings\n", s->ring_records_lost);
    if (s->skipped)
        (void)fprintf(out, "            %" PRIu64 " by period were due while another was under way\n", s->skipped);
    print_counted("failed", s->failures, s->n_failures, out);
    print_counted("refused", s->refusals, s->n_refusals, out);
    print_counted("lost", s->losses, s->n_losses, out);
}

static void print_spool(const Kymo__Control__StatusReply *s, FILE *out)
{
    char a[32], b[32], text[TEXT_MAX];
    status_print_bytes(s->spool_bytes, a, sizeof a);
    status_print_bytes(s->spool_max_bytes, b, sizeof b);
    (void)fprintf(out, "spool       %s, %s of %s, %" PRIu64 " captures to send\n", fit(s->spool_state, 20, text), a, b,
                  s->spool_pending);
    if (s->spool_reason && *s->spool_reason)
        (void)fprintf(out, "            %s\n", fit(s->spool_reason, 88, text));
    for (size_t i = 0; i < s->n_collectors; i++) {
        const Kymo__Control__CollectorStatus *c = s->collectors[i];
        (void)fprintf(out, "%-11s %s", i == 0 ? "collector" : "", fit(c->address, 40, text));
        (void)fprintf(out, " %s", fit(c->state, 12, text));
        status_print_bytes(c->sent_bytes, a, sizeof a);
        status_print_bytes(c->lag_bytes, b, sizeof b);
        (void)fprintf(out, ", %s sent, %s to go\n", a, b);
        if (c->has_retry_in_ms) {
            status_print_age(c->retry_in_ms, a, sizeof a);
            (void)fprintf(out, "            %s; again in %s\n", fit(c->reason, 55, text), a);
        }
    }
    if (s->n_collectors == 0)
        (void)fprintf(out, "collector   none is configured\n");
}

/* A count of at most width columns. */
static const char *number(uint64_t value, int width, char out[static 24])
{
    if (snprintf(out, 24, "%" PRIu64, value) > width)
        (void)snprintf(out, 24, "%.1e", (double)value);
    return out;
}

static void print_rank(const Kymo__Control__RankStatus *r, FILE *out)
{
    char rank[24] = "-", pid[24], step[24], executions[24], captures[24], p50[16] = "-", p99[16] = "-";
    char cores[CORES_COLUMNS + 2], text[TEXT_MAX];
    if (r->has_rank)
        (void)number(r->rank, 6, rank);
    if (r->has_latency_p50_ns)
        status_print_ns(r->latency_p50_ns, p50, sizeof p50);
    if (r->has_latency_p99_ns)
        status_print_ns(r->latency_p99_ns, p99, sizeof p99);
    status_print_cores(r->cores, r->n_cores, cores, CORES_COLUMNS);
    (void)fprintf(out, "%6s %8s %-9s ", rank, number(r->pid, 8, pid),
                  fit(r->capturing ? "capturing" : r->state, 9, text));
    (void)fprintf(out, "%-10s %9s %11s %5s %8s %8s %s\n", fit(r->mode, 10, text), number(r->step, 9, step),
                  number(r->executions, 11, executions), number(r->captures, 5, captures), p50, p99, cores);
    if (r->reason && *r->reason)
        (void)fprintf(out, INDENT " not captured: %s\n", fit(r->reason, 79, text));
    if (r->failures)
        (void)fprintf(out, INDENT " %" PRIu64 " executions failed\n", r->failures);
}

/* What all ranks of a job have in common stands above them. */
static const char *common(const Kymo__Control__JobStatus *j, size_t offset)
{
    const char *first = NULL, *s;
    for (size_t i = 0; i < j->n_ranks; i++) {
        memcpy(&s, (const char *)j->ranks[i] + offset, sizeof s);
        if (!s || !*s || (first && strcmp(first, s) != 0))
            return NULL;
        first = s;
    }
    return first;
}

static void print_job(const Kymo__Control__JobStatus *j, FILE *out)
{
    char text[TEXT_MAX];
    const char *program = common(j, offsetof(Kymo__Control__RankStatus, program));
    const char *unit = common(j, offsetof(Kymo__Control__RankStatus, unit));
    const char *runtime = common(j, offsetof(Kymo__Control__RankStatus, runtime_version));
    (void)fprintf(out, "\njob %s: %zu rank%s, step %" PRIu64 "\n", fit(j->job, JOB_COLUMNS, text), j->n_ranks,
                  j->n_ranks == 1 ? "" : "s", j->step);
    if (program)
        (void)fprintf(out, "    program %s%s", fit(program, 38, text), unit ? ", " : "\n");
    if (unit)
        (void)fprintf(out, "%sunit %s\n", program ? "" : "    ", fit(unit, 40, text));
    if (runtime)
        (void)fprintf(out, "    runtime %s\n", fit(runtime, 48, text));
    (void)fprintf(out, "%6s %8s %-9s %-10s %9s %11s %5s %8s %8s %s\n", "rank", "pid", "state", "armed", "step",
                  "executions", "capt.", "p50", "p99", "cores");
    for (size_t i = 0; i < j->n_ranks; i++)
        print_rank(j->ranks[i], out);
}

void status_print(const Kymo__Control__StatusReply *s, FILE *out)
{
    char age[32], text[TEXT_MAX];
    status_print_age(s->uptime_ms, age, sizeof age);
    (void)fprintf(out, "kymod       %s, up %s\n", fit(s->version, 40, text), age);
    print_cost(s, out);
    print_captures(s, out);
    print_spool(s, out);
    for (size_t i = 0; i < s->n_jobs; i++)
        print_job(s->jobs[i], out);
    if (s->n_jobs == 0)
        (void)fprintf(out, "\nno job with the hook is running\n");
    if (s->ranks_left_out)
        (void)fprintf(out, "\n%" PRIu64 " more ranks do not fit one answer: --job shows those of one job\n",
                      s->ranks_left_out);
}

/*
 * Field by field as the message describes itself, so that nothing that a daemon tells is forgotten here. What is absent
 * is left out.
 */
static void json_message(struct tree *t, const ProtobufCMessage *m);

static void json_value(struct tree *t, const char *key, const ProtobufCFieldDescriptor *f, const void *at)
{
    uint64_t u64;
    uint32_t u32;
    int boolean;
    const char *s;
    const ProtobufCMessage *m;
    switch (f->type) {
    case PROTOBUF_C_TYPE_UINT64:
        memcpy(&u64, at, sizeof u64);
        tree_u64(t, key, u64);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        memcpy(&u32, at, sizeof u32);
        tree_u64(t, key, u32);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        memcpy(&boolean, at, sizeof boolean);
        tree_bool(t, key, boolean != 0);
        break;
    case PROTOBUF_C_TYPE_STRING:
        memcpy(&s, at, sizeof s);
        tree_text(t, key, s ? s : "");
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        memcpy(&m, at, sizeof m);
        tree_row(t, key);
        json_message(t, m);
        tree_close(t);
        break;
    default:
        break;
    }
}

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
    return f->type == PROTOBUF_C_TYPE_UINT64   ? sizeof(uint64_t)
           : f->type == PROTOBUF_C_TYPE_UINT32 ? sizeof(uint32_t)
           : f->type == PROTOBUF_C_TYPE_BOOL   ? sizeof(protobuf_c_boolean)
                                               : sizeof(void *);
}

static bool is_there(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const void *p;
    protobuf_c_boolean has;
    if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE) {
        memcpy(&p, (const char *)m + f->offset, sizeof p);
        return p != NULL;
    }
    memcpy(&has, (const char *)m + f->quantifier_offset, sizeof has);
    return has;
}

static void json_list(struct tree *t, const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    size_t n;
    const char *items;
    memcpy(&n, (const char *)m + f->quantifier_offset, sizeof n);
    memcpy(&items, (const char *)m + f->offset, sizeof items);
    tree_list(t, f->name);
    for (size_t i = 0; i < n; i++)
        json_value(t, NULL, f, items + i * size_of(f));
    tree_close(t);
}

static void json_message(struct tree *t, const ProtobufCMessage *m)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        if (!strcmp(f->name, "request_id"))
            continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED)
            json_list(t, m, f);
        else if (is_there(m, f))
            json_value(t, f->name, f, (const char *)m + f->offset);
    }
}

void status_print_json(const Kymo__Control__StatusReply *s, FILE *out)
{
    struct tree t;
    tree_start(&t, out, true);
    json_message(&t, &s->base);
    tree_finish(&t);
}
