#include "daemon/intake.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "daemon/hook_packet.h"
#include "daemon/purge.h"
#include "proto/manifest_check.h"

#define ENTRIES_MAX 65536 /* of one directory that are looked at */
#define PROCESSES_MAX 4096
#define MEASURE_DEPTH_MAX (INTAKE_DEPTH_MAX + 3) /* a process's directory, the capture, "files" */
#define NS_PER_S 1000000000ull
#define GONE ".gone"  /* taken in order to be removed */
#define FILES "files" /* of a taken capture */
#define KNOWN "manifest.pb"

void intake_key(pid_t pid, uint64_t start, char ret[static INTAKE_KEY_MAX])
{
    (void)snprintf(ret, INTAKE_KEY_MAX, "%d-%llu", (int)pid, (unsigned long long)start);
}

static int path_of(char out[static INTAKE_PATH_MAX], const char *intake, const char *key, const char *suffix,
                   const char *name)
{
    int n = snprintf(out, INTAKE_PATH_MAX, "%s/%s%s%s%s", intake, key, suffix, *name ? "/" : "", name);
    return n > 0 && n < INTAKE_PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int open_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return fd;
}

int intake_open(const char *intake, struct kymo_err *err)
{
    int r = kymo_file_mkdirs(intake, err);
    if (r < 0)
        return r;
    /* Its directories may be writable for others, who get them as descriptors alone. */
    return chmod(intake, 0700) < 0 ? kymo_err_set(err, -errno, "%s: %s", intake, strerror(errno)) : 0;
}

int intake_make(const char *intake, const char *key, uid_t uid, gid_t gid, struct kymo_err *err)
{
    char path[INTAKE_PATH_MAX];
    if (path_of(path, intake, key, ".d", "") < 0)
        return kymo_err_set(err, -ENAMETOOLONG, "%s: too long", intake);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return kymo_err_set(err, -errno, "%s: %s", path, strerror(errno));
    int fd = open_dir(path);
    if (fd < 0)
        return kymo_err_set(err, fd, "%s: %s", path, strerror(-fd));
    if (uid == geteuid() || fchown(fd, uid, gid) == 0)
        return fd;
    int r = kymo_err_set(err, -EPERM, "jobs of user %u: %s", (unsigned)uid, strerror(errno));
    (void)kymo_file_close(fd);
    (void)rmdir(path);
    return r;
}

/* What stays is found again by the next start. */
static void remove_dir(const char *path)
{
    purge_entry(AT_FDCWD, path);
}

