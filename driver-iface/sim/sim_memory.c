#include "driver-iface/sim/sim_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

#define CORES_MAX (SYSFS_DEVICES_MAX * SYSFS_CORES_MAX)

/* Members that a simulated process has to do with (sysfs_entries.c). */
enum { STATUS_SUCCESS, STATUS_FAILURE };
enum { ACTIVITY_LOADS, ACTIVITY_INFERENCES, ACTIVITY_FLOPS, ACTIVITY_TIME, ACTIVITY_MAX };

struct amount {
    uint64_t values[3]; /* total, present, peak */
};

struct core {
    struct amount all, kinds[SYSFS_KIND_MAX];
    uint64_t status[2], activity[ACTIVITY_MAX];
    bool whole; /* all of its files are there */
};

struct sim_memory {
    pthread_mutex_t lock;
    struct sim_memory_config config;
    struct sysfs tree;
    struct core *cores;
    unsigned n_cores;
};

static int write_new(const char *path, mode_t mode, const char *text, struct kymo_err *err)
{
    int fd KYMO_CLOSE = kymo_file_open(path, O_WRONLY | O_CREAT | O_EXCL, mode, err);

    return fd < 0 ? fd : kymo_file_pwrite_all(fd, text, strlen(text), 0, path, err);
}

/* Readers must never meet half a number, hence the second name. No sync: the tree is worth nothing after a crash. */
static int write_file(const char *path, mode_t mode, const char *text, struct kymo_err *err)
{
    char next[SYSFS_PATH_MAX + 8];
    int r;

    (void)snprintf(next, sizeof next, "%s.next", path);
    (void)kymo_file_ops()->unlink(next); /* of a process that was killed */
    r = write_new(next, mode, text, err);
    return r < 0 ? r : kymo_file_rename(next, path, err);
}

/* At the start: most trees are new, and there are thousands of files. */
static int write_first(char *path, mode_t mode, const char *text, struct kymo_err *err)
{
    int r = write_new(path, mode, text, err);

    if (r == -ENOENT) {
        char *slash = strrchr(path, '/');

        *slash = 0;
        r = kymo_file_mkdirs(path, err);
        *slash = '/';
        if (r == 0)
            r = write_new(path, mode, text, err);
    }
    return r == -EEXIST ? write_file(path, mode, text, err) : r;
}

static int put_text(const struct sim_memory *m, enum sysfs_id id, unsigned device, unsigned core, unsigned member,
                    unsigned value, const char *text, struct kymo_err *err)
{
    char path[SYSFS_PATH_MAX];
    int r = sysfs_path(&m->tree, id, device, core, member, value, path, err);

    return r < 0 ? r : write_file(path, sysfs_entry(id)->mode, text, err);
}

static int put_number(const struct sim_memory *m, enum sysfs_id id, unsigned pcore, unsigned member, unsigned value,
                      uint64_t v)
{
    unsigned per_device = m->config.arch->pcores_per_device;
    char text[32];

    (void)snprintf(text, sizeof text, "%llu\n", (unsigned long long)v);
    return put_text(m, id, pcore / per_device, pcore % per_device, member, value, text, NULL);
}

/* The first writing of an entry, with its directories; text NULL: a number for each value. */
static int put_entry(const struct sim_memory *m, enum sysfs_id id, unsigned device, unsigned core, const char *text,
                     struct kymo_err *err)
{
    const struct sysfs_entry *e = sysfs_entry(id);
    size_t members = e->members ? e->n_members : 1, values = e->values ? e->n_values : 1;
    int r = 0;

    for (unsigned member = 0; r == 0 && member < members; member++)
        for (unsigned value = 0; r == 0 && value < values; value++) {
            char path[SYSFS_PATH_MAX];

            r = sysfs_path(&m->tree, id, device, core, member, value, path, err);
            if (r == 0)
                r = write_first(path, e->mode, text ? text : "0\n", err);
        }
    return r;
}

/* As the driver calls them; Inf2 is NDv3 there (facts: driver.md 6). */
static const char *arch_type(const struct kymo_arch *arch)
{
    static const char *const names[KYMO_GEN_MAX] = {
        [KYMO_GEN_TRN1] = "NDv2\n", [KYMO_GEN_INF2] = "NDv3\n", [KYMO_GEN_TRN2] = "NDv3\n", [KYMO_GEN_TRN3] = "NDv4\n"};

    return names[arch->gen];
}

