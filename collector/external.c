#include "collector/external.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define WORD_MAX 4096
#define LIST_MAX 1024
#define VERSION_MAX 63

struct list {
    char **items;
    size_t n, cap;
};

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory for the external processor's arguments");
}

void external_strings_free(char ***list)
{
    for (char **p = *list; p && *p; p++)
        kymo_free(*p);
    kymo_free(*list);
    *list = NULL;
}

/* Takes over text; NULL is no memory. The list always ends with NULL. */
static int add(struct list *l, char *text, struct kymo_err *err)
{
    void *p = l->items;
    int r = text ? kymo_grow(&p, &l->cap, l->n + 2, LIST_MAX, sizeof *l->items) : -ENOMEM;
    l->items = p;
    if (r < 0) {
        kymo_free(text);
        return r == -ENOBUFS ? kymo_err_set(err, -E2BIG, "more than %d arguments", LIST_MAX) : no_memory(err);
    }
    l->items[l->n++] = text;
    l->items[l->n] = NULL;
    return 0;
}

/* Reads one word; the rest, NULL at the end. */
static const char *next_word(const char *p, char out[static WORD_MAX], bool *quoted)
{
    size_t n = 0;
    *quoted = false;
    p += strspn(p, " \t");
    if (!*p)
        return NULL;
    for (; *p && (*quoted || !strchr(" \t", *p)); p++) {
        if (*p == '"')
            *quoted = !*quoted;
        else if (n + 1 < WORD_MAX)
            out[n++] = *p;
    }
    out[n] = '\0';
    return p;
}

static int split(const struct external *x, struct list *words, struct kymo_err *err)
{
    char word[WORD_MAX];
    bool quoted = false;
    const char *p = x->command;
    if (strlen(p) >= WORD_MAX)
        return kymo_err_set(err, -EINVAL, "external processor: the command is longer than %d bytes", WORD_MAX - 1);
    while ((p = next_word(p, word, &quoted))) {
        if (quoted)
            return kymo_err_set(err, -EINVAL, "external processor: a quote is not closed: %s", x->command);
        if (words->n >= EXTERNAL_WORDS_MAX)
            return kymo_err_set(err, -EINVAL, "external processor: more than %d words", EXTERNAL_WORDS_MAX);
        int r = add(words, kymo_strdup(word), err);
        if (r < 0)
            return r;
    }
    return words->n ? 0 : kymo_err_set(err, -EINVAL, "external processor: the command is empty");
}

static const char *value_of(const struct external_job *job, const char *name, size_t n)
{
    const struct {
        const char *name, *value;
    } table[] = {
        {"{ntff}", job->ntff}, {"{output}", job->output},   {"{manifest}", job->manifest},
        {"{name}", job->name}, {"{capture}", job->capture}, {"{neff}", job->neff_count ? job->neffs[0] : ""},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].name) == n && !strncmp(table[i].name, name, n))
            return table[i].value;
    return NULL;
}

static int expand(const char *word, const struct external_job *job, struct list *out, struct kymo_err *err)
{
    struct {
        char text[WORD_MAX * 4];
        size_t n;
    } b = {.n = 0};
    while (*word) {
        const char *close = *word == '{' ? strchr(word, '}') : NULL;
        if (*word == '{' && !close && word[1] >= 'a' && word[1] <= 'z')
            return kymo_err_set(err, -EINVAL, "external processor: a placeholder is not closed: %.40s", word);
        size_t n = close ? (size_t)(close - word) + 1 : 1;
        const char *value = close ? value_of(job, word, n) : word;
        if (!value)
            return kymo_err_set(err, -EINVAL, "external processor: no placeholder %.*s", (int)(n < 40 ? n : 40), word);
        size_t len = close ? strlen(value) : 1;
        if (len >= sizeof b.text - b.n)
            return kymo_err_set(err, -E2BIG, "external processor: an argument is too long");
        memcpy(b.text + b.n, value, len);
        b.n += len;
        word += n;
    }
    b.text[b.n] = '\0';
    return add(out, kymo_strdup(b.text), err);
}

