#include "tools/hook_dropin.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"

#define MARK "# Written by kymo enable; kymo disable takes it out. Changes are lost.\n"
#define THROUGH "# through: "
#define MADE "# made: "
#define LIBRARY "libkymo-hook.so"
#define SEPARATORS ": \t\n"
#define MADE_MAX 16u

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

bool hook_dropin_path_ok(const char *path)
{
    size_t n = strlen(path);
    return path[0] == '/' && n < HOOK_DROPIN_PATH_MAX && strspn(path, LETTERS "._/+-") == n;
}

bool hook_dropin_unit_ok(const char *name, const char *suffix)
{
    size_t n = strlen(name), k = strlen(suffix);
    return n > k && n <= HOOK_DROPIN_UNIT_MAX && strspn(name, LETTERS ":_.\\@-") == n && name[0] != '.' &&
           name[0] != '@' && strcmp(name + n - k, suffix) == 0;
}

/* ---- LD_PRELOAD ---- */

static bool is_hook(const char *entry, size_t n)
{
    size_t k = sizeof LIBRARY - 1;
    return n >= k && memcmp(entry + n - k, LIBRARY, k) == 0 && (n == k || entry[n - k - 1] == '/');
}

int hook_dropin_preload_without(const char *list, struct kymo_buf *ret, struct kymo_err *err)
{
    int r = 0;
    for (list += strspn(list, SEPARATORS); *list && r == 0; list += strspn(list, SEPARATORS)) {
        size_t n = strcspn(list, SEPARATORS);
        if (!is_hook(list, n) && n < HOOK_DROPIN_PATH_MAX)
            r = kymo_buf_printf(ret, "%s%.*s", ret->len ? ":" : "", (int)n, list);
        list += n;
    }
    if (r == 0)
        r = kymo_buf_append(ret, "", 1);
    return r < 0 ? kymo_err_set(err, r, "LD_PRELOAD of the unit is too long") : 0;
}

bool hook_dropin_preload_has(const char *list, const char *hook)
{
    size_t k = strlen(hook);
    for (list += strspn(list, SEPARATORS); *list; list += strspn(list, SEPARATORS)) {
        size_t n = strcspn(list, SEPARATORS);
        if (n == k && memcmp(list, hook, n) == 0)
            return true;
        list += n;
    }
    return false;
}

/* ---- text ---- */

/* Within double quotes of a unit file, where % begins a specifier. */
static int put_quoted(struct kymo_buf *out, const char *text)
{
    int r = 0;
    for (; *text && r == 0; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return -EINVAL;
        if (*text == '%')
            r = kymo_buf_append(out, "%%", 2);
        else if (*text == '"' || *text == '\\')
            r = kymo_buf_printf(out, "\\%c", *text);
        else
            r = kymo_buf_append(out, text, 1);
    }
    return r;
}

static int render(const struct hook_dropin *d, unsigned made, struct kymo_buf *out, struct kymo_err *err)
{
    int r = kymo_buf_printf(out, MARK);
    if (r == 0 && d->through)
        r = kymo_buf_printf(out, THROUGH "%s\n", d->through);
    if (r == 0 && made)
        r = kymo_buf_printf(out, MADE "%u\n", made);
    if (r == 0)
        r = kymo_buf_printf(out, "[Service]\nEnvironment=\"LD_PRELOAD=");
    if (r == 0)
        r = put_quoted(out, d->preload);
    if (r == 0)
        r = kymo_buf_printf(out, "%s%s\"\n", *d->preload ? ":" : "", d->hook);
    if (r == 0 && d->socket)
        r = kymo_buf_printf(out, "Environment=\"KYMO_SOCKET=%s\"\n", d->socket);
    return r < 0 ? kymo_err_set(err, r, "the unit's LD_PRELOAD cannot be repeated in a drop-in: %s", strerror(-r)) : 0;
}

