/* Between the wish and the hook's word: trigger words in the pages, and what the hooks say. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/captures_internal.h"

#include "base/utf8.h"

#define MS_PER_S 1000ull

/* A hook has one capture at a time; others wait for it. */
static void arm_one(const struct captures *c, struct capture *p)
{
    uint64_t begin_ms = uv_now(c->loop) + c->config->capture_begin_timeout_s * MS_PER_S;
    struct kymo_hook_trigger t = {
        .mode = (uint32_t)p->mode, .execution = p->step, .count = p->count, .duration_ns = p->duration_ns};
    memcpy(t.id, p->hook_id, sizeof t.id);
    host_clock_read(&p->begin);
    p->seq = hook_session_trigger(p->rank->session, &t);
    p->begin_by_ms = begin_ms < p->deadline_ms ? begin_ms : p->deadline_ms;
}

void captures_arm(struct captures *c)
{
    for (struct capture *p = c->first, *next; p; p = next) {
        next = p->next;
        if (p->state != CAPTURES_QUEUED || p->is_found || !rank_can_capture(p->rank))
            continue;
        arm_one(c, p);
        captures_set_state(c, p, CAPTURES_ARMED, "");
    }
}

static bool is_with_hook(const struct capture *p)
{
    return !p->is_found && p->state < CAPTURES_SAVED;
}

bool captures_want_tick(const struct captures *c)
{
    if (c->starting > 0 || !c->has_gone || c->shed_waiting > 0)
        return true;
    for (const struct capture *p = c->first; p; p = p->next)
        if (p->state < CAPTURES_SPOOLED && (is_with_hook(p) || !p->is_given))
            return true;
    for (const struct rank *r = c->jobs ? jobs_first(c->jobs) : NULL; r; r = r->next)
        if (r->look_at_ms)
            return true;
    return false;
}

/* A trigger that has not begun is taken back: what comes nevertheless is taken over all the same. */
void captures_take_back(struct capture *p)
{
    const struct kymo_hook_trigger none = {.mode = KYMO_HOOK_MODE_NONE};
    if ((p->state == CAPTURES_ARMED || p->state == CAPTURES_RUNNING) && p->rank->session && p->rank->current == p)
        (void)hook_session_trigger(p->rank->session, &none);
}

bool captures_may_replace(const struct capture *p)
{
    const struct kymo_hook_page *page = p->rank && p->rank->session ? hook_session_page(p->rank->session) : NULL;
    if (p->is_found || strcmp(p->trigger, "periodic") != 0)
        return false;
    return p->state == CAPTURES_QUEUED ||
           (p->state == CAPTURES_ARMED && page && __atomic_load_n(&page->trigger_seen, __ATOMIC_RELAXED) != p->seq);
}

static void watch_one(struct captures *c, struct capture *p)
{
    const struct kymo_hook_page *page = p->rank->session ? hook_session_page(p->rank->session) : NULL;
    if (page && p->state == CAPTURES_ARMED && __atomic_load_n(&page->trigger_seen, __ATOMIC_RELAXED) == p->seq &&
        __atomic_load_n(&page->capturing, __ATOMIC_RELAXED) != KYMO_HOOK_MODE_NONE)
        captures_set_state(c, p, CAPTURES_RUNNING, "");
    if (uv_now(c->loop) < (p->state == CAPTURES_ARMED ? p->begin_by_ms : p->deadline_ms))
        return;
    captures_take_back(p);
    captures_fail(c, p, CAPTURES_TIMED_OUT, "timed out while %s", captures_state_name(p->state));
}

void captures_watch_hooks(struct captures *c)
{
    for (struct capture *p = c->first, *next; p; p = next) {
        next = p->next;
        if (is_with_hook(p))
            watch_one(c, p);
    }
    for (struct rank *r = jobs_first(c->jobs); r; r = r->next)
        if (r->look_at_ms && uv_now(c->loop) >= r->look_at_ms) {
            r->look_at_ms = 0;
            captures_look(c, r);
        }
}

/* What hooks say */

