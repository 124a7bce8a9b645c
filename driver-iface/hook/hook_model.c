#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver-iface/hook/hook_internal.h"

#define TABLE 256u                    /* four times as many as models: probes stay short */
#define EARLY_MAX_BYTES (64ull << 20) /* limits while the daemon is expected but has said nothing */
#define EARLY_TOTAL_BYTES (256ull << 20)

static struct hook_model models[KYMO_HOOK_MODELS];
static struct hook_model *table[TABLE]; /* by handle; entries are taken out by rebuilding, under the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t next_id = 1;
static uint64_t waiting_bytes; /* of copies that this process still has */

static uint32_t hash(const void *handle)
{
    return (uint32_t)(((uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15ull) >> 56);
}

struct hook_model *hook_model_find(const void *handle)
{
    uint32_t h = hash(handle);

    for (uint32_t i = 0; i < KYMO_HOOK_MODELS; i++) {
        struct hook_model *m = __atomic_load_n(&table[(h + i) % TABLE], __ATOMIC_ACQUIRE);

        if (!m)
            return NULL;
        if (__atomic_load_n(&m->handle, __ATOMIC_RELAXED) == handle)
            return m;
    }
    return NULL;
}

static void insert(struct hook_model *m)
{
    uint32_t h = hash(m->handle);

    for (uint32_t i = 0; i < TABLE; i++) {
        struct hook_model **e = &table[(h + i) % TABLE];

        if (*e)
            continue;
        __atomic_store_n(e, m, __ATOMIC_RELEASE);
        return;
    }
}

/* A reader that meets the table in between does not find a model and counts nothing, once. */
static void rebuild(void)
{
    for (uint32_t i = 0; i < TABLE; i++)
        __atomic_store_n(&table[i], NULL, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < KYMO_HOOK_MODELS; i++)
        if (models[i].handle)
            insert(&models[i]);
}

static int write_all(int fd, const uint8_t *p, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = write(fd, p + done, n - done);

        if (k <= 0)
            return -1;
        done += (size_t)k;
    }
    return 0;
}