/* The value of a comment line of the head; NULL: there is none. n becomes its length. */
static const char *find_note(const char *text, const char *key, size_t *n)
{
    while (*text == '#') {
        size_t len = strcspn(text, "\n"), k = strlen(key);
        if (strncmp(text, key, k) == 0) {
            *n = len - k;
            return text + k;
        }
        text += len + (text[len] == '\n');
    }
    return NULL;
}

static unsigned read_made(const char *text)
{
    size_t n;
    const char *note = find_note(text, MADE, &n);
    unsigned long made = note && n <= 2 ? strtoul(note, NULL, 10) : 0;
    return made <= MADE_MAX ? (unsigned)made : 0;
}

/* ---- files ---- */

static char *path_of(const char *dir, const char *unit)
{
    return kymo_asprintf("%s/%s.d/" HOOK_DROPIN_FILE, dir, unit);
}

/* 1: it is there and ours, its text in *ret; 0: there is none. */
static int read_ours(const char *path, struct kymo_buf *ret, struct kymo_err *err)
{
    uint8_t *data KYMO_FREE = NULL;
    size_t n;
    struct kymo_err why = {0};
    int r = kymo_file_read_all(path, HOOK_DROPIN_BYTES_MAX, &data, &n, &why);
    if (r == -ENOENT || r == -ENOTDIR)
        return 0;
    if (r < 0 && r != -EFBIG)
        return kymo_err_set(err, r, "%s", why.text);
    if (r < 0 || n < sizeof MARK - 1 || memcmp(data, MARK, sizeof MARK - 1) != 0)
        return kymo_err_set(err, -EEXIST, "%s: is not of kymo's making", path);
    r = kymo_buf_append(ret, data, n + 1);
    return r < 0 ? kymo_err_set(err, r, "%s: %s", path, strerror(-r)) : 1;
}

/* Directories of path that are missing now; MADE_MAX at most. */
static unsigned count_missing(const char *path)
{
    unsigned missing = 0;
    char *at KYMO_FREE = kymo_strdup(path);
    struct stat st;
    for (char *slash = at ? strrchr(at, '/') : NULL; slash && slash != at && missing < MADE_MAX;
         slash = strrchr(at, '/')) {
        *slash = '\0';
        if (lstat(at, &st) == 0)
            break;
        missing++;
    }
    return missing;
}

/* Removes up to n directories above path, from the innermost on, as far as they are empty. */
static void remove_made(const char *path, unsigned n)
{
    char *at KYMO_FREE = kymo_strdup(path);
    for (char *slash = at ? strrchr(at, '/') : NULL; slash && slash != at && n > 0; slash = strrchr(at, '/'), n--) {
        *slash = '\0';
        if (kymo_file_ops()->rmdir(at) < 0 && errno != ENOENT)
            return;
    }
}

static int make_parent(const char *path, struct kymo_err *err)
{
    char *parent KYMO_FREE = kymo_strdup(path);
    char *slash = parent ? strrchr(parent, '/') : NULL;
    if (!slash)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    *slash = '\0';
    return kymo_file_mkdirs(parent, err);
}

void hook_dropin_done(struct hook_dropin_change *c)
{
    kymo_free(c->path);
    kymo_buf_done(&c->old);
    memset(c, 0, sizeof *c);
}

int hook_dropin_write(const char *dir, const char *unit, const struct hook_dropin *d, struct hook_dropin_change *ret,
                      struct kymo_err *err)
{
    struct kymo_buf text KYMO_CLEANUP(kymo_buf_done);
    struct hook_dropin_change c = {.path = path_of(dir, unit)};
    kymo_buf_init(&text, HOOK_DROPIN_BYTES_MAX);
    kymo_buf_init(&c.old, HOOK_DROPIN_BYTES_MAX + 1);
    int r = c.path ? read_ours(c.path, &c.old, err) : kymo_err_set(err, -ENOMEM, "out of memory");
    if (r < 0)
        goto fail;
    c.existed = r == 1;
    c.made = count_missing(c.path);
    r = render(d, c.existed ? read_made((const char *)c.old.data) : c.made, &text, err);
    if (r < 0)
        goto fail;
    c.changed = !c.existed || c.old.len != text.len + 1 || memcmp(c.old.data, text.data, text.len) != 0;
    if (c.changed) {
        r = make_parent(c.path, err);
        if (r == 0)
            r = kymo_file_write_atomic(c.path, text.data, text.len, err);
    }
    if (r == 0) {
        *ret = c;
        return 0;
    }
    if (hook_dropin_undo(&c, NULL) < 0)
        kymo_err_prefix(err, "%s may be left behind", c.path);
fail:
    hook_dropin_done(&c);
    return r;
}

