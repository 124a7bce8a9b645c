#include "base/options.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SHOWN_MAX 32

static bool is_positional(const struct kymo_option *row)
{
    return row->type == KYMO_OPTION_POSITIONAL || row->type == KYMO_OPTION_POSITIONALS;
}

/* "--name" or "NAME": how messages call the row. */
static const char *dashes(const struct kymo_option *row)
{
    return is_positional(row) ? "" : "--";
}

static int bad_value(const struct kymo_option *row, const char *text, const char *what, struct kymo_err *err)
{
    return kymo_err_set(err, -EINVAL, "%s%s: \"%s\" %s", dashes(row), row->name, text, what);
}

static uint64_t suffix_factor(const char *suffix)
{
    static const char letters[] = "KMGT";
    if (*suffix == '\0')
        return 1;
    const char *at = strchr(letters, *suffix);
    return at && suffix[1] == '\0' ? (uint64_t)1 << (10 * (at - letters + 1)) : 0;
}

static int parse_u64(const struct kymo_option *row, const char *text, uint64_t *ret, struct kymo_err *err)
{
    bool size = row->type == KYMO_OPTION_SIZE;
    int base = !size && !strncmp(text, "0x", 2) ? 16 : 10;
    char *end;
    errno = 0;
    uint64_t v = strtoull(text, &end, base);
    /* strtoull accepts signs and leading blanks, which are no numbers here. */
    if (text[0] < '0' || text[0] > '9' || errno != 0)
        return bad_value(row, text, "is not a number", err);
    uint64_t factor = size ? suffix_factor(end) : *end == '\0';
    if (factor == 0)
        return bad_value(row, text, size ? "is not a size such as 4096, 64K or 5G" : "is not a number", err);
    uint64_t max = row->max ? row->max : UINT64_MAX;
    if (__builtin_mul_overflow(v, factor, &v) || v < row->min || v > max)
        return kymo_err_set(err, -EINVAL, "--%s: %s is outside %llu to %llu", row->name, text,
                            (unsigned long long)row->min, (unsigned long long)max);
    *ret = v;
    return 0;
}

static int parse_double(const struct kymo_option *row, const char *text, double *ret, struct kymo_err *err)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(v))
        return bad_value(row, text, "is not a number", err);
    *ret = v;
    return 0;
}

static int parse_choice(const struct kymo_option *row, const char *text, int *ret, struct kymo_err *err)
{
    size_t n = strlen(text);
    int i = 0;
    for (const char *p = row->choices; p; i++) {
        const char *bar = strchr(p, '|');
        size_t len = bar ? (size_t)(bar - p) : strlen(p);
        if (len == n && !memcmp(p, text, n)) {
            *ret = i;
            return 0;
        }
        p = bar ? bar + 1 : NULL;
    }
    return kymo_err_set(err, -EINVAL, "--%s: \"%s\" is none of %s", row->name, text, row->choices);
}

static int parse_flag(const struct kymo_option *row, const char *text, bool *ret, struct kymo_err *err)
{
    if (strcmp(text, "true") && strcmp(text, "false"))
        return bad_value(row, text, "is neither true nor false", err);
    *ret = text[0] == 't';
    return 0;
}

static int append(const struct kymo_option *row, struct kymo_option_list *list, const char *text, struct kymo_err *err)
{
    size_t max = row->max && row->max < KYMO_OPTION_LIST_MAX ? (size_t)row->max : KYMO_OPTION_LIST_MAX;
    if (list->n >= max)
        return kymo_err_set(err, -EINVAL, "%s%s: more than %zu values", dashes(row), row->name, max);
    list->items[list->n++] = text;
    return 0;
}

int kymo_options_set(const struct kymo_option *row, const char *text, void *target, struct kymo_err *err)
{
    void *at = (char *)target + row->offset;
    int r = row->check ? row->check(text, err) : 0;
    if (r < 0) {
        kymo_err_prefix(err, "%s%s", dashes(row), row->name);
        return r;
    }
    switch (row->type) {
    case KYMO_OPTION_FLAG:
        return parse_flag(row, text, at, err);
    case KYMO_OPTION_U64:
    case KYMO_OPTION_SIZE:
        return parse_u64(row, text, at, err);
    case KYMO_OPTION_DOUBLE:
        return parse_double(row, text, at, err);
    case KYMO_OPTION_CHOICE:
        return parse_choice(row, text, at, err);
    case KYMO_OPTION_LIST:
    case KYMO_OPTION_POSITIONALS:
        return append(row, at, text, err);
    case KYMO_OPTION_TEXT:
    case KYMO_OPTION_POSITIONAL:
        *(const char **)at = text;
        return 0;
    }
    return bad_value(row, text, "has no known type", err);
}