static int expand_all(const struct list *words, const struct external_job *job, struct list *out, struct kymo_err *err)
{
    for (size_t i = 0; i < words->n; i++) {
        int r = 0;
        if (strcmp(words->items[i], "{neffs}") != 0)
            r = expand(words->items[i], job, out, err);
        else
            for (size_t k = 0; r == 0 && k < job->neff_count; k++)
                r = add(out, kymo_strdup(job->neffs[k]), err);
        if (r < 0)
            return r;
    }
    return 0;
}

int external_argv(const struct external *x, const struct external_job *job, char ***ret, struct kymo_err *err)
{
    struct list words = {0}, out = {0};
    int r = split(x, &words, err);
    if (r == 0)
        r = expand_all(&words, job, &out, err);
    external_strings_free(&words.items);
    if (r < 0)
        external_strings_free(&out.items);
    else
        *ret = out.items;
    return r;
}

static bool is_in_path(const char *name)
{
    char path[PATH_MAX];
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t n = strcspn(at, ":");
        if (snprintf(path, sizeof path, "%.*s/%s", (int)n, at, name) < (int)sizeof path && access(path, X_OK) == 0)
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

static int check_program(const char *name, struct kymo_err *err)
{
    if (*name == '/' && access(name, X_OK) < 0)
        return kymo_err_set(err, -EINVAL, "external processor: %s: %s", name, strerror(errno));
    /* Its working directory is another one than ours. */
    if (*name != '/' && strchr(name, '/'))
        return kymo_err_set(err, -EINVAL, "external processor: %s: not an absolute path", name);
    if (*name != '/' && !is_in_path(name))
        return kymo_err_set(err, -EINVAL, "external processor: %s: there is no such program in PATH", name);
    return 0;
}

int external_check(const struct external *x, struct kymo_err *err)
{
    static const struct external_job none = {
        .name = "", .capture = "", .ntff = "", .manifest = "", .output = "", .neffs = NULL};
    char **argv = NULL;
    int r = external_argv(x, &none, &argv, err);
    if (r == 0 && (!argv || !argv[0]))
        r = kymo_err_set(err, -EINVAL, "external processor: no program");
    else if (r == 0)
        r = check_program(argv[0], err);
    external_strings_free(&argv);
    return r;
}

void external_name(const struct external *x, char *out, size_t n)
{
    char word[WORD_MAX];
    bool quoted;
    if (!next_word(x->command, word, &quoted))
        word[0] = '\0';
    const char *slash = strrchr(word, '/');
    (void)snprintf(out, n, "%.*s", (int)(n - 1), slash ? slash + 1 : word);
}

int external_env(const struct external_job *job, const char *directory, char ***ret, struct kymo_err *err)
{
    const char *path = getenv("PATH");
    const char *const table[][2] = {
        {"PATH", path ? path : "/usr/local/bin:/usr/bin:/bin"},
        {"HOME", directory},
        {"TMPDIR", directory},
        {"LANG", "C.UTF-8"},
        {"KYMO_PROFILE", job->name},
        {"KYMO_CAPTURE", job->capture},
        {"KYMO_NTFF", job->ntff},
        {"KYMO_NEFF", job->neff_count ? job->neffs[0] : ""},
        {"KYMO_MANIFEST", job->manifest},
        {"KYMO_OUTPUT", job->output},
        {"KYMO_PROGRESS_FD", "3"},
    };
    struct list out = {0};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        int r = add(&out, kymo_asprintf("%s=%s", table[i][0], table[i][1]), err);
        if (r < 0) {
            external_strings_free(&out.items);
            return r;
        }
    }
    *ret = out.items;
    return 0;
}

void external_schema_version(const struct external *x, const char *output, char *out, size_t n)
{
    uint8_t *text KYMO_FREE = NULL;
    size_t size;
    char *path KYMO_FREE = kymo_asprintf("%s/schema_version", output);
    if (path && kymo_file_read_all(path, VERSION_MAX, &text, &size, NULL) == 0) {
        size_t len = strspn((char *)text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
        if (len) {
            (void)snprintf(out, n, "%.*s", (int)len, (char *)text);
            return;
        }
    }
    (void)snprintf(out, n, "%s", x->schema_version ? x->schema_version : "unknown");
}
