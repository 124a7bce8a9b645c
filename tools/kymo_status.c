/* kymo status: what this host's daemon does, for people and as JSON. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/control_client.h"
#include "tools/status_print.h"
#include "tools/subcommands.h"

#define ANSWER_MS 15000

struct args {
    const char *job, *socket;
    bool json;
};

static const struct kymo_option rows[] = {
    {.name = "job",
     .type = KYMO_OPTION_TEXT,
     .arg = "JOB",
     .offset = offsetof(struct args, job),
     .help = "only this one"},
    {.name = "json",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, json),
     .help = "all that the daemon tells, as one JSON object"},
    CONTROL_CLIENT_ROW(struct args, socket),
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo status",
    .about =
        "Shows this host's daemon: its jobs and ranks, captures, spool, collectors, and what itself costs.\n"
        "\n"
        "Exit codes: 0 done; 1 failed; 2 wrong usage; 3 no answer in time; 4 no daemon, or no permission; 5 no job "
        "of\n"
        "that name.",
    .rows = rows,
};

struct run {
    const struct args *args;
    bool done;
    int code;
};

static int heard(void *ctx, const struct wire_message *m, struct kymo_err *err)
{
    struct run *r = ctx;
    if (m->type == WIRE_REFUSAL)
        return control_client_refused((const Kymo__Wire__Refusal *)m->pb, err);
    if (m->type != CONTROL_STATUS_REPLY)
        return 0;
    const Kymo__Control__StatusReply *s = (const Kymo__Control__StatusReply *)m->pb;
    if (r->args->job && s->n_jobs == 0)
        return kymo_err_set(err, -ENOENT, "there is no job \"%s\"", r->args->job);
    if (r->args->json)
        status_print_json(s, stdout);
    else
        status_print(s, stdout);
    r->done = true;
    return 0;
}

static int show(struct run *r, struct kymo_err *err)
{
    struct control_client *client = NULL;
    char job[WIRE_NAME_MAX + 1];
    Kymo__Control__StatusRequest q = KYMO__CONTROL__STATUS_REQUEST__INIT;
    int code = control_client_open(r->args->socket, heard, r, &client, err);
    if (code < 0) {
        r->code = CONTROL_EXIT_NO_DAEMON;
        return code;
    }
    (void)snprintf(job, sizeof job, "%s", r->args->job ? r->args->job : "");
    q.has_request_id = 1;
    q.request_id = 1;
    q.job = r->args->job ? job : NULL;
    code = control_client_send(client, CONTROL_STATUS_REQUEST, &q.base, err);
    if (code == 0)
        code = control_client_wait(client, &r->done, ANSWER_MS, err);
    control_client_close(client);
    r->code = control_client_exit(code);
    return code;
}

int kymo_status_main(int argc, char **argv)
{
    struct args args;
    struct kymo_err err = {0};
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if (args.job && (!*args.job || strlen(args.job) > WIRE_NAME_MAX)) {
        (void)fprintf(stderr, "kymo status: --job: a name has 1 to %d bytes\n", WIRE_NAME_MAX);
        return 2;
    }
    struct run run = {.args = &args};
    int r = show(&run, &err);
    if (r == 0 && (fflush(stdout) != 0 || ferror(stdout)))
        r = kymo_err_set(&err, run.code = 1, "cannot write the output");
    if (r < 0)
        (void)fprintf(stderr, "kymo status: %s\n", err.text);
    return run.code;
}