void captures_on_ready(void *ctx, struct rank *r)
{
    struct captures *c = ctx;
    /* It has come back: words of its captures that got lost with the former connection do not come any more. */
    if (r->came_again && r->welcome == RANK_WELCOMED) {
        r->came_again = false;
        r->look_at_ms = uv_now(c->loop) + CAPTURES_LOOK_MS;
    }
    captures_kick(c);
}

/* An id of the hook's own making is unique on a host since boot; ours are in the fleet. */
static void name_in_fleet(const struct captures *c, struct capture *p)
{
    char id[2 * KYMO_HOOK_ID_MAX];
    uint8_t sha256[KYMO_SHA256_SIZE];
    char hex[17];
    if (strstr(p->hook_id, c->host->mark))
        return;
    (void)snprintf(id, sizeof id, "%s-%s", p->hook_id, c->host->mark);
    if (strlen(id) >= KYMO_HOOK_ID_MAX && kymo_hash_sha256(id, strlen(id), sha256) == 0) {
        kymo_hash_hex(sha256, 8, hex);
        (void)snprintf(id, sizeof id, "x-%s-%s", hex, c->host->mark);
    }
    (void)snprintf(p->id, sizeof p->id, "%.*s", KYMO_HOOK_ID_MAX - 1, id);
}

static const char *trigger_of(const char *hook_id)
{
    switch (hook_id[0]) {
    case 'p':
        return "periodic";
    case 'c':
        return "collector";
    case 'd':
        return "on-demand";
    default:
        return "failure";
    }
}

struct capture *captures_add_found(struct captures *c, struct rank *r, const char *hook_id)
{
    bool ours = strstr(hook_id, c->host->mark) != NULL;
    if (!ours && r->strangers >= CAPTURES_STRANGERS)
        return NULL;
    struct capture *p = captures_add(c, r, hook_id);
    if (!p)
        return NULL;
    r->strangers += !ours;
    p->is_found = true;
    p->trigger = ours ? trigger_of(hook_id) : "failure";
    name_in_fleet(c, p);
    return p;
}

void captures_on_captured(void *ctx, struct rank *r, const struct kymo_hook_captured *m)
{
    struct captures *c = ctx;
    struct capture *p = captures_find(c, r, m->id);
    if (!p)
        p = captures_add_found(c, r, m->id);
    if (!p) {
        say_limited(&c->say, KYMO_LOG_WARNING, "process %d: capture %s is left where it is: too many", (int)r->who.pid,
                    m->id);
        return;
    }
    if (p->state >= CAPTURES_SAVED)
        return; /* said a second time */
    host_clock_read(&p->end);
    p->has_word = true;
    p->word = *m;
    p->mode = (enum kymo_hook_mode)m->mode;
    c->counts.stall_ns += m->stall_ns;
    if (r->current == p)
        r->current = NULL;
    captures_set_state(c, p, CAPTURES_SAVED, "");
    captures_take(c, p);
    captures_kick(c);
}

void captures_on_refused(void *ctx, struct rank *r, const struct kymo_hook_refused *m)
{
    struct captures *c = ctx;
    char text[sizeof m->text];
    c->counts.refused[m->reason < KYMO_HOOK_REASON_COUNT ? m->reason : KYMO_HOOK_REASON_NONE]++;
    struct capture *p = m->id[0] ? captures_find(c, r, m->id) : NULL;
    if (!p || p->state >= CAPTURES_SAVED)
        return;
    kymo_utf8_copy_plain(text, sizeof text, m->text, sizeof m->text);
    if (m->reason == KYMO_HOOK_REASON_ROOM && !p->is_listed)
        captures_lose_room(c, p, text);
    else if (*text && strcmp(text, hook_packet_reason(m->reason)) != 0)
        captures_fail(c, p, CAPTURES_REFUSED, "refused: %s: %s", hook_packet_reason(m->reason), text);
    else
        captures_fail(c, p, CAPTURES_REFUSED, "refused: %s", hook_packet_reason(m->reason));
}

void captures_on_ended(void *ctx, struct rank *r)
{
    struct captures *c = ctx;
    if (c->stopping)
        return;
    captures_look(c, r);
}
