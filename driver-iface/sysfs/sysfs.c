#include "driver-iface/sysfs/sysfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

#define ENTRIES_MAX 4096 /* of a directory; more is no tree of a driver */

static const char *const suffixes[] = {"/devices/virtual/neuron_device", "/class/neuron_device"};

int sysfs_init(struct sysfs *s, const char *root, struct kymo_err *err)
{
    const char *named = getenv("KYMO_SYSFS");
    size_t n;

    if (!root)
        root = named && *named ? named : SYSFS_ROOT;
    n = strlen(root);
    while (n > 1 && root[n - 1] == '/')
        n--;
    if (n >= sizeof s->root)
        return kymo_err_set(err, -ENAMETOOLONG, "%.64s...: longer than %zu bytes", root, sizeof s->root - 1);
    memcpy(s->root, root, n);
    s->root[n] = 0;
    memcpy(s->system, s->root, n + 1);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t k = strlen(suffixes[i]);

        if (n >= k && strcmp(s->root + n - k, suffixes[i]) == 0) {
            s->system[n - k] = 0;
            break;
        }
    }
    return 0;
}

int sysfs_path(const struct sysfs *s, enum sysfs_id id, unsigned device, unsigned core, unsigned member, unsigned value,
               char ret[SYSFS_PATH_MAX], struct kymo_err *err)
{
    const struct sysfs_entry *e = sysfs_entry(id);
    char base[SYSFS_TEXT_MAX + 64];
    int n;

    if ((e->members && member >= e->n_members) || (e->values && value >= e->n_values))
        return kymo_err_set(err, -EINVAL, "%s: no such member or value", e->path);
    if (e->scope == SYSFS_SYSTEM)
        n = snprintf(base, sizeof base, "%s", s->system);
    else if (e->scope == SYSFS_DEVICE)
        n = snprintf(base, sizeof base, "%s/neuron%u", s->root, device);
    else
        n = snprintf(base, sizeof base, "%s/neuron%u/neuron_core%u", s->root, device, core);
    if (n >= 0 && (size_t)n < sizeof base)
        n = snprintf(ret, SYSFS_PATH_MAX, "%s/%s%s%s%s%s", base, e->path, e->members ? "/" : "",
                     e->members ? e->members[member] : "", e->values ? "/" : "", e->values ? e->values[value] : "");
    if (n < 0 || (size_t)n >= SYSFS_PATH_MAX)
        return kymo_err_set(err, -ENAMETOOLONG, "%s/%s: too long", s->root, e->path);
    return 0;
}

/* sysfs tells a size of one page whatever a file holds, hence until a read finds nothing. */
static int read_text(const char *path, char ret[SYSFS_TEXT_MAX], struct kymo_err *err)
{
    uint64_t size;
    int fd KYMO_CLOSE = kymo_file_open_regular(path, &size, err);
    size_t n = 0;
    ssize_t got = 1;

    if (fd < 0)
        return fd;
    while (got > 0 && n < SYSFS_TEXT_MAX - 1) {
        got = kymo_file_ops()->pread(fd, ret + n, SYSFS_TEXT_MAX - 1 - n, (off_t)n);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got < 0)
            return kymo_err_set(err, -errno, "%s: %s", path, strerror(errno));
        else
            n += (size_t)got;
    }
    while (n > 0 && isspace((unsigned char)ret[n - 1]))
        n--;
    ret[n] = 0;
    return 0;
}

int sysfs_text(const struct sysfs *s, enum sysfs_id id, unsigned device, unsigned core, unsigned member, unsigned value,
               char ret[SYSFS_TEXT_MAX], struct kymo_err *err)
{
    char path[SYSFS_PATH_MAX], text[SYSFS_TEXT_MAX];
    int r = sysfs_path(s, id, device, core, member, value, path, err);

    if (r == 0)
        r = read_text(path, text, err);
    if (r == 0)
        memcpy(ret, text, sizeof text);
    return r;
}

int sysfs_number(const struct sysfs *s, enum sysfs_id id, unsigned device, unsigned core, unsigned member,
                 unsigned value, uint64_t *ret, struct kymo_err *err)
{
    char path[SYSFS_PATH_MAX], text[SYSFS_TEXT_MAX];
    char *end = NULL;
    uint64_t v;
    int r = sysfs_path(s, id, device, core, member, value, path, err);

    if (r == 0)
        r = read_text(path, text, err);
    if (r < 0)
        return r;
    errno = 0;
    v = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end || errno)
        return kymo_err_set(err, -EINVAL, "%s: \"%.32s\" is no number", path, text);
    *ret = v;
    return 0;
}