static void set_empty(const struct kymo_option *row, void *target)
{
    void *at = (char *)target + row->offset;
    switch (row->type) {
    case KYMO_OPTION_FLAG:
        *(bool *)at = false;
        break;
    case KYMO_OPTION_U64:
    case KYMO_OPTION_SIZE:
        *(uint64_t *)at = 0;
        break;
    case KYMO_OPTION_DOUBLE:
        *(double *)at = 0;
        break;
    case KYMO_OPTION_CHOICE:
        *(int *)at = -1;
        break;
    case KYMO_OPTION_LIST:
    case KYMO_OPTION_POSITIONALS:
        ((struct kymo_option_list *)at)->n = 0;
        break;
    case KYMO_OPTION_TEXT:
    case KYMO_OPTION_POSITIONAL:
        *(const char **)at = NULL;
        break;
    }
}

static bool is_empty(const struct kymo_option *row, const void *target)
{
    const void *at = (const char *)target + row->offset;
    switch (row->type) {
    case KYMO_OPTION_LIST:
    case KYMO_OPTION_POSITIONALS:
        return ((const struct kymo_option_list *)at)->n == 0;
    case KYMO_OPTION_TEXT:
    case KYMO_OPTION_POSITIONAL:
        return *(const char *const *)at == NULL;
    case KYMO_OPTION_CHOICE:
        return *(const int *)at < 0;
    default:
        /* A number's zero may have been asked for. */
        return false;
    }
}

static const struct kymo_option *find_row(const struct kymo_options *spec, const char *arg, size_t n)
{
    for (const struct kymo_option *row = spec->rows; row->name; row++) {
        if (is_positional(row))
            continue;
        if (arg[1] == '-' ? !strncmp(row->name, arg + 2, n - 2) && row->name[n - 2] == '\0'
                          : n == 2 && row->letter == arg[1])
            return row;
    }
    return NULL;
}

static int set_positional(const struct kymo_options *spec, size_t nth, const char *text, void *target,
                          struct kymo_err *err)
{
    for (const struct kymo_option *row = spec->rows; row->name; row++) {
        if (!is_positional(row))
            continue;
        if (row->type == KYMO_OPTION_POSITIONALS || nth-- == 0)
            return kymo_options_set(row, text, target, err);
    }
    return kymo_err_set(err, -EINVAL, "\"%s\": unexpected argument", text);
}

static bool looks_like_option(const char *arg)
{
    return arg[0] == '-' && arg[1] != '\0';
}

/* Handles argv[i], an option; returns the index of the next argument. */
static int take_option(const struct kymo_options *spec, int argc, char *const *argv, int i, void *target,
                       struct kymo_err *err)
{
    const char *arg = argv[i++];
    const char *equals = arg[1] == '-' ? strchr(arg, '=') : NULL;
    size_t n = equals ? (size_t)(equals - arg) : strlen(arg);
    const struct kymo_option *row = find_row(spec, arg, n);
    if (!row)
        return kymo_err_set(err, -EINVAL, "%.*s: unknown option", n < NAME_SHOWN_MAX ? (int)n : NAME_SHOWN_MAX, arg);
    const char *value = equals ? equals + 1 : NULL;
    if (row->type == KYMO_OPTION_FLAG) {
        if (value)
            return kymo_err_set(err, -EINVAL, "--%s: takes no value", row->name);
        value = "true";
    } else if (!value && row->implied) {
        value = row->implied;
    } else if (!value) {
        if (i >= argc || !strncmp(argv[i], "--", 2))
            return kymo_err_set(err, -EINVAL, "--%s: needs a value", row->name);
        value = argv[i++];
    }
    int r = kymo_options_set(row, value, target, err);
    while (r == 0 && row->type == KYMO_OPTION_LIST && !equals && i < argc && !looks_like_option(argv[i]))
        r = kymo_options_set(row, argv[i++], target, err);
    return r < 0 ? r : i;
}

void kymo_options_defaults(const struct kymo_option *rows, void *target)
{
    for (const struct kymo_option *row = rows; row->name; row++) {
        set_empty(row, target);
        if (!row->def)
            continue;
        int r = kymo_options_set(row, row->def, target, NULL);
        assert(r == 0);
        (void)r;
    }
}

int kymo_options_required(const struct kymo_options *spec, const void *target, struct kymo_err *err)
{
    for (const struct kymo_option *row = spec->rows; row->name; row++)
        if (row->required && is_empty(row, target))
            return kymo_err_set(err, -EINVAL, "%s%s: is missing", dashes(row), row->name);
    return 0;
}

