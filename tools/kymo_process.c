/* kymo process: finds the files of a capture and runs kymo-process for each NTFF, and for the system trace. */
#include <errno.h>
#include <stdbool.h>
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
    bool no_devices, no_system;
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
     .help =
         "capture: a directory with manifest.pb (also below raw/captures of a store, with its programs in raw/neff), "
         "or a session directory of the runtime; programs found there that cannot be used give warnings"},
    {.name = "output-format",
     .type = KYMO_OPTION_LIST,
     .arg = "FORMAT",
     .max = PROCESS_FORMS_MAX,
     .check = process_forms_check,
     .offset = offsetof(struct args, formats),
     .help = "parquet (default), csv, perfetto, summary-text, summary-json; several may be named"},
    {.name = "output-file",
     .letter = 'o',
     .type = KYMO_OPTION_TEXT,
     .arg = "PATH",
     .offset = offsetof(struct args, output),
     .help =
         "where to: for parquet and csv a directory, else a file; several results, or those of several profiles, go to "
         "the directory PATH as NAME, NAME.csv, NAME.pftrace, NAME.summary.txt, NAME.summary.json. A profile that is "
         "there is replaced, anything else is not. Summaries go to standard output without it, one behind the other"},
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
    {.name = "ignore-device-profile",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, no_devices),
     .help = "of a capture: the system profile alone"},
    {.name = "ignore-system-profile",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, no_system),
     .help = "of a capture: the device profiles alone"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo process",
    .about =
        "Makes Parquet tables, and other forms of them, from device profiles and the programs that ran, and from a\n"
        "session's system trace (ntrace.pb, trace_info.pb, cpu_util.pb, host_mem.pb, trace.json), which becomes a "
        "profile\n"
        "of its own, has \"system\" in the core's place and names the others in DeviceProfileList.\n"
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
    if ((a->no_devices || a->no_system) && (a->ntff || !a->dir || (a->no_devices && a->no_system)))
        return "--ignore-device-profile or --ignore-system-profile goes with a capture, -d";
    if (a->name && !capture_name_valid(a->name))
        return "--display-name takes 1 to 200 of A-Z a-z 0-9 . _ -, no dot in front";
    return NULL;
}