/* Reads on in a directory; NULL at its end. "." and ".." are left out. */
static const struct dirent *next_entry(DIR *dir, unsigned *n)
{
    const struct dirent *e;
    while ((*n)++ < ENTRIES_MAX && (e = readdir(dir)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            return e;
    return NULL;
}

static DIR *list_dir(int fd)
{
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        (void)kymo_file_close(fd);
    return dir;
}

/* Names of files */

static const char *number(const char *p, uint64_t *ret)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(p, &end, 10);
    if (*p < '0' || *p > '9' || errno)
        return NULL;
    *ret = v;
    return end;
}

/* The number behind "_vnc_" or "_nc_", wherever it stands. */
static bool find_vnc(const char *base, uint32_t *ret)
{
    static const char *const marks[] = {"_vnc_", "_nc_"};
    uint64_t v;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *at = strstr(base, marks[i]);
        if (at && number(at + strlen(marks[i]), &v) && v < UINT32_MAX) {
            *ret = (uint32_t)v;
            return true;
        }
    }
    return false;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

void intake_classify(const char *base, struct intake_file *f)
{
    static const struct {
        const char *end;
        Kymo__Manifest__File__Kind type;
    } kinds[] = {{".ntff", KYMO__MANIFEST__FILE__KIND__NTFF},
                 {".neff", KYMO__MANIFEST__FILE__KIND__NEFF},
                 {"ntrace.pb", KYMO__MANIFEST__FILE__KIND__NTRACE},
                 {"trace_info.pb", KYMO__MANIFEST__FILE__KIND__TRACE_INFO},
                 {"cpu_util.pb", KYMO__MANIFEST__FILE__KIND__CPU_UTIL},
                 {"host_mem.pb", KYMO__MANIFEST__FILE__KIND__HOST_MEM},
                 {"trace.json", KYMO__MANIFEST__FILE__KIND__FRAMEWORK_TRACE}};
    f->type = KYMO__MANIFEST__FILE__KIND__OTHER;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (ends_with(base, kinds[i].end))
            f->type = kinds[i].type;
    f->has_vnc = find_vnc(base, &f->vnc);
    const char *first = strncmp(base, "neff_", 5) ? base : base + 5;
    if (!number(first, &f->pair))
        f->pair = 0;
}

/* Listing */

struct listing {
    struct intake_capture *c;
    uid_t uid;
};

/* Holes count as well: somebody would have to read them. */
static uint64_t bytes_of(const struct stat *st)
{
    uint64_t size = (uint64_t)st->st_size, blocks = (uint64_t)st->st_blocks * 512;
    return size > blocks ? size : blocks;
}

static uint64_t ns_of(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_nsec;
}

static void add_file(struct listing *l, const char *relative, const struct stat *st)
{
    struct intake_capture *c = l->c;
    struct intake_file *f = &c->files[c->nfiles];
    const char *slash = strrchr(relative, '/');
    char path[INTAKE_PATH_MAX];
    int n;
    if (c->nfiles == INTAKE_FILES_MAX || !S_ISREG(st->st_mode) || (st->st_uid != l->uid && st->st_uid != geteuid())) {
        c->nleft_out++;
        return;
    }
    *f = (struct intake_file){.size = (uint64_t)st->st_size};
    n = snprintf(path, sizeof path, "%s/" FILES "/%s", c->directory, relative);
    if (n < 0 || (size_t)n >= sizeof path || strlen(relative) > INTAKE_NAME_MAX) {
        c->nleft_out++;
        return;
    }
    memcpy(f->path, path, (size_t)n + 1);
    (void)snprintf(f->name, sizeof f->name, "%s", relative);
    for (char *p = f->name; *p; p++)
        if (*p == '/' || !(*p > ' ' && *p < 0x7f))
            *p = '-';
    if (f->name[0] == '.')
        f->name[0] = '_';
    intake_classify(slash ? slash + 1 : relative, f);
    uint64_t changed = ns_of(&st->st_mtim);
    c->start_unix_ns = c->start_unix_ns && c->start_unix_ns < changed ? c->start_unix_ns : changed;
    c->end_unix_ns = c->end_unix_ns > changed ? c->end_unix_ns : changed;
    c->nfiles++;
}

static void add_entry(struct listing *l, const char *relative, const struct stat *st)
{
    l->c->bytes += bytes_of(st);
    add_file(l, relative, st);
}

/* Copies of NEFFs are known by their hashes; those that cannot be had are left out. */
static void hash_neffs(struct intake_capture *c)
{
    uint64_t bytes = 0;
    size_t n = 0;
    for (size_t i = 0; i < c->nfiles; i++) {
        struct intake_file *f = &c->files[i];
        if (f->type == KYMO__MANIFEST__FILE__KIND__NEFF) {
            bytes += f->size;
            if (f->size > INTAKE_NEFF_BYTES_MAX || bytes > INTAKE_NEFF_BYTES_MAX ||
                kymo_hash_sha256_file(f->path, f->sha256, NULL) < 0) {
                c->nleft_out++;
                continue;
            }
        }
        if (n < i)
            c->files[n] = *f;
        n++;
    }
    c->nfiles = n;
}

/* Takes fd. relative: the folder's path below the capture, "" for itself. */
static void walk(struct listing *l, int fd, const char *relative, unsigned depth)
{
    int locked = purge_lock(fd);
    DIR *dir = list_dir(fd);
    const struct dirent *e;
    unsigned n = 0;
    if (locked < 0 || !dir) {
        l->c->nleft_out++;
        if (dir)
            (void)closedir(dir);
        return;
    }
    while (l->c->nentries <= INTAKE_ENTRIES_MAX && (e = next_entry(dir, &n))) {
        char below[INTAKE_PATH_MAX];
        struct stat st;
        l->c->nentries++;
        int len = snprintf(below, sizeof below, "%s%s%s", relative, *relative ? "/" : "", e->d_name);
        bool is_name = len > 0 && (size_t)len < sizeof below;
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || (!S_ISDIR(st.st_mode) && !is_name)) {
            l->c->nleft_out++;
        } else if (!S_ISDIR(st.st_mode)) {
            add_entry(l, below, &st);
        } else if (is_name && depth < INTAKE_DEPTH_MAX) {
            walk(l, openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), below, depth + 1);
        } else {
            l->c->nleft_out++;
            purge_entry(dirfd(dir), e->d_name); /* nothing that others may change stays */
        }
    }
    (void)closedir(dir);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct intake_file *)a)->name, ((const struct intake_file *)b)->name);
}