/* Lists that argv uses are emptied before, so that it replaces what a file has put there. */
static void empty_lists(const struct kymo_options *spec, int argc, char *const *argv, void *target)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        const char *equals = argv[i][0] == '-' && argv[i][1] == '-' ? strchr(argv[i], '=') : NULL;
        size_t n = equals ? (size_t)(equals - argv[i]) : strlen(argv[i]);
        const struct kymo_option *row = n >= 2 && argv[i][0] == '-' ? find_row(spec, argv[i], n) : NULL;
        if (row && row->type == KYMO_OPTION_LIST)
            set_empty(row, target);
    }
}

int kymo_options_apply(const struct kymo_options *spec, int argc, char *const *argv, void *target, struct kymo_err *err)
{
    empty_lists(spec, argc, argv, target);
    size_t positionals = 0;
    bool options = true;
    for (int i = 1; i < argc;) {
        if (options && !strcmp(argv[i], "--")) {
            options = false;
            i++;
        } else if (options && (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))) {
            return KYMO_OPTIONS_HELP;
        } else if (options && !strcmp(argv[i], "--version")) {
            return KYMO_OPTIONS_VERSION;
        } else if (options && looks_like_option(argv[i])) {
            i = take_option(spec, argc, argv, i, target, err);
            if (i < 0)
                return i;
        } else {
            int r = set_positional(spec, positionals++, argv[i++], target, err);
            if (r < 0)
                return r;
        }
    }
    return KYMO_OPTIONS_PARSED;
}

int kymo_options_parse(const struct kymo_options *spec, int argc, char *const *argv, void *target, struct kymo_err *err)
{
    kymo_options_defaults(spec->rows, target);
    int r = kymo_options_apply(spec, argc, argv, target, err);
    return r == KYMO_OPTIONS_PARSED ? kymo_options_required(spec, target, err) : r;
}

static const char *shown_arg(const struct kymo_option *row)
{
    if (row->type == KYMO_OPTION_CHOICE)
        return row->choices;
    return row->arg ? row->arg : "VALUE";
}

static void print_usage(const struct kymo_options *spec, FILE *out)
{
    (void)fprintf(out, "usage: %s [OPTIONS]", spec->program);
    for (const struct kymo_option *row = spec->rows; row->name; row++) {
        if (row->required && !is_positional(row))
            (void)fprintf(out, " --%s %s", row->name, shown_arg(row));
        if (is_positional(row))
            (void)fprintf(out, row->required ? " %s%s" : " [%s%s]", row->name,
                          row->type == KYMO_OPTION_POSITIONALS ? "..." : "");
    }
    (void)fprintf(out, "\n");
}

static void print_row(const struct kymo_option *row, FILE *out)
{
    char left[160];
    if (is_positional(row)) {
        (void)snprintf(left, sizeof left, "%s", row->name);
    } else {
        char letter[] = {'-', row->letter, ',', ' ', '\0'};
        const char *before = row->type == KYMO_OPTION_FLAG ? "" : row->implied ? "[=" : " ";
        (void)snprintf(left, sizeof left, "%s--%s%s%s%s%s", row->letter ? letter : "    ", row->name, before,
                       row->type == KYMO_OPTION_FLAG ? "" : shown_arg(row), row->implied ? "]" : "",
                       row->type == KYMO_OPTION_LIST ? "..." : "");
    }
    (void)fprintf(out, "  %-34s %s", left, row->help ? row->help : "");
    if (row->def)
        (void)fprintf(out, " (default %s)", row->def);
    (void)fprintf(out, "\n");
}

void kymo_options_help(const struct kymo_options *spec, FILE *out)
{
    print_usage(spec, out);
    if (spec->about)
        (void)fprintf(out, "\n%s\n", spec->about);
    (void)fprintf(out, "\n");
    for (const struct kymo_option *row = spec->rows; row->name; row++)
        print_row(row, out);
    (void)fprintf(out, "  %-34s %s\n  %-34s %s\n", "-h, --help", "this text", "    --version", "kymo's version");
}

int kymo_options_outcome(const struct kymo_options *spec, int outcome, const struct kymo_err *err)
{
    switch (outcome) {
    case KYMO_OPTIONS_PARSED:
        return -1;
    case KYMO_OPTIONS_HELP:
        kymo_options_help(spec, stdout);
        return 0;
    case KYMO_OPTIONS_VERSION:
        (void)printf("%s %s\n", spec->program, KYMO_VERSION);
        return 0;
    default:
        (void)fprintf(stderr, "%s: %s; see %s --help\n", spec->program, err->text, spec->program);
        return 2;
    }
}

int kymo_options_main(const struct kymo_options *spec, int argc, char *const *argv, void *target)
{
    struct kymo_err err = {0};
    return kymo_options_outcome(spec, kymo_options_parse(spec, argc, argv, target, &err), &err);
}
