/* The command-line form of throttling and notices, and their names. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "driver-iface/sim/sim_notices.h"

#define PS_PER_US 1000000u
#define US_MAX 3600000000ull
#define LENGTH_US_MAX 4000000u /* the record holds 32 bits of ns */
#define PERIOD_PS_MIN 100000u
#define CUSTOM_MAX 15u

static const char *const classes[] = {"activity_0", "activity_1", "unknown"};

/* By id; the simulator's own list, so that the reader's is checked against it. */
static const char *const tpb_errors[] = {"fp_underflow",   "nan",       "inf",   "fp_overflow",    "memory",
                                         "fake",           "semaphore", "event", "psum_collision", "sequencer_nonfatal",
                                         "sequencer_fatal"};

#define COUNT(a) (sizeof(a) / sizeof *(a))

const char *sim_throttle_class_name(uint8_t id)
{
    return classes[id < COUNT(classes) ? id : COUNT(classes) - 1];
}

const char *sim_notice_kind_name(enum sim_notice_kind kind)
{
    static const char *const names[] = {"throttle", "tpb_error", "interrupt", "warning", "custom"};
    return names[kind];
}

/* Whole number at *at, at most max; *at moves behind it. */
static bool take_number(const char **at, uint64_t max, uint64_t *ret)
{
    size_t digits = strspn(*at, "0123456789");
    if (!digits || digits > 12)
        return false;
    *ret = strtoull(*at, NULL, 10);
    *at += digits;
    return *ret <= max;
}

/* Microseconds with up to six decimals. */
static bool take_us(const char **at, uint64_t max_us, uint64_t *ret_ps)
{
    uint64_t whole, part = 0;
    if (!take_number(at, max_us, &whole))
        return false;
    if (**at == '.') {
        const char *from = ++*at;
        if (!take_number(at, 999999, &part) || *at - from > 6)
            return false;
        for (ptrdiff_t i = *at - from; i < 6; i++)
            part *= 10;
    }
    *ret_ps = whole * PS_PER_US + part;
    return true;
}

static bool take(const char **at, char c)
{
    if (**at != c)
        return false;
    ++*at;
    return true;
}

/* Position in a list of the word that ends at stop; -1. */
static int take_word(const char **at, char stop, const char *const *words, size_t n)
{
    size_t len = strcspn(*at, (char[2]){stop, 0});
    for (size_t i = 0; (*at)[len] && i < n; i++)
        if (strlen(words[i]) == len && !strncmp(words[i], *at, len)) {
            *at += len;
            return (int)i;
        }
    return -1;
}

/* [~PERIOD][#CORE] and the end. */
static bool take_rest(const char **at, struct sim_notice *n)
{
    uint64_t core;
    n->core = SIM_NOTICE_ALL_CORES;
    if (take(at, '~') &&
        (!take_us(at, US_MAX, &n->period_ps) || n->period_ps < PERIOD_PS_MIN || n->period_ps <= n->length_ps))
        return false;
    if (take(at, '#')) {
        if (!take_number(at, 1, &core))
            return false;
        n->core = (int8_t)core;
    }
    return !**at;
}

static int parse_throttle(const char *text, struct sim_notice *n, struct kymo_err *err)
{
    const char *at = text;
    uint64_t k = 0, of = 0;
    *n = (struct sim_notice){.kind = SIM_NOTICE_THROTTLE};
    int id = take_word(&at, ':', classes, COUNT(classes));
    bool ok = id >= 0 && take(&at, ':') && take_number(&at, 255, &k) && take(&at, '/') && take_number(&at, 255, &of) &&
              k >= 1 && k <= of && take(&at, '@') && take_us(&at, US_MAX, &n->at_ps) && take(&at, '+') &&
              take_us(&at, LENGTH_US_MAX, &n->length_ps) && n->length_ps && take_rest(&at, n);
    if (!ok)
        return kymo_err_set(
            err, -EINVAL,
            "--throttle %.80s: not CLASS:K/N@START+LENGTH[~PERIOD][#CORE] with activity_0, activity_1 or "
            "unknown, 1 <= K <= N <= 255, and a period above the length",
            text);
    n->id = (uint8_t)id;
    n->k = (uint8_t)k;
    n->n = (uint8_t)of;
    return 0;
}

static bool take_kind(const char **at, struct sim_notice *n)
{
    static const char custom[] = "custom-";
    static const char *const others[] = {"interrupt", "warning"};
    uint64_t sub;
    int id = take_word(at, '@', tpb_errors, COUNT(tpb_errors));
    if (id >= 0) {
        n->kind = SIM_NOTICE_TPB_ERROR;
        n->id = (uint8_t)id;
        return true;
    }
    id = take_word(at, '@', others, COUNT(others));
    if (id >= 0) {
        n->kind = id ? SIM_NOTICE_WARNING : SIM_NOTICE_INTERRUPT;
        return true;
    }
    if (strncmp(*at, custom, sizeof custom - 1) != 0)
        return false;
    *at += sizeof custom - 1;
    n->kind = SIM_NOTICE_CUSTOM;
    if (!take_number(at, CUSTOM_MAX, &sub))
        return false;
    n->id = (uint8_t)sub;
    return true;
}

static int parse_notice(const char *text, struct sim_notice *n, struct kymo_err *err)
{
    const char *at = text;
    *n = (struct sim_notice){0};
    if (take_kind(&at, n) && take(&at, '@') && take_us(&at, US_MAX, &n->at_ps) && take_rest(&at, n))
        return 0;
    return kymo_err_set(err, -EINVAL,
                        "--notice %.80s: not KIND@START[~PERIOD][#CORE] with a kind such as nan, psum_collision, "
                        "interrupt, warning, or custom-0 to custom-%u",
                        text, CUSTOM_MAX);
}

int sim_notices_parse(const struct kymo_option_list *throttles, const struct kymo_option_list *notices,
                      struct sim_notices *ret, struct kymo_err *err)
{
    struct sim_notices all = {0};
    if (throttles->n + notices->n > SIM_NOTICES_MAX)
        return kymo_err_set(err, -EINVAL, "--throttle and --notice: more than %d of them", SIM_NOTICES_MAX);
    for (size_t i = 0; i < throttles->n; i++) {
        int r = parse_throttle(throttles->items[i], &all.rows[all.count++], err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < notices->n; i++) {
        int r = parse_notice(notices->items[i], &all.rows[all.count++], err);
        if (r < 0)
            return r;
    }
    *ret = all;
    return 0;
}
