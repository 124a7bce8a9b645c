/* kymo process: finds the files of a capture and runs kymo-process for each NTFF. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/options.h"
#include "pipeline/settings.h"
#include "tools/capture_dir.h"
#include "tools/process_child.h"
#include "tools/process_forms.h"
#include "tools/subcommands.h"

struct args {
    struct kymo_option_list neffs, formats, settings;
    const char *ntff, *dir, *output, *data_path, *name;
    uint64_t split_rows;
};

static const struct kymo_option rows[] = {
    {.name = "neff",
     .letter = 'n',
     .type = KYMO_OPTION_LIST,
     .arg = "FILE",
     .offset = offsetof(struct args, neffs),
     .help = "compiled programs that ran; matched by hash and uuid, one that cannot be read ends it"},
    {.name = "ntff",
     .letter = 's',
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     .offset = offsetof(struct args, ntff),
     .help = "device profile"},
    {.name = "dir",
     .letter = 'd',
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .offset = offsetof(struct args, dir),
     .help = "capture: a directory with manifest.pb, or a session directory of the runtime; programs found there that "
             "cannot be used give warnings"},
    {.name = "output-format",
     .type = KYMO_OPTION_LIST,
     .arg = "FORMAT",
     .max = PROCESS_FORMS_MAX,
     .check = process_forms_check,
     .offset = offsetof(struct args, formats),
     .help = "parquet (default), csv, perfetto, summary-text, summary-json; several may be named"},
    {.name = "output-file",
     .type = KYMO_OPTION_TEXT,
     .arg = "PATH",
     .offset = offsetof(struct args, output),
     .help =
         "where to: for parquet and csv a directory, else a file; several results go to the directory PATH as NAME, "
         "NAME.csv, NAME.pftrace, NAME.summary.txt, NAME.summary.json. A profile that is there is replaced, anything "
         "else is not. Summaries go to standard output without it"},
    {.name = "data-path",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .offset = offsetof(struct args, data_path),
     .help = "store: tables go to DIR/profiles/global/NAME@latest/, replacing a profile of that name, and stay there "
             "whatever else is made"},
    {.name = "display-name",
     .type = KYMO_OPTION_TEXT,
     .arg = "NAME",
     .offset = offsetof(struct args, name),
     .help = "name in the store, of A-Z a-z 0-9 . _ -; several profiles get their core behind it"},
    {.name = "split-rows",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .offset = offsetof(struct args, split_rows),
     .help = "split tables into files of N rows"},
    {.name = "set",
     .letter = 'F',
     .type = KYMO_OPTION_LIST,
     .arg = "NAME=N",
     .check = settings_check,
     .offset = offsetof(struct args, settings),
     .help = "change a condition of TimelineWarning or another setting, see above"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo process",
    .about = "Makes Parquet tables, and other forms of them, from device profiles and the programs that ran.\n"
             "The name of a profile is JOB-HOST[-rRANK]-CAPTURE-ncK[-NEFF][-HASH] by default. K is the logical core;\n"
             "Metadata.neuroncore_idx is its first physical core. The rank is there where the capture tells it; in a "
             "session\n"
             "directory of the runtime the process and the core tell ranks apart. The hash of the file is there where "
             "nothing\n"
             "else tells it from others.\n"
             "Exit code: 0 done; 1 a profile could not be made (the others of the capture were), an input could not be "
             "read,\n"
             "or nothing was there to make; 2 wrong usage.\n" SETTINGS_HELP,
    .rows = rows,
};

static int usage_error(const char *text)
{
    (void)fprintf(stderr, "kymo process: %s; see kymo process --help\n", text);
    return 2;
}

static const char *wrong_usage(const struct args *a)
{
    if (!a->ntff && !a->dir)
        return "give an NTFF with -s or a capture with -d";
    if (a->name && !capture_name_valid(a->name))
        return "--display-name takes 1 to 200 of A-Z a-z 0-9 . _ -, no dot in front";
    return NULL;
}

static int collect(const struct args *a, struct capture *c, struct kymo_err *err)
{
    int r = a->dir ? capture_read_dir(c, a->dir, err) : 0;
    for (size_t i = 0; i < a->neffs.n && r == 0; i++)
        r = capture_add_neff(c, a->neffs.items[i], err);
    /* With -s, the directory gives only what belongs to that one. */
    return r == 0 && a->ntff ? capture_add_ntff(c, a->ntff, err) : r;
}