/* A copy that nobody can change any more; -1: no memory or descriptor for it. */
static int copy_neff(const void *neff, size_t size)
{
    int fd = memfd_create("kymo-neff", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -1;
    if (write_all(fd, neff, size) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

/* Decides on a copy. Returns its descriptor or -1, with the reason in flags. */
static int take_neff(const void *neff, size_t size, uint32_t *flags)
{
    uint64_t max = EARLY_MAX_BYTES, total = EARLY_TOTAL_BYTES;
    int fd;

    if (!hook_capture_neff_limits(&max, &total) && !hook_talk_may_come()) {
        *flags = KYMO_HOOK_NEFF_EARLY;
        return -1;
    }
    if (!neff || size == 0 || size > max || waiting_bytes + size > total) {
        *flags = KYMO_HOOK_NEFF_LARGE;
        return -1;
    }
    fd = copy_neff(neff, size);
    *flags = fd < 0 ? KYMO_HOOK_NEFF_FAILED : KYMO_HOOK_NEFF_ATTACHED;
    if (fd >= 0)
        waiting_bytes += size;
    return fd;
}

static struct hook_model *free_model(uint32_t *ret_index)
{
    for (uint32_t i = 0; i < KYMO_HOOK_MODELS; i++)
        if (!models[i].handle) {
            *ret_index = i;
            return &models[i];
        }
    return NULL;
}

static void fill_slot(struct hook_model *m, uint32_t index)
{
    struct kymo_hook_model_slot *s = &hook_page->slots[index];

    hook_state_set(&s->model, 0);
    memset((char *)s + sizeof s->model, 0, sizeof *s - sizeof s->model);
    __atomic_store_n(&s->model, m->loaded.model, __ATOMIC_RELEASE);
    m->slot = s;
}

void hook_model_loaded(const void *handle, const void *neff, size_t size, int32_t vnc, int32_t vnc_count,
                       const uint32_t ctx[2])
{
    struct kymo_hook_loaded msg = {.vnc = vnc,
                                   .vnc_count = vnc_count,
                                   .neff_bytes = size,
                                   .ctx_device = ctx[0],
                                   .ctx_devices = ctx[1],
                                   .unix_ns = hook_clock_ns(CLOCK_REALTIME),
                                   .slot = UINT32_MAX};
    struct hook_model *m;
    int fd;

    (void)pthread_mutex_lock(&lock);
    msg.model = next_id++;
    m = free_model(&msg.slot);
    fd = take_neff(neff, size, &msg.flags);
    if (m) {
        m->neff = HOOK_NO_FD;
        m->loaded = msg;
        m->loaded.flags &= ~KYMO_HOOK_NEFF_ATTACHED;
        fill_slot(m, msg.slot);
        __atomic_store_n(&m->handle, handle, __ATOMIC_RELEASE);
        insert(m);
    }
    (void)pthread_mutex_unlock(&lock);
    if (hook_talk_send(KYMO_HOOK_LOADED, &msg, sizeof msg, fd) || fd < 0)
        return;
    (void)pthread_mutex_lock(&lock);
    waiting_bytes -= size;
    if (m)
        m->loaded.flags = KYMO_HOOK_NEFF_FAILED;
    (void)pthread_mutex_unlock(&lock);
}

/* Under the lock. */
static void drop_copy(struct hook_model *m)
{
    if (m->neff.fd < 0)
        return;
    hook_fd_close(&m->neff);
    waiting_bytes -= m->loaded.neff_bytes < waiting_bytes ? m->loaded.neff_bytes : waiting_bytes;
}

void hook_model_unloading(const void *handle)
{
    struct kymo_hook_unloaded msg = {0};
    struct hook_model *m;

    (void)pthread_mutex_lock(&lock);
    m = hook_model_find(handle);
    if (m) {
        msg.model = m->loaded.model;
        msg.executions = hook_model_executions(m);
        drop_copy(m);
        __atomic_store_n(&m->handle, NULL, __ATOMIC_RELEASE);
        rebuild();
    }
    (void)pthread_mutex_unlock(&lock);
    if (msg.model)
        (void)hook_talk_send(KYMO_HOOK_UNLOADED, &msg, sizeof msg, -1);
}

void hook_model_unload_all(void)
{
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < KYMO_HOOK_MODELS; i++) {
        if (models[i].handle)
            drop_copy(&models[i]);
        __atomic_store_n(&models[i].handle, NULL, __ATOMIC_RELEASE);
    }
    rebuild();
    (void)pthread_mutex_unlock(&lock);
}

void hook_model_announce(void (*send)(const struct kymo_hook_loaded *m, int fd))
{
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < KYMO_HOOK_MODELS; i++)
        if (models[i].handle)
            send(&models[i].loaded, hook_fd_is_ours(&models[i].neff) ? models[i].neff.fd : -1);
    (void)pthread_mutex_unlock(&lock);
}

static struct hook_model *find_number(uint32_t model)
{
    for (uint32_t i = 0; i < KYMO_HOOK_MODELS; i++)
        if (models[i].handle && models[i].loaded.model == model)
            return &models[i];
    return NULL;
}

void hook_model_neff_passed(uint32_t model, uint64_t bytes, int fd, bool keep)
{
    struct hook_model *m;

    (void)pthread_mutex_lock(&lock);
    m = find_number(model);
    if (m)
        m->loaded.flags |= KYMO_HOOK_NEFF_SENT;
    if (m && keep) {
        m->neff = hook_fd_take(fd);
    } else {
        (void)close(fd);
        waiting_bytes -= bytes < waiting_bytes ? bytes : waiting_bytes;
    }
    (void)pthread_mutex_unlock(&lock);
}

void hook_model_neff_done(uint32_t model)
{
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < KYMO_HOOK_MODELS; i++)
        if (models[i].handle && (model == 0 || models[i].loaded.model == model))
            drop_copy(&models[i]);
    (void)pthread_mutex_unlock(&lock);
}

/* In the child of a fork: its only thread holds no lock, another thread of the parent may have. */
void hook_model_clear(void)
{
    (void)pthread_mutex_init(&lock, NULL);
    for (uint32_t i = 0; i < KYMO_HOOK_MODELS; i++)
        if (models[i].handle)
            hook_fd_close(&models[i].neff);
    memset(models, 0, sizeof models);
    memset(table, 0, sizeof table);
    next_id = 1;
    waiting_bytes = 0;
}

/* Others belong to the step when they run at least half as often as it does; those that ran once at the start do not.
 */
struct hook_model *hook_model_step(uint32_t named, bool *ret_several)
{
    struct hook_model *step = NULL;
    size_t n = 0;

    for (uint32_t i = 0; i < KYMO_HOOK_MODELS; i++) {
        struct hook_model *m = &models[i];

        if (!m->handle)
            continue;
        if (named && m->loaded.model == named) {
            step = m;
            break;
        }
        if (!step || hook_model_executions(m) > hook_model_executions(step) ||
            (hook_model_executions(m) == hook_model_executions(step) && m->loaded.model < step->loaded.model))
            step = m;
    }
    for (uint32_t i = 0; step && i < KYMO_HOOK_MODELS; i++)
        if (models[i].handle && hook_model_executions(&models[i]) * 2 >= hook_model_executions(step))
            n++;
    *ret_several = n > 1;
    return step;
}

size_t hook_model_cores(uint32_t cores[KYMO_HOOK_MODELS])
{
    size_t n = 0;

    for (uint32_t i = 0; i < KYMO_HOOK_MODELS; i++) {
        const struct hook_model *m = &models[i];
        uint32_t first = m->loaded.vnc > 0 ? (uint32_t)m->loaded.vnc : 0;
        size_t k = 0;

        if (!m->handle || hook_model_executions(m) == 0)
            continue;
        while (k < n && cores[k] != first)
            k++;
        if (k == n)
            cores[n++] = first;
    }
    return n;
}
