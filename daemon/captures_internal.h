/* What the files of captures share. */
#ifndef KYMO_DAEMON_CAPTURES_INTERNAL_H
#define KYMO_DAEMON_CAPTURES_INTERNAL_H

#include <uv.h>

#include "daemon/captures.h"
#include "daemon/config.h"
#include "daemon/host.h"
#include "daemon/host_clock.h"
#include "daemon/intake.h"
#include "daemon/jobs.h"
#include "daemon/learned.h"
#include "daemon/outbox.h"
#include "daemon/outbox_say.h"
#include "daemon/own_cost.h"
#include "daemon/rank.h"
#include "daemon/say.h"

#define CAPTURES_MAX 4096     /* at a time */
#define CAPTURES_SENT_MAX 256 /* of which it is remembered whose they were */
#define CAPTURES_TICK_MS 1000
#define CAPTURES_LOOK_MS 3000 /* after a hook has come back, until captures without a word are looked for */
#define CAPTURES_STRANGERS 16 /* of one process: captures that nobody asked for, as those of failures */

struct capture {
    struct capture *next;
    char id[KYMO_HOOK_ID_MAX];      /* in the fleet */
    char hook_id[KYMO_HOOK_ID_MAX]; /* in the intake */
    char request[KYMO_HOOK_ID_MAX]; /* what it has in common with others of its wish; "": not known */
    struct rank *rank;              /* NULL: spooled, only its delivery is waited for */
    struct captures_ask *ask;       /* who watches; NULL: nobody */
    enum captures_state state;
    const char *trigger;
    enum kymo_hook_mode mode;
    uint64_t step, duration_ns;
    uint32_t count, seq;
    uint64_t deadline_ms;
    uint64_t begin_by_ms; /* of one that is armed */
    bool is_found;        /* nobody asked for it, or not this kymod */

    struct host_clock begin, end; /* when it was armed, when the hook's word came */
    bool has_word;
    struct kymo_hook_captured word;
    struct intake_capture *files;
    uint64_t neff_tickets[INTAKE_FILES_MAX];
    unsigned neffs_waiting;
    bool is_listed, is_given; /* files are known; the outbox has it */
    uint32_t lost;            /* cause, when there is nothing to be taken */
    char lost_why[sizeof((struct kymo_hook_refused *)0)->text];
    uint64_t ticket;
};

struct captures_ask {
    struct captures_ask *next;
    captures_watch *watch;
    void *ctx;
    bool wait;
    size_t left; /* captures that have not come to their end */
};

/* Whose a capture was, for what the collector tells of it later. */
struct captures_sent {
    char id[KYMO_HOOK_ID_MAX], job[PROCESS_TEXT_MAX + 1];
    uint64_t mb[CONFIG_BUFFERS];
};

struct captures {
    uv_loop_t *loop;
    const struct config *config;
    const struct host *host;
    struct learned *learned;
    const char *intake, *learned_path;
    struct own_cost *cost; /* NULL: not measured */
    uint64_t shed_waiting; /* captures not begun that have no loss row yet */
    struct jobs *jobs;
    struct outbox *outbox;

    struct capture *first;
    size_t n;
    struct captures_ask *asks;
    struct captures_counts counts;
    uint64_t number;
    uint64_t random;
    struct captures_sent sent[CAPTURES_SENT_MAX];
    size_t sent_next;

    uv_timer_t tick;   /* runs while hooks owe something, or an order waits for room */
    uv_timer_t soon;   /* once, as soon as the caller has returned */
    uv_timer_t period; /* next periodic capture */
    unsigned handles;
    unsigned starting; /* looks at what was left that are not over; then the outbox may send */
    bool is_started, has_gone, stopping;
    bool learned_dirty, learned_busy;
    uv_work_t learned_work;
    char *learned_text;
    size_t learned_n;
    struct say_limit say;
    struct outbox_say said;
};

/* captures.c */
struct capture *captures_add(struct captures *c, struct rank *r, const char *hook_id);
void captures_set_state(struct captures *c, struct capture *p, enum captures_state now, const char *text);
/* FAILED, with the reason; p is gone when nobody waits for anything. */
void captures_fail(struct captures *c, struct capture *p, enum captures_failure cause, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void captures_remove(struct captures *c, struct capture *p);
struct capture *captures_find(const struct captures *c, const struct rank *r, const char *hook_id);
void captures_kick(struct captures *c); /* the tick runs, and soon comes */
/* Of a capture of this host; the first letter tells the trigger. */
void captures_make_id(struct captures *c, const char *trigger, char ret[static KYMO_HOOK_ID_MAX]);
/* How many ranks could be asked now. */
size_t captures_count_meant(const struct captures *c, const struct captures_wish *wish);

/* captures_arm.c */
void captures_arm(struct captures *c);         /* all that are queued and can be */
void captures_watch_hooks(struct captures *c); /* each second */
bool captures_want_tick(const struct captures *c);
void captures_take_back(struct capture *p);
/* By one that somebody asks for: it is periodic, and the hook has not even seen it. */
bool captures_may_replace(const struct capture *p);

/* One that this kymod did not ask for, or asked for and gave up; NULL: no room. */
struct capture *captures_add_found(struct captures *c, struct rank *r, const char *hook_id);

/* captures_take.c */
void captures_take(struct captures *c, struct capture *p); /* SAVED: over to the spool */
void captures_look(struct captures *c, struct rank *r);    /* for captures without a word */
void captures_give_waiting(struct captures *c);            /* those that the outbox had no room for */
void captures_lose_room(struct captures *c, struct capture *p, const char *why); /* there was none to write it */
void captures_check_started(struct captures *c);

/* captures_period.c */
void captures_plan(struct captures *c); /* looks again when the next periodic capture is due */

/* captures_shed.c: captures that are not begun since kymod costs too much; each is lost, in a row of the spool */
void captures_shed(struct captures *c, uint64_t n);
void captures_tell_shed(struct captures *c); /* those that the outbox had no room for */

/* captures_fleet.c: what collectors say */
void captures_on_request(void *ctx, uint64_t request, const Kymo__Uplink__CaptureRequest *wanted);
void captures_on_ring_losses(void *ctx, const Kymo__Uplink__RingLosses *losses);
void captures_remember(struct captures *c, const struct capture *p);

/* captures_take.c, for the outbox */
void captures_on_taken(void *ctx, uint64_t ticket, int code, uint32_t cause, const struct kymo_err *err);
void captures_on_neff(void *ctx, uint64_t ticket, int code, const uint8_t sha256[KYMO_SHA256_SIZE], uint64_t size,
                      const struct kymo_err *err);
void captures_on_sent(void *ctx, const char *capture_id, const struct kymo_err *why);

/* captures_arm.c, for ranks */
void captures_on_ready(void *ctx, struct rank *r);
void captures_on_captured(void *ctx, struct rank *r, const struct kymo_hook_captured *m);
void captures_on_refused(void *ctx, struct rank *r, const struct kymo_hook_refused *m);
void captures_on_ended(void *ctx, struct rank *r);

#endif
