/* kymo reprocess NAME...: makes profiles of a store again, from the captures that it keeps. */
#include <stddef.h>
#include <stdio.h>

#include "tools/store_work.h"
#include "tools/subcommands.h"

struct args {
    struct store_work work;
    struct kymo_option_list names;
};

static const struct kymo_option rows[] = {
    STORE_WORK_ROWS(struct args, work),
    {.name = "NAME",
     .type = KYMO_OPTION_POSITIONALS,
     .required = true,
     .offset = offsetof(struct args, names),
     .help = "profiles, as kymo profiles lists them"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo reprocess",
    .about =
        "Makes profiles again from the stored captures. What is there stays until it is exchanged for the new one.\n"
        "Exit code: 0 all are ready, 1 not all of them, 2 wrong usage.",
    .rows = rows,
};

static int reprocess(struct store *s, const struct args *a)
{
    struct kymo_err err = {0};
    struct catalog_profile p;
    int r = 0, failed = 0;
    for (size_t i = 0; r == 0 && i < a->names.n; i++) {
        r = catalog_find(s->catalog, a->names.items[i], &p, &err);
        /* One that waits will be made anyway. */
        if (r == 0 && p.state != CATALOG_QUEUED)
            r = catalog_queue(s->catalog, p.name, &err);
    }
    if (r < 0) {
        (void)fprintf(stderr, "kymo reprocess: %s\n", err.text);
        return 1;
    }
    if (store_work_run(s, &a->work, "kymo reprocess") < 0)
        return 1;
    for (size_t i = 0; i < a->names.n; i++)
        failed |= catalog_find(s->catalog, a->names.items[i], &p, &err) < 0 || p.state != CATALOG_READY;
    return failed;
}

int kymo_reprocess_main(int argc, char **argv)
{
    struct args args;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    struct store *s = NULL;
    struct kymo_err err = {0};
    if (store_open(args.work.data_path, args.work.reserve, &s, &err) < 0) {
        (void)fprintf(stderr, "kymo reprocess: %s\n", err.text);
        return 1;
    }
    code = reprocess(s, &args);
    store_free(s);
    return code;
}