static int collect(const struct args *a, struct capture *c, struct kymo_err *err)
{
    int r = a->dir ? capture_read_dir(c, a->dir, err) : 0;
    for (size_t i = 0; i < a->neffs.n && r == 0; i++)
        r = capture_add_neff(c, a->neffs.items[i], err);
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

/* What is made of a capture: n of its NTFFs, from first on, and its system trace. */
struct selection {
    const struct capture_ntff *first;
    size_t n;
    bool system;
};

static struct selection select_files(const struct args *a, const struct capture *c)
{
    /* With -s, the directory gives only what belongs to that one. */
    if (a->ntff)
        return (struct selection){.first = &c->ntffs[c->ntff_count - 1], .n = 1};
    return (struct selection){
        .first = c->ntffs, .n = a->no_devices ? 0 : c->ntff_count, .system = c->system && !a->no_system};
}

static bool is_several(const struct selection *s, const struct process_forms *forms)
{
    return (s->n + s->system) * process_forms_results(forms) > 1;
}

/* Tables and what else is wanted of one profile; the exit code of what failed. */
static int make(struct process_forms *forms, struct process_child *child, bool several)
{
    struct kymo_err err = {0};
    char *output KYMO_FREE = process_forms_tables(forms, child->name, several);
    child->output = output;
    int code = output ? process_child_run(child, &err)
                      : kymo_err_set(&err, -ENOMEM, "no memory, or no directory for the tables");
    if (code == 0 && !forms->scratch)
        printf("%s\n", output);
    if (code == 0)
        code = process_forms_make(forms, output, child->name, several, &err);
    if (code < 0)
        (void)fprintf(stderr, "kymo process: %s\n", err.text);
    return code;
}

static int process_one(const struct args *a, struct process_forms *forms, const struct capture *c,
                       const struct selection *all, const struct capture_ntff *f)
{
    char name[CAPTURE_NAME_MAX + 1];
    struct kymo_err err = {0};
    if (choose_name(a, c, f, all->n, name, &err) < 0) {
        (void)fprintf(stderr, "kymo process: %s\n", err.text);
        return 1;
    }
    const char *neffs[KYMO_OPTION_LIST_MAX];
    struct process_child child = {
        .ntff = f->path,
        .neffs = neffs,
        .neff_count = capture_neffs_of(c, f, neffs, KYMO_OPTION_LIST_MAX),
        .manifest = c->manifest,
        .name = name,
        .split_rows = a->split_rows,
        .settings = &a->settings,
    };
    return make(forms, &child, is_several(all, forms));
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

struct outcome {
    size_t asked, made, failed;
    char *devices[KYMO_OPTION_LIST_MAX]; /* NAME=NTFF of those made */
    size_t device_count;
};

static void outcome_done(struct outcome *o)
{
    for (size_t i = 0; i < o->device_count; i++)
        kymo_free(o->devices[i]);
}

/* For the system profile, which names what it can link. */
static void keep_device(struct outcome *o, const struct args *a, const struct capture *c, const struct capture_ntff *f,
                        size_t n)
{
    char name[CAPTURE_NAME_MAX + 1];
    if (o->device_count == KYMO_OPTION_LIST_MAX || choose_name(a, c, f, n, name, NULL) < 0)
        return;
    o->devices[o->device_count] = kymo_asprintf("%s=%s", name, f->path);
    o->device_count += o->devices[o->device_count] != NULL;
}

static void process_devices(const struct args *a, struct process_forms *forms, const struct capture *c,
                            const struct selection *all, struct outcome *o)
{
    o->asked += all->n;
    for (size_t i = 0; i < all->n && !process_child_stopped(); i++) {
        const struct capture_ntff *f = &all->first[i];
        if (is_readable(f) && process_one(a, forms, c, all, f) == 0) {
            o->made++;
            keep_device(o, a, c, f, all->n);
        } else if (!f->empty) {
            o->failed++;
        }
    }
}

/* Code 3: nothing was recorded, which fails only what holds nothing else. */
static void process_system(const struct args *a, struct process_forms *forms, const struct capture *c,
                           const struct selection *all, struct outcome *o)
{
    char name[CAPTURE_NAME_MAX + 1];
    o->asked++;
    capture_system_name(c, name);
    if (a->name)
        (void)snprintf(name, sizeof name, "%.*s-system", CAPTURE_NAME_MAX - (int)sizeof "-system", a->name);
    struct process_child child = {
        .system = c->system,
        .devices = (const char *const *)o->devices,
        .device_count = o->device_count,
        .settings = &a->settings,
        .manifest = c->manifest,
        .name = name,
        .split_rows = a->split_rows,
    };
    int code = make(forms, &child, is_several(all, forms));
    o->made += code == 0;
    o->failed += code != 0 && !(code == 3 && o->made);
}

static int nothing_to_make(const struct args *a, const struct capture *c)
{
    char *inside KYMO_FREE = capture_find_inside(a->dir);
    (void)fprintf(stderr, "kymo process: %s holds no %s%s%s\n", a->dir,
                  a->no_devices               ? "files of a system trace"
                  : a->no_system && c->system ? "NTFF file, and the system profile is not wanted"
                                              : "NTFF file and no system trace",
                  inside ? ": give one of the captures in it, such as " : "", inside ? inside : "");
    return 1;
}

/* A profile that an earlier call made at PATH, of one result, must not get others inside. */
static bool is_profile(const char *path)
{
    char *file KYMO_FREE = kymo_asprintf("%s/SchemaFields.parquet", path);
    return file && access(file, F_OK) == 0;
}

/* An empty NTFF among others is a core that executed nothing; alone it is what the user asked about, and an error. What
 * fails keeps nothing else from being made. */
static int process_all(const struct args *a, struct process_forms *forms, const struct capture *c)
{
    struct outcome o = {0};
    const struct selection all = select_files(a, c);
    if (!all.n && !all.system)
        return nothing_to_make(a, c);
    if (a->output && is_several(&all, forms) && is_profile(a->output))
        return usage_error("--output-file names a profile, and there are several results: name a directory for them");
    process_devices(a, forms, c, &all, &o);
    if (all.system && !process_child_stopped())
        process_system(a, forms, c, &all, &o);
    if (o.failed && o.asked > 1)
        (void)fprintf(stderr, "kymo process: %zu of %zu profiles could not be made\n", o.failed, o.asked);
    outcome_done(&o);
    return o.made && !o.failed && !process_child_stopped() ? 0 : 1;
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
    process_child_catch_signals();
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
