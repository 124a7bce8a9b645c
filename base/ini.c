#include "base/ini.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <ini.h>

#include "base/alloc.h"
#include "base/file.h"

#define LINE_BUFFER (KYMO_INI_LINE_MAX + 4) /* the library wants room for line ends and a NUL */
#define TEXTS_MAX 8192u

struct kymo_ini {
    char **texts;
    size_t n, cap;
};

struct reader {
    const struct kymo_ini_spec *spec;
    const char *file;
    const char *at, *end;
    unsigned line;
    void *target;

    struct kymo_ini *ini;
    const struct kymo_option *rows; /* of the section that we are in */
    void *section_target;
    bool seen[KYMO_INI_ROWS_MAX];
    const char *sections[KYMO_INI_SECTIONS_MAX]; /* all that began */
    size_t nsections;

    int code; /* of the first error, after which nothing is read */
    struct kymo_err *err;
};

struct kymo_ini *kymo_ini_free(struct kymo_ini *ini)
{
    if (!ini)
        return NULL;
    for (size_t i = 0; i < ini->n; i++)
        kymo_free(ini->texts[i]);
    kymo_free(ini->texts);
    kymo_free(ini);
    return NULL;
}

static const char *keep(struct kymo_ini *ini, const char *text)
{
    if (kymo_grow((void **)&ini->texts, &ini->cap, ini->n + 1, TEXTS_MAX, sizeof *ini->texts) < 0)
        return NULL;
    char *copy = kymo_strdup(text);
    if (copy)
        ini->texts[ini->n++] = copy;
    return copy;
}

static int fail(struct reader *r, int code, const char *what)
{
    if (r->code == 0)
        r->code = kymo_err_set(r->err, code, "%s:%u: %s", r->file, r->line, what);
    return 0; /* what the library takes for an error */
}

static int fail_key(struct reader *r, const char *name, const char *what)
{
    char text[KYMO_INI_LINE_MAX];
    (void)snprintf(text, sizeof text, "%.64s: %s", name, what);
    return fail(r, -EINVAL, text);
}

/* Messages of the option table speak of the command line. */
static int fail_option(struct reader *r, int code, const struct kymo_err *err)
{
    return fail(r, code, err->text + (strncmp(err->text, "--", 2) ? 0 : 2));
}

static bool is_settable(const struct reader *r, const struct kymo_option *row)
{
    bool top = r->section_target == r->target;
    return row->type != KYMO_OPTION_POSITIONAL && row->type != KYMO_OPTION_POSITIONALS &&
           !(top && !strcmp(row->name, "config"));
}

static int set_key(struct reader *r, const char *name, const char *value)
{
    size_t i = 0;
    while (r->rows[i].name && (strcmp(r->rows[i].name, name) || !is_settable(r, &r->rows[i])))
        i++;
    const struct kymo_option *row = &r->rows[i];
    if (!row->name)
        return fail_key(r, name, "no such key here");
    assert(i < KYMO_INI_ROWS_MAX);
    if (r->seen[i] && row->type != KYMO_OPTION_LIST)
        return fail_key(r, name, "this key stood here before");
    r->seen[i] = true;
    const char *text = keep(r->ini, value);
    if (!text)
        return fail(r, -ENOMEM, "no memory for the value");
    struct kymo_err why = {0};
    int code = kymo_options_set(row, text, r->section_target, &why);
    return code < 0 ? fail_option(r, code, &why) : 1;
}

static const struct kymo_ini_section *find_kind(const struct reader *r, const char *kind, size_t n)
{
    for (const struct kymo_ini_section *s = r->spec->sections; s && s->kind; s++)
        if (strlen(s->kind) == n && !memcmp(s->kind, kind, n))
            return s;
    return NULL;
}

static bool began_before(const struct reader *r, const char *section)
{
    for (size_t i = 0; i < r->nsections; i++)
        if (!strcmp(r->sections[i], section))
            return true;
    return false;
}

/* text: what stands between the brackets, without blanks around it. */
static void begin_section(struct reader *r, const char *text)
{
    size_t n = strcspn(text, " \t");
    const struct kymo_ini_section *s = find_kind(r, text, n);
    struct kymo_err why = {0};
    if (!s)
        return (void)fail(r, -EINVAL, "no such section");
    if (began_before(r, text))
        return (void)fail(r, -EINVAL, "this section stood here before");
    if (r->nsections == KYMO_INI_SECTIONS_MAX)
        return (void)fail(r, -EINVAL, "too many sections");
    const char *kept = keep(r->ini, text);
    if (!kept)
        return (void)fail(r, -ENOMEM, "no memory for the section");
    r->sections[r->nsections++] = kept;
    void *target = s->begin(r->target, kept + n + strspn(kept + n, " \t"), &why);
    if (!target)
        return (void)fail(r, -EINVAL, why.text);
    r->rows = s->rows;
    r->section_target = target;
    memset(r->seen, 0, sizeof r->seen);
}

static size_t trim(const char **line, size_t n)
{
    while (n > 0 && strchr(" \t", **line)) {
        (*line)++;
        n--;
    }
    while (n > 0 && strchr(" \t\r", (*line)[n - 1]))
        n--;
    return n;
}

static void take_section_line(struct reader *r, const char *line, size_t n)
{
    char name[KYMO_INI_NAME_MAX + 1];
    const char *close = memchr(line, ']', n);
    if (!close)
        return (void)fail(r, -EINVAL, "a section without its closing bracket");
    const char *tail = close + 1;
    size_t ntail = trim(&tail, n - (size_t)(tail - line));
    if (ntail > 0 && *tail != ';' && *tail != '#')
        return (void)fail(r, -EINVAL, "something behind the section's closing bracket");
    const char *inner = line + 1;
    size_t ninner = trim(&inner, (size_t)(close - inner));
    if (ninner >= sizeof name)
        return (void)fail(r, -EINVAL, "the section's name is too long");
    memcpy(name, inner, ninner);
    name[ninner] = '\0';
    begin_section(r, name);
}