static void entry_text(const struct sim_memory *m, enum sysfs_id id, unsigned device, char text[SYSFS_TEXT_MAX])
{
    const struct kymo_arch *a = m->config.arch;

    text[0] = 0;
    switch (id) {
    case SYSFS_DRIVER_VERSION:
        (void)snprintf(text, SYSFS_TEXT_MAX, "%s\n", m->config.driver_version);
        break;
    case SYSFS_PRODUCT:
        (void)snprintf(text, SYSFS_TEXT_MAX, "%s\n", m->config.instance->type);
        break;
    case SYSFS_CORE_COUNT:
        (void)snprintf(text, SYSFS_TEXT_MAX, "%u", a->pcores_per_device);
        break;
    case SYSFS_SERIAL:
        (void)snprintf(text, SYSFS_TEXT_MAX, "%016llx\n", 0x51b0000000000000ull + device);
        break;
    case SYSFS_CONNECTED: /* a ring (G) */
        (void)snprintf(text, SYSFS_TEXT_MAX, "%u, %u\n", (device + 1) % m->config.instance->devices,
                       (device + m->config.instance->devices - 1) % m->config.instance->devices);
        break;
    case SYSFS_ARCH_TYPE:
        (void)snprintf(text, SYSFS_TEXT_MAX, "%s", arch_type(a));
        break;
    case SYSFS_INSTANCE_TYPE:
        (void)snprintf(text, SYSFS_TEXT_MAX, "%s\n", a->name);
        break;
    case SYSFS_DEVICE_NAME:
        (void)snprintf(text, SYSFS_TEXT_MAX, "%s\n", a->device_name);
        break;
    case SYSFS_POWER:
        (void)snprintf(text, SYSFS_TEXT_MAX, "POWER_STATUS_NO_DATA,0,0.00,0.00,0.00\n");
        break;
    case SYSFS_CORE_ARCH_TYPE:
        (void)snprintf(text, SYSFS_TEXT_MAX, "%s\n", a->nc_version);
        break;
    case SYSFS_PE_COUNTERS:
        (void)snprintf(text, SYSFS_TEXT_MAX, "xrow_grp,mm_active,wl_active,idle\n0,0,0,0\n1,0,0,0\n2,0,0,0\n3,0,0,0\n");
        break;
    default:
        break;
    }
}

/* What the tree shows of a core from the start. The rest, a hundred files, comes with its first use: making and
 * removing thirteen thousand files takes a slow disk many seconds. */
static bool is_first(const struct sysfs_entry *e)
{
    return e->scope != SYSFS_CORE || e == sysfs_entry(SYSFS_CORE_ARCH_TYPE) || e == sysfs_entry(SYSFS_CORE_MEMORY);
}

static int put_scope(const struct sim_memory *m, enum sysfs_scope scope, bool first, unsigned device, unsigned core,
                     struct kymo_err *err)
{
    int r = 0;

    for (unsigned id = 0; r == 0 && id < SYSFS_ID_MAX; id++) {
        const struct sysfs_entry *e = sysfs_entry((enum sysfs_id)id);
        char text[SYSFS_TEXT_MAX];

        if (e->scope != scope || is_first(e) != first)
            continue;
        entry_text(m, (enum sysfs_id)id, device, text);
        r = put_entry(m, (enum sysfs_id)id, device, core, text[0] ? text : NULL, err);
    }
    return r;
}

static int put_tree(const struct sim_memory *m, struct kymo_err *err)
{
    int r = put_scope(m, SYSFS_SYSTEM, true, 0, 0, err);

    for (unsigned d = 0; r == 0 && d < m->config.instance->devices; d++) {
        r = put_scope(m, SYSFS_DEVICE, true, d, 0, err);
        for (unsigned c = 0; r == 0 && c < m->config.arch->pcores_per_device; c++)
            r = put_scope(m, SYSFS_CORE, true, d, c, err);
    }
    return r;
}

static void sim_memory_freep(struct sim_memory **m)
{
    *m = sim_memory_free(*m);
}

int sim_memory_new(const struct sim_memory_config *config, struct sim_memory **ret, struct kymo_err *err)
{
    struct sim_memory *m KYMO_CLEANUP(sim_memory_freep) = NULL;
    unsigned n = config->instance->devices * config->arch->pcores_per_device;
    int r = 0;

    if (n == 0 || n > CORES_MAX)
        return kymo_err_set(err, -EINVAL, "%s: %u cores", config->instance->type, n);
    m = KYMO_NEW(struct sim_memory);
    if (m)
        m->cores = KYMO_NEW_ARRAY(struct core, n);
    if (!m || !m->cores)
        return kymo_err_set(err, -ENOMEM, "no memory for %u cores", n);
    m->config = *config;
    m->n_cores = n;
    (void)pthread_mutex_init(&m->lock, NULL);
    if (config->sysfs) {
        r = sysfs_init(&m->tree, config->sysfs, err);
        if (r == 0)
            r = put_tree(m, err);
    }
    if (r < 0)
        return r;
    *ret = KYMO_TAKE(m);
    return 0;
}

struct sim_memory *sim_memory_free(struct sim_memory *m)
{
    if (!m)
        return NULL;
    (void)pthread_mutex_destroy(&m->lock);
    kymo_free(m->cores);
    kymo_free(m);
    return NULL;
}

