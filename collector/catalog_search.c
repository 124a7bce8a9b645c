#include "collector/catalog_search.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collector/catalog_impl.h"

#define SQL_MAX 4096

/* Parameters by number, so that each is bound once: 1 job, 2 host, 3 capture, 4 pattern, 5 state, 6 rank, 7 key, 8
 * name, 9 scan. */
#define MATCH                                                                                                          \
    "((?1 IS NULL OR c.job=?1) AND (?2 IS NULL OR c.host=?2) AND (?5 IS NULL OR p.state=?5)"                           \
    " AND (?6 < 0 OR c.rank=?6) AND (?4 IS NULL OR p.name LIKE ?4 ESCAPE '\\' OR c.job LIKE ?4 ESCAPE '\\'"            \
    " OR c.host LIKE ?4 ESCAPE '\\' OR c.id LIKE ?4 ESCAPE '\\' OR p.reason LIKE ?4 ESCAPE '\\'"                       \
    " OR EXISTS(SELECT 1 FROM labels l WHERE l.capture=c.id AND l.key||'='||l.value LIKE ?4 ESCAPE '\\')))"

static const struct {
    char letter;
    const char *key; /* as the index has it; NULL: the name alone */
} sorts[] = {
    [CATALOG_BY_RECEIVED] = {'r', "p.received_ns"},
    [CATALOG_BY_FINISHED] = {'f', "coalesce(p.finished_ns,0)"},
    [CATALOG_BY_NAME] = {'n', NULL},
};

struct cursor {
    struct catalog_place place; /* of the last row looked at */
    unsigned scanned, given;
    uint64_t start_ns;
    bool more;
};

/* "%text%" without the spaces around it, and with what LIKE would read as a sign escaped. NULL without memory. */
static char *like_pattern(const char *text)
{
    text += strspn(text, " \t");
    size_t n = strlen(text), out = 0;
    while (n > 0 && strchr(" \t", text[n - 1]))
        n--;
    char *pattern = n > 1u << 16 ? NULL : kymo_malloc(2 * n + 3);
    if (!pattern)
        return NULL;
    pattern[out++] = '%';
    for (size_t i = 0; i < n; i++) {
        if (strchr("%_\\", text[i]))
            pattern[out++] = '\\';
        pattern[out++] = text[i];
    }
    pattern[out++] = '%';
    pattern[out] = '\0';
    return pattern;
}

static void compose(const struct catalog_query *q, char sql[static SQL_MAX])
{
    const char *key = sorts[q->sort].key, *direction = q->descending ? "DESC" : "ASC";
    char after[128] = "", order[128];
    const char *sign = q->descending ? "<" : ">";
    if (key) {
        (void)snprintf(order, sizeof order, "%s %s, p.name %s", key, direction, direction);
        if (q->after)
            (void)snprintf(after, sizeof after, " AND (%s, p.name) %s (?7, ?8)", key, sign);
    } else {
        (void)snprintf(order, sizeof order, "p.name %s", direction);
        if (q->after)
            (void)snprintf(after, sizeof after, " AND p.name %s ?8", sign);
    }
    /* The order comes from an index, and CROSS JOIN keeps it there; but a capture has few profiles, which are found and
     * sorted. */
    (void)snprintf(sql, SQL_MAX,
                   "SELECT " CATALOG_PROFILE_COLUMNS ", " MATCH ", %s FROM profiles p CROSS JOIN captures c"
                   " ON c.id = p.capture WHERE %s%s ORDER BY %s LIMIT ?9",
                   key ? key : "0", q->capture ? "p.capture=?3" : "?3 IS NULL", after, order);
}

static int prepare(struct catalog *c, const struct catalog_query *q, sqlite3_stmt **ret, struct kymo_err *err)
{
    char sql[SQL_MAX];
    char *pattern KYMO_FREE = q->text ? like_pattern(q->text) : NULL;
    if (q->text && !pattern)
        return kymo_err_set(err, -ENOMEM, "no memory for a search");
    compose(q, sql);
    return catalog_prepare(c, ret, err, sql, "tttttiiti", q->job, q->host, q->capture, pattern,
                           q->state < 0 ? NULL : catalog_state_name((enum catalog_state)q->state), q->rank,
                           q->after ? q->after->key : (int64_t)0, q->after ? q->after->name : NULL,
                           (int64_t)q->scan + 1);
}

/* A row may have many labels to look through, so their number alone says little about the time that they take. */
static bool is_over(const struct catalog_query *q, const struct cursor *at)
{
    return q->budget_ms && at->scanned > 0 && kymo_clock_mono_ns() - at->start_ns > (uint64_t)q->budget_ms * 1000000;
}

/*
 * 1: the next row of the page that matches. 0: the page is over, at->more says whether others follow. The columns of
 * the match and the key stand at match and behind it, the name at 0.
 */