static bool is_text(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < ' ' && line[i] != '\t' && !(line[i] == '\r' && i + 1 == n))
            return false;
    return true;
}

/*
 * The library asks for the next line here. Lines come without the blanks in front, which would continue the line
 * before; sections are ours, since the library cuts their names silently.
 */
static char *next_line(char *buffer, int size, void *stream)
{
    struct reader *r = stream;
    if (r->code < 0 || r->at == r->end)
        return NULL;
    r->line++;
    const char *line = r->at, *newline = memchr(line, '\n', (size_t)(r->end - line));
    size_t n = (size_t)((newline ? newline : r->end) - line);
    r->at = newline ? newline + 1 : r->end;
    if (r->line == 1 && n >= 3 && !memcmp(line, "\xef\xbb\xbf", 3)) {
        line += 3;
        n -= 3;
    }
    if (n > KYMO_INI_LINE_MAX || n + 2 > (size_t)size)
        return (void)fail(r, -EINVAL, "the line is too long"), NULL;
    if (!is_text(line, n))
        return (void)fail(r, -EINVAL, "a control character"), NULL;
    n = trim(&line, n);
    if (n > 0 && *line == '[') {
        take_section_line(r, line, n);
        n = 0;
    }
    memcpy(buffer, line, n);
    memcpy(buffer + n, "\n", 2);
    return r->code < 0 ? NULL : buffer;
}

static int handle(void *user, const char *section, const char *name, const char *value)
{
    struct reader *r = user;
    (void)section;
    return r->code < 0 ? 0 : set_key(r, name, value ? value : "");
}

/* A line that is neither key nor comment, as the library counts: it saw every line that we did. */
static int finish(struct reader *r, int line)
{
    if (r->code == 0 && line > 0) {
        r->line = (unsigned)line;
        (void)fail(r, -EINVAL, "neither \"key = value\" nor a section nor a comment");
    } else if (r->code == 0 && line < 0) {
        (void)fail(r, -ENOMEM, "no memory for a line");
    }
    return r->code;
}

int kymo_ini_read(const struct kymo_ini_spec *spec, const char *file, const void *data, size_t n, void *target,
                  struct kymo_ini **ret, struct kymo_err *err)
{
    struct reader r = {.spec = spec,
                       .file = file,
                       .at = data,
                       .end = (const char *)data + n,
                       .target = target,
                       .rows = spec->options->rows,
                       .section_target = target,
                       .err = err};
    if (n > KYMO_INI_FILE_MAX)
        return kymo_err_set(err, -EFBIG, "%s: larger than %u bytes", file, KYMO_INI_FILE_MAX);
    r.ini = KYMO_NEW(struct kymo_ini);
    if (!r.ini)
        return kymo_err_set(err, -ENOMEM, "%s: no memory", file);
    /* On the heap its lines are as long as the first allocation, on the stack 200 bytes. */
    ini_use_stack = false;
    ini_allow_realloc = false;
    ini_initial_alloc = LINE_BUFFER;
    ini_allow_multiline = false;
    ini_stop_on_first_error = true;
    int code = finish(&r, n > 0 ? ini_parse_stream(next_line, &r, handle, &r) : 0);
    if (code < 0) {
        (void)kymo_ini_free(r.ini);
        return code;
    }
    *ret = r.ini;
    return 0;
}

static int read_file(const struct kymo_ini_spec *spec, const char *path, void *target, struct kymo_ini **ret,
                     struct kymo_err *err)
{
    uint8_t *data KYMO_FREE = NULL;
    size_t n = 0;
    if (!path) {
        *ret = KYMO_NEW(struct kymo_ini);
        return *ret ? 0 : kymo_err_set(err, -ENOMEM, "no memory for the configuration");
    }
    int r = kymo_file_read_all(path, KYMO_INI_FILE_MAX, &data, &n, err);
    return r < 0 ? r : kymo_ini_read(spec, path, data, n, target, ret, err);
}

static const char *config_path(const struct kymo_options *options, const void *target)
{
    for (const struct kymo_option *row = options->rows; row->name; row++)
        if (!strcmp(row->name, "config") && row->type == KYMO_OPTION_TEXT)
            return *(const char *const *)((const char *)target + row->offset);
    return NULL;
}

int kymo_ini_load(const struct kymo_ini_spec *spec, int argc, char *const *argv, void *target, struct kymo_ini **ret,
                  struct kymo_err *err)
{
    const struct kymo_options *options = spec->options;
    struct kymo_ini *ini = NULL;
    kymo_options_defaults(options->rows, target);
    int r = kymo_options_apply(options, argc, argv, target, err);
    if (r != KYMO_OPTIONS_PARSED)
        return r;
    const char *path = config_path(options, target);
    kymo_options_defaults(options->rows, target);
    r = read_file(spec, path, target, &ini, err);
    if (r < 0)
        return r;
    r = kymo_options_apply(options, argc, argv, target, err);
    if (r == KYMO_OPTIONS_PARSED)
        r = kymo_options_required(options, target, err);
    if (r < 0)
        ini = kymo_ini_free(ini);
    *ret = ini;
    return r;
}

int kymo_ini_main(const struct kymo_ini_spec *spec, int argc, char *const *argv, void *target, struct kymo_ini **ret)
{
    struct kymo_err err = {0};
    return kymo_options_outcome(spec->options, kymo_ini_load(spec, argc, argv, target, ret, &err), &err);
}