/* A tree that cannot be written any more, as on a full disk, shows what it showed: the devices go on. */
static void show(struct sim_memory *m, unsigned pcore, enum sysfs_kind kind)
{
    unsigned per_device = m->config.arch->pcores_per_device;
    struct core *c = &m->cores[pcore];

    if (!m->config.sysfs)
        return;
    if (!c->whole)
        c->whole = put_scope(m, SYSFS_CORE, false, pcore / per_device, pcore % per_device, NULL) == 0;
    for (unsigned v = SYSFS_TOTAL; v <= SYSFS_PEAK; v++) {
        (void)put_number(m, SYSFS_CORE_MEMORY_BY_KIND, pcore, kind, v, c->kinds[kind].values[v]);
        (void)put_number(m, SYSFS_CORE_MEMORY, pcore, 0, v, c->all.values[v]);
    }
}

static void add(struct amount *a, uint64_t bytes)
{
    a->values[SYSFS_TOTAL] += bytes;
    a->values[SYSFS_PRESENT] += bytes;
    if (a->values[SYSFS_PRESENT] > a->values[SYSFS_PEAK])
        a->values[SYSFS_PEAK] = a->values[SYSFS_PRESENT];
}

int sim_memory_take(struct sim_memory *m, unsigned first, unsigned count, enum sysfs_kind kind, uint64_t bytes,
                    struct kymo_err *err)
{
    uint64_t capacity = m->config.arch->hbm_bytes / m->config.arch->pcores_per_device;
    int r = 0;

    (void)pthread_mutex_lock(&m->lock);
    for (unsigned i = first; r == 0 && i < first + count; i++) {
        uint64_t used = m->cores[i].all.values[SYSFS_PRESENT];

        if (bytes > capacity - used)
            r = kymo_err_set(err, -ENOMEM, "core %u: %llu bytes of device memory, %llu of %llu are in use", i,
                             (unsigned long long)bytes, (unsigned long long)used, (unsigned long long)capacity);
    }
    for (unsigned i = first; r == 0 && bytes && i < first + count; i++) {
        add(&m->cores[i].kinds[kind], bytes);
        add(&m->cores[i].all, bytes);
        show(m, i, kind);
    }
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

static void give(struct sim_memory *m, unsigned pcore, enum sysfs_kind kind, uint64_t bytes)
{
    struct core *c = &m->cores[pcore];
    uint64_t present = c->kinds[kind].values[SYSFS_PRESENT], n = bytes < present ? bytes : present;

    if (n == 0)
        return;
    c->kinds[kind].values[SYSFS_PRESENT] -= n;
    c->all.values[SYSFS_PRESENT] -= n;
    show(m, pcore, kind);
}

void sim_memory_give(struct sim_memory *m, unsigned first, unsigned count, enum sysfs_kind kind, uint64_t bytes)
{
    (void)pthread_mutex_lock(&m->lock);
    for (unsigned i = first; i < first + count; i++)
        give(m, i, kind, bytes);
    (void)pthread_mutex_unlock(&m->lock);
}

void sim_memory_present(struct sim_memory *m, unsigned first, unsigned count, uint64_t present[SYSFS_KIND_MAX])
{
    memset(present, 0, SYSFS_KIND_MAX * sizeof *present);
    (void)pthread_mutex_lock(&m->lock);
    for (unsigned i = first; i < first + count; i++)
        for (unsigned k = 0; k < SYSFS_KIND_MAX; k++)
            present[k] += m->cores[i].kinds[k].values[SYSFS_PRESENT];
    (void)pthread_mutex_unlock(&m->lock);
}

static void show_deeds(const struct sim_memory *m, unsigned pcore)
{
    const struct core *c = &m->cores[pcore];

    if (!m->config.sysfs)
        return;
    for (unsigned v = SYSFS_TOTAL; v <= SYSFS_PRESENT; v++) {
        for (unsigned i = STATUS_SUCCESS; i <= STATUS_FAILURE; i++)
            (void)put_number(m, SYSFS_STATUS, pcore, i, v, c->status[i]);
        for (unsigned i = 0; i < ACTIVITY_MAX; i++)
            (void)put_number(m, SYSFS_ACTIVITY, pcore, i, v, c->activity[i]);
    }
}

void sim_memory_detach(struct sim_memory *m, unsigned first, unsigned count, const struct sim_memory_deeds *deeds)
{
    (void)pthread_mutex_lock(&m->lock);
    for (unsigned i = first; i < first + count; i++) {
        struct core *c = &m->cores[i];

        for (unsigned k = 0; k < SYSFS_KIND_MAX; k++)
            give(m, i, (enum sysfs_kind)k, UINT64_MAX);
        c->status[STATUS_SUCCESS] += deeds->executions - deeds->failures;
        c->status[STATUS_FAILURE] += deeds->failures;
        c->activity[ACTIVITY_LOADS] += deeds->loads;
        c->activity[ACTIVITY_INFERENCES] += deeds->executions;
        c->activity[ACTIVITY_TIME] += deeds->busy_us;
        show_deeds(m, i);
    }
    (void)pthread_mutex_unlock(&m->lock);
}