static int next_match(struct catalog *c, sqlite3_stmt *s, int match, const struct catalog_query *q, struct cursor *at,
                      struct kymo_err *err)
{
    int r = 0;
    while (!(at->more = is_over(q, at)) && (r = catalog_step(c, s, err)) == 1) {
        /* The row behind the last one is looked at only to know that it is there. */
        if (at->scanned == q->scan || at->given == q->limit) {
            at->more = true;
            return 0;
        }
        at->scanned++;
        at->place.key = sqlite3_column_int64(s, match + 1);
        catalog_text(s, 0, at->place.name, sizeof at->place.name);
        if (!sqlite3_column_int(s, match))
            continue;
        at->given++;
        return 1;
    }
    /* Out of time behind a row that does not match, r is still that row's. */
    return r < 0 ? r : 0;
}

static int end_page(const struct cursor *at, struct catalog_place *ret_next)
{
    if (at->more)
        *ret_next = at->place;
    return at->more;
}

int catalog_search(struct catalog *c, const struct catalog_query *q,
                   int (*each)(void *ctx, const struct catalog_profile *p), void *ctx, struct catalog_place *ret_next,
                   struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    struct catalog_profile p;
    struct cursor at = {.start_ns = kymo_clock_mono_ns()};
    int r = prepare(c, q, &s, err);
    if (r < 0)
        return r;
    while ((r = next_match(c, s, CATALOG_PROFILE_COLUMNS_N, q, &at, err)) == 1) {
        catalog_read_profile(s, &p);
        r = each(ctx, &p);
        if (r < 0)
            return r;
    }
    return r < 0 ? r : end_page(&at, ret_next);
}

static void compose_captures(const struct catalog_query *q, char sql[static SQL_MAX])
{
    const char *direction = q->descending ? "DESC" : "ASC";
    char after[64] = "";
    if (q->after)
        (void)snprintf(after, sizeof after, "WHERE (c.received_ns, c.id) %s (?4, ?5)", q->descending ? "<" : ">");
    (void)snprintf(sql, SQL_MAX,
                   "SELECT " CATALOG_CAPTURE_COLUMNS ", ((?1 IS NULL OR c.job=?1) AND (?2 IS NULL OR c.host=?2)"
                   " AND (?3 IS NULL OR s.state=?3)), c.received_ns FROM captures c CROSS JOIN capture_states s"
                   " ON s.id = c.id %s ORDER BY c.received_ns %s, c.id %s LIMIT ?6",
                   after, direction, direction);
}

int catalog_search_captures(struct catalog *c, const struct catalog_query *q, const char *state,
                            int (*each)(void *ctx, const struct catalog_capture *capture), void *ctx,
                            struct catalog_place *ret_next, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    char sql[SQL_MAX];
    struct catalog_capture capture;
    struct cursor at = {.start_ns = kymo_clock_mono_ns()};
    compose_captures(q, sql);
    int r = catalog_prepare(c, &s, err, sql, "tttiti", q->job, q->host, state, q->after ? q->after->key : (int64_t)0,
                            q->after ? q->after->name : NULL, (int64_t)q->scan + 1);
    if (r < 0)
        return r;
    while ((r = next_match(c, s, CATALOG_CAPTURE_COLUMNS_N, q, &at, err)) == 1) {
        catalog_read_capture(s, &capture);
        r = each(ctx, &capture);
        if (r < 0)
            return r;
    }
    return r < 0 ? r : end_page(&at, ret_next);
}

void catalog_place_text(const struct catalog_query *q, const struct catalog_place *p,
                        char ret[static CATALOG_PLACE_MAX])
{
    (void)snprintf(ret, CATALOG_PLACE_MAX, "%c%c%" PRIx64 ".%s", sorts[q->sort].letter, q->descending ? 'd' : 'a',
                   (uint64_t)p->key, p->name);
}

static bool is_name(const char *text)
{
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strspn(text, characters);
    return n > 0 && n <= MANIFEST_PROFILE_NAME_MAX && text[n] == '\0';
}

int catalog_place_parse(const struct catalog_query *q, const char *text, struct catalog_place *ret,
                        struct kymo_err *err)
{
    size_t digits = strlen(text) < 3 ? 0 : strspn(text + 2, "0123456789abcdef");
    if (digits == 0 || digits > 16 || text[2 + digits] != '.' || !is_name(text + 3 + digits))
        return kymo_err_set(err, -EINVAL, "the cursor is none that was given out");
    if (text[0] != sorts[q->sort].letter || text[1] != (q->descending ? 'd' : 'a'))
        return kymo_err_set(err, -EINVAL, "the cursor belongs to another order");
    ret->key = (int64_t)strtoull(text + 2, NULL, 16);
    (void)snprintf(ret->name, sizeof ret->name, "%s", text + 3 + digits);
    return 0;
}