/* Several profiles of one --display-name get their core behind it. */
static int choose_name(const struct args *a, const struct capture *c, const struct capture_ntff *f, size_t n,
                       char out[static CAPTURE_NAME_MAX + 1], struct kymo_err *err)
{
    char core[CAPTURE_CORE_MAX + 1];
    if (!a->name)
        return capture_profile_name(c, f, out, err);
    int r = n == 1 ? 0 : capture_core_name(c, f, core, err);
    if (r == 0 && n == 1)
        (void)snprintf(out, CAPTURE_NAME_MAX + 1, "%s", a->name);
    else if (r == 0)
        (void)snprintf(out, CAPTURE_NAME_MAX + 1, "%.*s-%s", CAPTURE_NAME_MAX - CAPTURE_CORE_MAX - 1, a->name, core);
    return r;
}

static int process_one(const struct args *a, struct process_forms *forms, const struct capture *c,
                       const struct capture_ntff *f, size_t n)
{
    bool several = n * process_forms_results(forms) > 1;
    char name[CAPTURE_NAME_MAX + 1];
    struct kymo_err err = {0};
    if (choose_name(a, c, f, n, name, &err) < 0) {
        (void)fprintf(stderr, "kymo process: %s\n", err.text);
        return 1;
    }
    char *output KYMO_FREE = process_forms_tables(forms, name, several);
    const char *neffs[KYMO_OPTION_LIST_MAX];
    struct process_child child = {
        .ntff = f->path,
        .neffs = neffs,
        .neff_count = capture_neffs_of(c, f, neffs, KYMO_OPTION_LIST_MAX),
        .manifest = c->manifest,
        .output = output,
        .name = name,
        .split_rows = a->split_rows,
        .settings = &a->settings,
    };
    int code = output ? process_child_run(&child, &err)
                      : kymo_err_set(&err, -ENOMEM, "no memory, or no directory for the tables");
    if (code == 0 && !forms->scratch)
        printf("%s\n", output);
    if (code == 0)
        code = process_forms_make(forms, output, name, several, &err);
    if (code < 0)
        (void)fprintf(stderr, "kymo process: %s\n", err.text);
    return code;
}

/* True: there is something to read. Else it is said why not. */
static bool is_readable(const struct capture_ntff *f)
{
    if (f->problem)
        (void)fprintf(stderr, "kymo process: %s\n", f->problem);
    else if (f->empty)
        (void)fprintf(
            stderr, "kymo process: %s is empty: the core executed nothing while it was profiled; no tables were made\n",
            f->path);
    return !f->problem && !f->empty;
}

/* An empty NTFF among others is a core that executed nothing; alone it is what the user asked about, and an error. What
 * fails keeps nothing else from being made. */
static int process_all(const struct args *a, struct process_forms *forms, const struct capture *c)
{
    const struct capture_ntff *first = a->ntff ? &c->ntffs[c->ntff_count - 1] : c->ntffs;
    size_t n = a->ntff ? 1 : c->ntff_count, made = 0, failed = 0;
    if (!n) {
        (void)fprintf(stderr, "kymo process: %s holds no NTFF file\n", a->dir);
        return 1;
    }
    if (n > 1 && a->output && forms->tables && !forms->count)
        return usage_error(
            "--output-file takes one NTFF, the capture has several: name one with -s, or use --data-path");
    for (size_t i = 0; i < n; i++) {
        if (is_readable(&first[i]) && process_one(a, forms, c, &first[i], n) == 0)
            made++;
        else if (!first[i].empty)
            failed++;
    }
    if (failed && n > 1)
        (void)fprintf(stderr, "kymo process: %zu of %zu profiles could not be made\n", failed, n);
    return made && !failed ? 0 : 1;
}

int kymo_process_main(int argc, char **argv)
{
    struct args args;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    const char *wrong = wrong_usage(&args);
    if (wrong)
        return usage_error(wrong);
    struct process_forms forms;
    struct capture capture;
    struct kymo_err err = {0};
    if (process_forms_init(&forms, &args.formats, args.output, args.data_path, &err) < 0)
        return usage_error(err.text);
    capture_init(&capture);
    if (collect(&args, &capture, &err) < 0) {
        (void)fprintf(stderr, "kymo process: %s\n", err.text);
        code = 1;
    } else {
        code = process_all(&args, &forms, &capture);
    }
    process_forms_done(&forms);
    capture_done(&capture);
    return code;
}