static int make_dir(const char *path, struct kymo_err *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return kymo_err_set(err, -errno, "%s: %s", path, strerror(errno));
    return 0;
}

/* Moves <key>.d/<from> to c->directory/files. */
static int move_out(const char *intake, const char *key, const char *from, struct intake_capture *c,
                    struct kymo_err *err)
{
    char path[INTAKE_PATH_MAX];
    int there KYMO_CLOSE = open_dir(c->directory);
    (void)path_of(path, intake, key, ".d", "");
    int here KYMO_CLOSE = open_dir(path);
    if (there < 0 || here < 0)
        return kymo_err_set(err, here < 0 ? here : there, "%s: %s", path, strerror(here < 0 ? -here : -there));
    if (renameat(here, from, there, FILES) == 0)
        return 0;
    return kymo_err_set(err, -errno, "%s/%s: %s", path, from, strerror(errno));
}

static int write_known(const struct intake_capture *c, const uint8_t *known, size_t n, struct kymo_err *err)
{
    char path[INTAKE_PATH_MAX + sizeof KNOWN + 1];
    (void)snprintf(path, sizeof path, "%s/" KNOWN, c->directory);
    return kymo_file_write_atomic(path, known, n, err);
}

static void read_known(struct intake_capture *c)
{
    char path[INTAKE_PATH_MAX + sizeof KNOWN + 1];
    uint8_t *data KYMO_FREE = NULL;
    size_t n;
    (void)snprintf(path, sizeof path, "%s/" KNOWN, c->directory);
    if (kymo_file_read_all(path, MANIFEST_BYTES_MAX, &data, &n, NULL) < 0 ||
        manifest_parse(data, n, &c->known, NULL) < 0)
        c->known = NULL;
}

struct taking {
    const char *intake, *key, *from, *to;
    uid_t uid;
    const uint8_t *known;
    size_t n;
};

static int take(const struct taking *t, struct intake_capture *c, struct kymo_err *err)
{
    struct listing l = {.c = c, .uid = t->uid};
    char path[INTAKE_PATH_MAX + sizeof FILES + 1];
    struct stat st;
    if (path_of(path, t->intake, t->key, ".t", "") < 0 || path_of(c->directory, t->intake, t->key, ".t", t->to) < 0)
        return kymo_err_set(err, -ENAMETOOLONG, "%s: too long", t->intake);
    int r = make_dir(path, err);
    if (r == 0)
        r = make_dir(c->directory, err);
    if (r < 0)
        return r;
    (void)snprintf(path, sizeof path, "%s/" FILES, c->directory);
    if (lstat(path, &st) < 0) {
        r = t->known ? write_known(c, t->known, t->n, err) : 0;
        if (r == 0)
            r = move_out(t->intake, t->key, t->from, c, err);
    }
    int fd = r == 0 ? open_dir(path) : r;
    if (fd < 0) {
        remove_dir(c->directory);
        return r < 0 ? r : kymo_err_set(err, -EINVAL, "%s: no directory", path);
    }
    walk(&l, fd, "", 0);
    read_known(c);
    qsort(c->files, c->nfiles, sizeof *c->files, compare_names);
    return 0;
}

struct intake_capture *intake_capture_free(struct intake_capture *c)
{
    if (c && c->known)
        kymo__manifest__capture__free_unpacked(c->known, NULL);
    kymo_free(c);
    return NULL;
}

/* Its folders were not all made ours. */
static void refuse_large(struct intake_capture *c)
{
    char path[INTAKE_PATH_MAX + sizeof FILES + 1];
    (void)snprintf(path, sizeof path, "%s/" FILES, c->directory);
    remove_dir(path);
    c->nfiles = 0;
}