/* N of "<prefix>N", as the driver spells it; false: another name. */
static bool number_behind(const char *name, const char *prefix, unsigned max, unsigned *ret)
{
    size_t n = strlen(prefix);
    char text[16];
    unsigned long v;

    if (strncmp(name, prefix, n) != 0 || !isdigit((unsigned char)name[n]))
        return false;
    v = strtoul(name + n, NULL, 10);
    (void)snprintf(text, sizeof text, "%lu", v);
    if (v >= max || strcmp(text, name + n) != 0)
        return false;
    *ret = (unsigned)v;
    return true;
}

/* Bit per number found in names "<prefix>N" of a directory. */
static int list(const char *dir, const char *prefix, unsigned max, uint64_t *ret, struct kymo_err *err)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    unsigned n;

    *ret = 0;
    if (!d)
        return kymo_err_set(err, -errno, "%s: %s", dir, strerror(errno));
    for (unsigned i = 0; i < ENTRIES_MAX && (e = readdir(d)); i++)
        if (number_behind(e->d_name, prefix, max, &n))
            *ret |= 1ull << n;
    (void)closedir(d);
    return 0;
}

static const struct kymo_arch *arch_named(const char *device_name)
{
    for (int g = 0; g < KYMO_GEN_MAX; g++)
        if (strcmp(kymo_arch_get((enum kymo_generation)g)->device_name, device_name) == 0)
            return kymo_arch_get((enum kymo_generation)g);
    return NULL;
}

/* Empty when the file does not tell. */
static void take_text(const struct sysfs *s, enum sysfs_id id, unsigned device, char *ret, size_t size)
{
    char text[SYSFS_TEXT_MAX];

    ret[0] = 0;
    if (sysfs_text(s, id, device, 0, 0, 0, text, NULL) == 0)
        (void)snprintf(ret, size, "%.*s", (int)size - 1, text);
}

/* core_count is for root alone, so cores are counted where it cannot be read. */
static unsigned count_cores(const struct sysfs *s, unsigned device)
{
    char dir[SYSFS_PATH_MAX];
    uint64_t n, found;

    if (sysfs_number(s, SYSFS_CORE_COUNT, device, 0, 0, 0, &n, NULL) == 0 && n > 0 && n <= SYSFS_CORES_MAX)
        return (unsigned)n;
    (void)snprintf(dir, sizeof dir, "%s/neuron%u", s->root, device);
    if (list(dir, "neuron_core", SYSFS_CORES_MAX, &found, NULL) < 0)
        return 0;
    return (unsigned)__builtin_popcountll(found);
}

static void read_device(const struct sysfs *s, unsigned index, struct sysfs_device *ret)
{
    *ret = (struct sysfs_device){.index = index, .cores = count_cores(s, index)};
    take_text(s, SYSFS_DEVICE_NAME, index, ret->name, sizeof ret->name);
    take_text(s, SYSFS_ARCH_TYPE, index, ret->arch_type, sizeof ret->arch_type);
    take_text(s, SYSFS_SERIAL, index, ret->serial, sizeof ret->serial);
    ret->arch = arch_named(ret->name);
}

int sysfs_read_host(const struct sysfs *s, struct sysfs_host *ret, struct kymo_err *err)
{
    uint64_t found;
    int r = list(s->root, "neuron", SYSFS_DEVICES_MAX, &found, err);

    if (r < 0)
        return r;
    ret->n_devices = 0;
    take_text(s, SYSFS_DRIVER_VERSION, 0, ret->driver_version, sizeof ret->driver_version);
    take_text(s, SYSFS_PRODUCT, 0, ret->instance, sizeof ret->instance);
    for (unsigned i = 0; i < SYSFS_DEVICES_MAX; i++)
        if (found >> i & 1)
            read_device(s, i, &ret->devices[ret->n_devices++]);
    return 0;
}

int sysfs_read_memory(const struct sysfs *s, const struct sysfs_device *device, unsigned first, unsigned count,
                      struct sysfs_memory *ret, struct kymo_err *err)
{
    struct sysfs_memory sum = {0};

    if (count == 0 || count > SYSFS_CORES_MAX || first > SYSFS_CORES_MAX - count)
        return kymo_err_set(err, -EINVAL, "cores %u to %u: a device has at most %u", first, first + count,
                            SYSFS_CORES_MAX);
    for (unsigned core = first; core < first + count; core++) {
        uint64_t present;
        int r = sysfs_number(s, SYSFS_CORE_MEMORY, device->index, core, 0, SYSFS_PRESENT, &present, err);

        if (r < 0)
            return r;
        if (__builtin_add_overflow(sum.used, present, &sum.used))
            return kymo_err_set(err, -ERANGE, "%s/neuron%u: memory in use is beyond 64 bits", s->root, device->index);
    }
    if (device->arch)
        sum.capacity = device->arch->hbm_bytes / device->arch->pcores_per_device * count;
    *ret = sum;
    return 0;
}
