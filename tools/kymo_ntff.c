/* kymo ntff inspect: prints all that an NTFF file holds. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "formats/ntff/ntff_reader.h"
#include "tools/ntff_inspect.h"
#include "tools/subcommands.h"
#include "tools/tree.h"

struct args {
    const char *file, *ring;
    bool json, records;
};

static const struct kymo_option rows[] = {
    {.name = "FILE",
     .type = KYMO_OPTION_POSITIONAL,
     .required = true,
     .offset = offsetof(struct args, file),
     .help = "the NTFF file"},
    {.name = "RING",
     .type = KYMO_OPTION_POSITIONAL,
     .offset = offsetof(struct args, ring),
     .help = "of this ring alone, such as INSTRUCTION or DMA-E3(nc0)"},
    {.name = "json", .type = KYMO_OPTION_FLAG, .offset = offsetof(struct args, json), .help = "as JSON"},
    {.name = "records",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, records),
     .help = "each record decoded"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo ntff inspect",
    .about = "Prints all that an NTFF file holds: header, profile, images, rings, counters, record types. A file with "
             "a foreign\n"
             "header is dumped without a schema and held against what is said of the vendor's format.",
    .rows = rows,
};

static int show_ours(struct tree *t, const struct ntff_inspect *opt, struct kymo_err *err)
{
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = NULL;
    int code = ntff_reader_open(opt->path, &r, err);
    if (code < 0 && code != -ENODATA)
        return code;
    tree_text(t, "state", r ? "kymo" : "empty");
    return r ? ntff_inspect_profile(t, r, opt, err) : 0;
}

static int inspect(const struct ntff_inspect *opt, bool json, struct kymo_err *err)
{
    bool foreign = false;
    int code = ntff_inspect_is_foreign(opt->path, &foreign, err);
    if (code < 0)
        return code;
    struct tree t;
    tree_start(&t, stdout, json);
    tree_text(&t, "file", opt->path);
    if (foreign) {
        tree_text(&t, "state", "foreign");
        code = ntff_inspect_foreign(&t, opt->path, err);
    } else {
        code = show_ours(&t, opt, err);
    }
    if (code < 0)
        tree_text(&t, "error", err->text);
    tree_finish(&t);
    if (code == 0 && (fflush(stdout) != 0 || ferror(stdout)))
        return kymo_err_set(err, -EIO, "cannot write the output");
    return code;
}

static int inspect_main(int argc, char **argv)
{
    struct args args;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    const struct ntff_inspect opt = {.path = args.file, .records = args.records, .ring = args.ring};
    struct kymo_err err = {0};
    if (inspect(&opt, args.json, &err) == 0)
        return 0;
    (void)fprintf(stderr, "kymo ntff inspect: %s\n", err.text);
    return 1;
}

int kymo_ntff_main(int argc, char **argv)
{
    if (argc >= 2 && !strcmp(argv[1], "inspect"))
        return inspect_main(argc - 1, argv + 1);
    bool help = argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
    if (argc >= 2 && !help)
        (void)fprintf(stderr, "kymo ntff: no command \"%.64s\", there is inspect\n", argv[1]);
    (void)fprintf(help ? stdout : stderr, "usage: kymo ntff inspect FILE [RING] [--json] [--records]\n");
    return help ? 0 : 2;
}