int intake_take(const char *intake, const char *key, const struct intake_taking *what, struct intake_capture **ret,
                struct kymo_err *err)
{
    const struct taking t = {.intake = intake,
                             .key = key,
                             .from = what->id,
                             .to = what->id,
                             .uid = what->uid,
                             .known = what->known,
                             .n = what->known_n};
    struct intake_capture *c = KYMO_NEW(struct intake_capture);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "capture %s: no memory to list it", what->id);
    int r = take(&t, c, err);
    if (r < 0) {
        (void)intake_capture_free(c);
        return r;
    }
    c->is_too_large = c->bytes > what->bytes_max || c->nentries > INTAKE_ENTRIES_MAX;
    if (c->is_too_large)
        refuse_large(c);
    else
        hash_neffs(c);
    *ret = c;
    return 0;
}

/* What is removed goes out of the job's reach first. */
static void discard(const char *intake, const char *key, const char *from, const char *to)
{
    struct intake_capture *c = KYMO_NEW(struct intake_capture);
    char path[INTAKE_PATH_MAX];
    if (c && path_of(path, intake, key, ".t", "") == 0 && path_of(c->directory, intake, key, ".t", to) == 0 &&
        make_dir(path, NULL) == 0 && make_dir(c->directory, NULL) == 0) {
        (void)!move_out(intake, key, from, c, NULL);
        remove_dir(c->directory);
    }
    (void)intake_capture_free(c);
}

void intake_discard(const char *intake, const char *key, const char *id, bool is_part)
{
    char from[KYMO_HOOK_ID_MAX + 8], to[KYMO_HOOK_ID_MAX + 16];
    (void)snprintf(from, sizeof from, "%.*s%s", KYMO_HOOK_ID_MAX, id, is_part ? ".part" : "");
    (void)snprintf(to, sizeof to, "%.*s%s", KYMO_HOOK_ID_MAX + 6, from, GONE);
    discard(intake, key, from, to);
}

void intake_empty(const char *intake, const char *key)
{
    char path[INTAKE_PATH_MAX];
    int fd = path_of(path, intake, key, ".d", "") == 0 ? open_dir(path) : -1;
    if (fd >= 0)
        (void)purge_lock(fd);
    DIR *dir = list_dir(fd);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            purge_entry(dirfd(dir), e->d_name);
    if (dir)
        (void)closedir(dir);
}

/* Takes fd. */
static void measure(int fd, unsigned depth, uint64_t *bytes, size_t *entries)
{
    DIR *dir = list_dir(fd);
    const struct dirent *e;
    unsigned n = 0;
    while (dir && *entries <= INTAKE_ENTRIES_MAX && (e = next_entry(dir, &n))) {
        struct stat st;
        ++*entries;
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        *bytes += (uint64_t)st.st_blocks * 512;
        if (S_ISDIR(st.st_mode) && depth < MEASURE_DEPTH_MAX)
            measure(openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), depth + 1, bytes,
                    entries);
        else if (S_ISDIR(st.st_mode))
            *entries = INTAKE_ENTRIES_MAX + 1; /* no capture is so deep: nobody knows what is below */
    }
    if (dir)
        (void)closedir(dir);
}

void intake_measure(const char *intake, const char *key, uint64_t *ret_bytes, size_t *ret_entries)
{
    static const char *const suffixes[] = {".d", ".t"};
    char path[INTAKE_PATH_MAX];
    *ret_bytes = 0;
    *ret_entries = 0;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (path_of(path, intake, key, suffixes[i], "") == 0)
            measure(open_dir(path), 0, ret_bytes, ret_entries);
}

/* Finding */

/* Takes fd. */
static bool has_files(int fd, unsigned depth)
{
    DIR *dir = list_dir(fd);
    const struct dirent *e;
    bool found = !dir || depth > INTAKE_DEPTH_MAX;
    unsigned n = 0;
    while (!found && (e = next_entry(dir, &n))) {
        int below = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        found = below < 0 || has_files(below, depth + 1);
    }
    if (dir)
        (void)closedir(dir);
    return found;
}

