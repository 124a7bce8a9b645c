#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver-iface/hook/hook_internal.h"

#define HIGH_FD 800 /* above what shells and servers hand out, below FD_SETSIZE and the usual limit */

static const uint32_t not_live;

const uint32_t *hook_live_word = &not_live;
struct kymo_hook_page *hook_page;
struct hook_fd hook_page_fd = {.fd = -1};
__thread uint32_t hook_depth __attribute__((tls_model("initial-exec")));

static uint32_t *live; /* a page of its own, which a fork wipes */
static pthread_once_t fork_handler = PTHREAD_ONCE_INIT;

struct hook_fd hook_fd_take(int fd)
{
    struct hook_fd f = {.fd = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD)};
    struct stat st;

    if (f.fd >= 0)
        (void)close(fd);
    else
        f.fd = fd; /* the limit is lower: it stays where it is */
    if (fstat(f.fd, &st) == 0) {
        f.dev = st.st_dev;
        f.ino = st.st_ino;
    }
    return f;
}

bool hook_fd_is_ours(const struct hook_fd *f)
{
    struct stat st;

    return f->fd >= 0 && fstat(f->fd, &st) == 0 && st.st_dev == f->dev && st.st_ino == f->ino;
}

void hook_fd_close(struct hook_fd *f)
{
    if (hook_fd_is_ours(f))
        (void)close(f->fd);
    *f = HOOK_NO_FD;
}

bool hook_is_disabled(void)
{
    static uint32_t known; /* 0 not read yet, 1 no, 2 yes: of the first look, as a changed environment surprises */
    uint32_t k = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (k == 0) {
        const char *text = getenv("KYMO_HOOK_DISABLE");

        k = text && strcmp(text, "1") == 0 ? 2 : 1;
        __atomic_store_n(&known, k, __ATOMIC_RELAXED);
    }
    return k == 2;
}

/* In the child, whose only thread is the one that forked: the parent's page and sockets are not its own. */
static void forked(void)
{
    int saved = errno;

    if (hook_page)
        (void)munmap(hook_page, sizeof *hook_page);
    hook_page = NULL;
    hook_live_word = &not_live;
    hook_fd_close(&hook_page_fd);
    hook_talk_forked();
    hook_capture_forked();
    hook_model_clear();
    errno = saved;
}

static void install_fork_handler(void)
{
    (void)pthread_atfork(NULL, NULL, forked);
}

static void *map(int flags, int fd, size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

    if (p == MAP_FAILED)
        return NULL;
    return p;
}

/* Sealed before anybody else sees it: a page that could shrink would be a SIGBUS in the job. */
static struct kymo_hook_page *shared_page(void)
{
    struct kymo_hook_page *p = NULL;
    int fd = memfd_create("kymo-hook-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return NULL;
    if (ftruncate(fd, sizeof *p) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        p = map(MAP_SHARED, fd, sizeof *p);
    if (p)
        hook_page_fd = hook_fd_take(fd);
    else
        (void)close(fd);
    return p;
}

static void fill_page(struct kymo_hook_page *p)
{
    p->layout = KYMO_HOOK_PAGE_LAYOUT;
    p->size = sizeof *p;
    p->models = KYMO_HOOK_MODELS;
    p->model_offset = offsetof(struct kymo_hook_page, slots);
    p->model_size = sizeof(struct kymo_hook_model_slot);
    p->buckets = KYMO_HOOK_BUCKETS;
    p->bucket_shift = KYMO_HOOK_BUCKET_SHIFT;
    p->pid = (uint32_t)getpid();
    __atomic_store_n(&p->magic, KYMO_HOOK_PAGE_MAGIC, __ATOMIC_RELEASE);
}

bool hook_state_begin(void)
{
    if (hook_page)
        return true;
    if (!live) {
        live = map(MAP_PRIVATE | MAP_ANONYMOUS, -1, sizeof *live);
        if (!live)
            return false;
        (void)madvise(live, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK);
    }
    hook_page = shared_page();
    if (!hook_page)
        hook_page = map(MAP_PRIVATE | MAP_ANONYMOUS, -1, sizeof *hook_page);
    if (!hook_page)
        return false;
    fill_page(hook_page);
    (void)pthread_once(&fork_handler, install_fork_handler);
    return true;
}

void hook_state_live(bool on)
{
    __atomic_store_n(live, on ? 1u : 0u, __ATOMIC_RELEASE);
    __atomic_store_n(&hook_live_word, live, __ATOMIC_RELEASE);
}

void hook_state_set(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}
