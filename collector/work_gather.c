#include "collector/work_gather.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "collector/fleet_store.h"

#define LIST_MAX (64u << 20)
#define ARGS_MAX 32

struct list {
    struct kymo_buf text;
    const char *data_path;
};

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory for the list of members");
}

/* One line each; a reason is text of others. */
static int add_member(void *ctx, const struct catalog_profile *p)
{
    struct list *l = ctx;
    char reason[sizeof p->reason];
    bool ready = p->state == CATALOG_READY;
    char *place KYMO_FREE = work_queue_place(l->data_path, p->name);
    if (!place)
        return -ENOMEM;
    (void)snprintf(reason, sizeof reason, "%s", p->reason);
    for (char *at = reason; *at; at++)
        if ((unsigned char)*at < 0x20)
            *at = ' ';
    return kymo_buf_printf(&l->text, "%s\t%s\t%s\t%s\n", catalog_state_name(p->state), p->name, ready ? place : "",
                           reason);
}

int work_gather_list(struct work_job *j, const struct work_queue_config *c, struct kymo_err *err)
{
    struct list l = {.data_path = c->data_path};
    kymo_buf_init(&l.text, LIST_MAX);
    j->members = kymo_asprintf("%s/members", j->directory);
    int r = j->members ? catalog_list_members(c->catalog, j->profile.request, add_member, &l, err) : no_memory(err);
    if (r == -ENOMEM || r == -ENOBUFS)
        r = no_memory(err);
    if (r == 0)
        r = kymo_file_write_atomic(j->members, l.text.data, l.text.len, err);
    kymo_buf_done(&l.text);
    return r;
}

int work_gather_start(struct work_job *j, const struct work_queue_config *c, struct kymo_err *err)
{
    char fd[16], rank[24], captured[24];
    const struct catalog_profile *p = &j->profile;
    char *place KYMO_FREE = work_queue_place(c->data_path, p->name);
    const char *argv[ARGS_MAX] = {c->gather_program, "--sandbox", "--progress-fd", fd,
                                  "--name",          p->name,     "--output",      j->output};
    size_t n = 8;
    if (!place)
        return no_memory(err);
    (void)snprintf(fd, sizeof fd, "%d", RUNNER_PROGRESS_FD);
    (void)snprintf(rank, sizeof rank, "%u", p->rank);
    (void)snprintf(captured, sizeof captured, "%lld", (long long)p->captured_ns);
    const char *const parent[] = {"--members", j->members};
    const char *const fleet[] = {"--fleet", "--time", captured, place};
    const char *const one[] = {"--rank", rank, "--capture", p->capture, "--host", p->host};
    for (size_t i = 0; j->kind == WORK_PARENT && i < sizeof parent / sizeof *parent; i++)
        argv[n++] = parent[i];
    for (size_t i = 0; j->kind == WORK_FLEET && i < sizeof fleet / sizeof *fleet; i++)
        argv[n++] = fleet[i];
    for (size_t i = 0; j->kind == WORK_FLEET && !p->is_parent && i < sizeof one / sizeof *one; i++)
        argv[n++] = one[i];
    if (j->kind == WORK_FLEET && *p->job) {
        argv[n++] = "--job";
        argv[n++] = p->job;
    }
    char *envp[] = {(char *)(size_t) "LANG=C.UTF-8", NULL};
    const struct runner_spec spec = {.argv = (char *const *)(size_t)argv, .envp = envp, .limits = c->limits};
    return runner_start(&spec, &j->runner, err);
}

int work_gather_publish(const struct work_job *j, const struct work_queue_config *c, struct kymo_err *err)
{
    return fleet_store_publish(c->data_path, j->output, j->profile.name, j->profile.captured_ns, c->cluster, err);
}
