/* kymo spool check|dump|repair: looks at a host's spool of captures, or sets it right. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/commands.h"
#include "base/options.h"
#include "daemon/spool/spool_check.h"
#include "tools/subcommands.h"

struct args {
    const char *dir;
    bool quick;
};

#define DIR_ROW                                                                                                        \
    {                                                                                                                  \
        .name = "DIR", .type = KYMO_OPTION_POSITIONAL, .required = true, .offset = offsetof(struct args, dir),         \
        .help = "the spool's directory"                                                                                \
    }

static const struct kymo_option check_rows[] = {
    DIR_ROW,
    {.name = "quick",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, quick),
     .help = "sizes only, not the SHA-256 of every file"},
    {0},
};

static const struct kymo_option plain_rows[] = {DIR_ROW, {0}};

static const struct kymo_options check_spec = {
    .program = "kymo spool check",
    .about = "Names what is wrong with a spool: file, offset, cause. Changes nothing. Exit code 1: something is.",
    .rows = check_rows,
};

static const struct kymo_options dump_spec = {
    .program = "kymo spool dump",
    .about = "Prints the records of a spool's journal: offset, id, what each says. Changes nothing.",
    .rows = plain_rows,
};

static const struct kymo_options repair_spec = {
    .program = "kymo spool repair",
    .about =
        "Sets a spool right and says what it does. What it cuts off is kept in DIR/cut. Refuses while the spool is in "
        "use.",
    .rows = plain_rows,
};

static void print_line(void *ctx, const char *text)
{
    (void)fprintf(ctx, "%s\n", text);
}

static int finish(const char *program, int code, const struct kymo_err *err)
{
    if (code == 0 && fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    (void)fprintf(stderr, "%s: %s\n", program, code < 0 ? err->text : "cannot write the output");
    return 1;
}

static int check_main(int argc, char **argv)
{
    struct args args;
    struct kymo_err err = {0};
    struct spool_check_result found;
    int code = kymo_options_main(&check_spec, argc, argv, &args);
    if (code >= 0)
        return code;
    code = spool_check(args.dir, !args.quick, print_line, stdout, &found, &err);
    if (code < 0)
        return finish(check_spec.program, code, &err);
    printf("%s: %llu records, %llu captures of %llu bytes, %llu NEFFs, %zu problems%s%s\n", args.dir,
           (unsigned long long)found.records, (unsigned long long)found.captures, (unsigned long long)found.bytes,
           (unsigned long long)found.neffs, found.problems,
           found.account_open ? "; the account is open: counters were damaged once" : "",
           found.in_use ? "; the spool is in use, so some may be work in progress" : "");
    code = finish(check_spec.program, 0, &err);
    return found.problems ? 1 : code;
}

static int dump_main(int argc, char **argv)
{
    struct args args;
    struct kymo_err err = {0};
    int code = kymo_options_main(&dump_spec, argc, argv, &args);
    if (code >= 0)
        return code;
    return finish(dump_spec.program, spool_dump(args.dir, print_line, stdout, &err), &err);
}

static int repair_main(int argc, char **argv)
{
    struct args args;
    struct kymo_err err = {0};
    int code = kymo_options_main(&repair_spec, argc, argv, &args);
    if (code >= 0)
        return code;
    return finish(repair_spec.program, spool_repair(args.dir, print_line, stdout, &err), &err);
}

int kymo_spool_main(int argc, char **argv)
{
    static const struct kymo_command table[] = {
        {"check", check_main, "name what is wrong: file, offset, cause"},
        {"dump", dump_main, "print the journal's records"},
        {"repair", repair_main, "set it right, keeping what is cut off"},
        {0},
    };
    return kymo_commands_main("kymo spool", table, argc, argv);
}