int hook_dropin_undo(struct hook_dropin_change *c, struct kymo_err *err)
{
    int r = 0;
    if (!c->path || !c->changed)
        return 0;
    if (c->existed) {
        r = kymo_file_write_atomic(c->path, c->old.data, c->old.len - 1, err);
    } else if (kymo_file_ops()->unlink(c->path) < 0 && errno != ENOENT) {
        r = kymo_err_set(err, -errno, "%s: cannot be removed: %s", c->path, strerror(errno));
    } else {
        remove_made(c->path, c->made);
    }
    if (r == 0)
        c->changed = false;
    return r;
}

int hook_dropin_remove(const char *dir, const char *unit, struct kymo_err *err)
{
    struct kymo_buf text KYMO_CLEANUP(kymo_buf_done);
    char *path KYMO_FREE = path_of(dir, unit);
    kymo_buf_init(&text, HOOK_DROPIN_BYTES_MAX + 1);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    int r = read_ours(path, &text, err);
    if (r <= 0)
        return r;
    if (kymo_file_ops()->unlink(path) < 0)
        return kymo_err_set(err, -errno, "%s: cannot be removed: %s", path, strerror(errno));
    remove_made(path, read_made((const char *)text.data));
    return 1;
}

/* One entry of a directory of units: "NAME.d" that holds a drop-in of ours. */
static int look_at_entry(const char *dir, const char *entry, int (*each)(void *, const char *, const char *), void *ctx)
{
    char unit[HOOK_DROPIN_UNIT_MAX + 1], through[HOOK_DROPIN_UNIT_MAX + 1] = "";
    size_t n = strlen(entry);
    if (n < 3 || n - 2 >= sizeof unit || strcmp(entry + n - 2, ".d") != 0)
        return 0;
    memcpy(unit, entry, n - 2);
    unit[n - 2] = '\0';
    if (!hook_dropin_unit_ok(unit, ".service"))
        return 0;
    char *path KYMO_FREE = path_of(dir, unit);
    struct kymo_buf text KYMO_CLEANUP(kymo_buf_done);
    kymo_buf_init(&text, HOOK_DROPIN_BYTES_MAX + 1);
    /* What cannot be read or is not ours is none of ours. */
    if (!path || read_ours(path, &text, NULL) != 1)
        return 0;
    const char *note = find_note((const char *)text.data, THROUGH, &n);
    if (note && n < sizeof through) {
        memcpy(through, note, n);
        through[n] = '\0';
    }
    return each(ctx, unit, through);
}

static void close_dirp(DIR **d)
{
    if (*d)
        (void)closedir(*d);
}

int hook_dropin_each(const char *dir, int (*each)(void *ctx, const char *unit, const char *through), void *ctx,
                     struct kymo_err *err)
{
    DIR *d KYMO_CLEANUP(close_dirp) = opendir(dir);
    if (!d)
        return errno == ENOENT ? 0 : kymo_err_set(err, -errno, "%s: %s", dir, strerror(errno));
    int r = 0;
    const struct dirent *e;
    for (size_t seen = 0; r == 0 && (e = readdir(d)) != NULL; seen++) {
        if (seen == 16 * HOOK_DROPIN_LISTED_MAX)
            return kymo_err_set(err, -E2BIG, "%s: too many files", dir);
        r = look_at_entry(dir, e->d_name, each, ctx);
    }
    return r;
}
