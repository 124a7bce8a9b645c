/*
 * Options of programs: one table whose rows carry name, type, default, place and help. Parsing, checks and --help come
 * from it. Values are pointers into argv and the table: nothing is allocated, nothing is freed. Not thread-safe.
 *
 *   struct args { const char *output; uint64_t ranks; bool async; struct kymo_option_list neffs; };
 *   static const struct kymo_option rows[] = {
 *       {.name = "output", .letter = 'o', .type = KYMO_OPTION_TEXT, .arg = "DIR", .required = true,
 *        .offset = offsetof(struct args, output), .help = "directory for the captures"},
 *       {.name = "ranks", .type = KYMO_OPTION_U64, .arg = "N", .def = "4", .min = 1, .max = 64,
 *        .offset = offsetof(struct args, ranks), .help = "processes of the job"},
 *       {.name = "async", .type = KYMO_OPTION_FLAG, .offset = offsetof(struct args, async), .help = "..."},
 *       {.name = "NEFF", .type = KYMO_OPTION_POSITIONALS, .offset = offsetof(struct args, neffs), .help = "..."},
 *       {0}};
 *   static const struct kymo_options spec = {.program = "kymo-sim run", .about = "Runs a training job.", .rows = rows};
 *   struct args args;
 *   int code = kymo_options_main(&spec, argc, argv, &args);
 *   if (code >= 0)
 *       return code;
 */
#ifndef KYMO_BASE_OPTIONS_H
#define KYMO_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

#define KYMO_OPTION_LIST_MAX 256

struct kymo_option_list {
    size_t n;
    const char *items[KYMO_OPTION_LIST_MAX];
};

enum kymo_option_type {
    KYMO_OPTION_FLAG,        /* bool; takes no value */
    KYMO_OPTION_TEXT,        /* const char *, NULL without a default */
    KYMO_OPTION_U64,         /* uint64_t, decimal or 0x, within min..max (max 0: no limit) */
    KYMO_OPTION_SIZE,        /* uint64_t bytes, suffix K, M, G or T of 1024 */
    KYMO_OPTION_DOUBLE,      /* double, finite */
    KYMO_OPTION_CHOICE,      /* int, index into choices; -1 without a default */
    KYMO_OPTION_LIST,        /* struct kymo_option_list; each use takes one value, or several up to the next option */
    KYMO_OPTION_POSITIONAL,  /* const char *; rows in order, name is what help shows */
    KYMO_OPTION_POSITIONALS, /* struct kymo_option_list: all that are left */
};

struct kymo_option {
    const char *name; /* long name without dashes */
    char letter;      /* also -x; 0: none */
    enum kymo_option_type type;
    bool required;
    const char *arg;     /* what help shows for the value; NULL: VALUE */
    const char *def;     /* default, in the form a user would type; NULL: zero, NULL, or an empty list */
    const char *implied; /* what --name stands for without =VALUE; then a value is never a separate argument */
    const char *choices; /* KYMO_OPTION_CHOICE: "mlp|attention" */
    uint64_t min, max;   /* KYMO_OPTION_U64 and KYMO_OPTION_SIZE; KYMO_OPTION_LIST: max values (0: the list's) */
    int (*check)(const char *text, struct kymo_err *err); /* what else a value must be; NULL: nothing */
    size_t offset;                                        /* of the value in the target structure */
    const char *help;
};

struct kymo_options {
    const char *program;            /* as a user types it: "kymo process" */
    const char *about;              /* one sentence, or several lines, for --help */
    const struct kymo_option *rows; /* the last has no name */
};

enum kymo_options_outcome { KYMO_OPTIONS_PARSED, KYMO_OPTIONS_HELP, KYMO_OPTIONS_VERSION };

/*
 * Fills target from defaults and argv[1..]. Returns an outcome, or -EINVAL with a text that names the option; target
 * then holds no promise. Long options are --name VALUE or --name=VALUE, short ones -x VALUE; "--" ends options; a
 * separate value never begins with "--". -h, --help and --version are understood without a row.
 */
int kymo_options_parse(const struct kymo_options *spec, int argc, char *const *argv, void *target,
                       struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * The two halves of kymo_options_parse, for who puts a configuration file between them (base/ini.h): defaults of all
 * rows; then argv over what is there (the first use of a list empties it), without a look at required rows; then that
 * look.
 */
void kymo_options_defaults(const struct kymo_option *rows, void *target);
int kymo_options_apply(const struct kymo_options *spec, int argc, char *const *argv, void *target,
                       struct kymo_err *err) KYMO_MUST_CHECK;
int kymo_options_required(const struct kymo_options *spec, const void *target, struct kymo_err *err) KYMO_MUST_CHECK;

void kymo_options_help(const struct kymo_options *spec, FILE *out);

/* For main functions: -1 = go on; else the exit code, 0 after --help or --version, 2 after a line about wrong usage. */
int kymo_options_main(const struct kymo_options *spec, int argc, char *const *argv, void *target) KYMO_MUST_CHECK;

/* The same for an outcome, or error, of somebody else who parses: prints what belongs to it. */
int kymo_options_outcome(const struct kymo_options *spec, int outcome, const struct kymo_err *err) KYMO_MUST_CHECK;

/* Sets one row's value from text, as a configuration file's reader does. -EINVAL with the reason. */
int kymo_options_set(const struct kymo_option *row, const char *text, void *target,
                     struct kymo_err *err) KYMO_MUST_CHECK;

#endif
