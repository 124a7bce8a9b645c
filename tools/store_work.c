#include "tools/store_work.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/sibling.h"
#include "collector/work_queue.h"

#define WAIT_MS 1000
#define FILE_SIZE_MAX ((uint64_t)1 << 40)
#define DESCRIPTORS 1024

struct shown {
    const char *data_path;
    bool terminal;
};

void store_work_print(const char *data_path, const struct catalog_profile *p)
{
    char *place KYMO_FREE = work_queue_place(data_path, p->name);
    if (p->state == CATALOG_READY) {
        printf("%s ready %s\n", p->name, place ? place : "");
        return;
    }
    printf("%s %s%s%s", p->name, catalog_state_name(p->state), *p->reason ? ": " : "", p->reason);
    if (p->file_offset >= 0)
        printf(" (offset %" PRId64 ")", p->file_offset);
    printf("\n");
}

static void changed(void *ctx, const struct catalog_profile *p)
{
    const struct shown *s = ctx;
    if (s->terminal)
        (void)fprintf(stderr, "\r\033[K");
    if (p->state != CATALOG_PROCESSING) {
        store_work_print(s->data_path, p);
        (void)fflush(stdout);
    } else if (s->terminal && *p->stage) {
        (void)fprintf(stderr, "%s: %s", p->name, p->stage);
        if (p->total)
            (void)fprintf(stderr, " %" PRIu64 " %%", (uint64_t)(100.0 * (double)p->done / (double)p->total));
    }
}

static int work(struct work_queue *q, struct kymo_err *err)
{
    int r;
    while ((r = work_queue_turn(q, err)) > 0)
        work_queue_wait(q, WAIT_MS);
    return r;
}

int store_work_run(struct store *s, const struct store_work *w, const char *program)
{
    char kymo_process[PATH_MAX], kymo_gather[PATH_MAX];
    struct kymo_err err = {0};
    struct work_queue *q = NULL;
    struct shown shown = {s->data_path, isatty(STDERR_FILENO)};
    const struct external external = {
        .command = w->processor,
        .schema_version = w->processor_schema,
        .limits = {.memory = w->processor_memory,
                   .file_size = FILE_SIZE_MAX,
                   .wall_ms = 1000 * w->processor_time_s,
                   .descriptors = DESCRIPTORS},
    };
    int r = sibling_path("kymo-process", kymo_process, &err);
    if (r == 0)
        r = sibling_path("kymo-gather", kymo_gather, &err);
    const struct work_queue_config config = {
        .data_path = s->data_path,
        .catalog = s->catalog,
        .raw = s->raw,
        .process_program = kymo_process,
        /* A build without DuckDB has none. */
        .gather_program = r == 0 && access(kymo_gather, X_OK) == 0 ? kymo_gather : NULL,
        .cluster = "default",
        .gather_limit_ms = UINT64_MAX / 2000000,
        .limits = {.memory = w->memory,
                   .file_size = FILE_SIZE_MAX,
                   .cpu_s = w->time_limit_s,
                   .wall_ms = 1000 * w->time_limit_s,
                   .descriptors = DESCRIPTORS},
        .external = w->processor ? &external : NULL,
        .children = (unsigned)w->jobs,
        .retry_ms = 30000,
        .changed = changed,
        .ctx = &shown,
    };
    if (r == 0)
        r = work_queue_open(&config, &q, &err);
    if (r == 0)
        r = work(q, &err);
    work_queue_free(q);
    if (r < 0)
        (void)fprintf(stderr, "%s: %s\n", program, err.text);
    return r;
}