static size_t find_in(const char *path, bool taken, struct intake_found *ret, size_t n, size_t max)
{
    DIR *dir = list_dir(open_dir(path));
    const struct dirent *e;
    unsigned seen = 0;
    while (dir && n < max && (e = next_entry(dir, &seen))) {
        struct intake_found f = {.is_part = !taken && ends_with(e->d_name, ".part"), .is_taken = taken};
        size_t len = strlen(e->d_name) - (f.is_part ? 5 : 0);
        if (len >= sizeof f.id || ends_with(e->d_name, GONE))
            continue;
        memcpy(f.id, e->d_name, len);
        if (f.is_part)
            f.is_empty = !has_files(openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), 0);
        if (hook_packet_id_valid(f.id))
            ret[n++] = f;
    }
    if (dir)
        (void)closedir(dir);
    return n;
}

size_t intake_find(const char *intake, const char *key, struct intake_found *ret, size_t max)
{
    char path[INTAKE_PATH_MAX];
    size_t n = 0;
    if (path_of(path, intake, key, ".t", "") == 0)
        n = find_in(path, true, ret, n, max);
    if (path_of(path, intake, key, ".d", "") == 0)
        n = find_in(path, false, ret, n, max);
    return n;
}

void intake_remove(const char *intake, const char *key)
{
    static const char *const suffixes[] = {".d", ".t", ".pb"};
    char path[INTAKE_PATH_MAX];
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (path_of(path, intake, key, suffixes[i], "") == 0)
            remove_dir(path);
}

/* State */

int intake_save_state(const char *intake, const char *key, const uint8_t *packed, size_t n, struct kymo_err *err)
{
    char path[INTAKE_PATH_MAX];
    if (path_of(path, intake, key, ".pb", "") < 0)
        return kymo_err_set(err, -ENAMETOOLONG, "%s: too long", intake);
    return kymo_file_write_atomic(path, packed, n, err);
}

Kymo__Manifest__Capture *intake_load_state(const char *intake, const char *key)
{
    char path[INTAKE_PATH_MAX];
    uint8_t *data KYMO_FREE = NULL;
    Kymo__Manifest__Capture *who = NULL;
    size_t n;
    if (path_of(path, intake, key, ".pb", "") < 0 ||
        kymo_file_read_all(path, MANIFEST_BYTES_MAX, &data, &n, NULL) < 0 || manifest_parse(data, n, &who, NULL) < 0)
        return NULL;
    return who;
}

static bool parse_key(const char *name, struct intake_process *ret)
{
    uint64_t pid, start;
    const char *p = number(name, &pid), *q = p && *p == '-' ? number(p + 1, &start) : NULL;
    if (!q || pid == 0 || pid > INT32_MAX || (strcmp(q, ".d") && strcmp(q, ".t") && strcmp(q, ".pb")))
        return false;
    *ret = (struct intake_process){.pid = (pid_t)pid, .start = start};
    intake_key(ret->pid, start, ret->key);
    return strncmp(ret->key, name, (size_t)(q - name)) == 0;
}

static int add_process(struct intake_process *all, size_t *n, const char *intake, const char *name)
{
    struct intake_process p;
    char path[INTAKE_PATH_MAX];
    struct stat st;
    if (!parse_key(name, &p))
        return 0;
    for (size_t i = 0; i < *n; i++)
        if (!strcmp(all[i].key, p.key))
            return 0;
    p.uid = path_of(path, intake, p.key, ".d", "") == 0 && lstat(path, &st) == 0 ? st.st_uid : geteuid();
    all[(*n)++] = p;
    return *n == PROCESSES_MAX;
}

int intake_each(const char *intake, int (*each)(void *ctx, const struct intake_process *p), void *ctx,
                struct kymo_err *err)
{
    struct intake_process *all KYMO_FREE = KYMO_NEW_ARRAY(struct intake_process, PROCESSES_MAX);
    DIR *dir = list_dir(open_dir(intake));
    const struct dirent *e;
    unsigned seen = 0;
    size_t n = 0;
    if (!all || !dir) {
        if (dir)
            (void)closedir(dir);
        return kymo_err_set(err, all ? -ENOENT : -ENOMEM, "%s: cannot be listed", intake);
    }
    while ((e = next_entry(dir, &seen)) && add_process(all, &n, intake, e->d_name) == 0) {
    }
    (void)closedir(dir);
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = each(ctx, &all[i]);
    return r;
}
