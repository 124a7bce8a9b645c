#include "tests/unit/hook_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define PAGE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

int hook_client_memfd(const void *data, size_t n, unsigned seals)
{
    int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if ((data && write(fd, data, n) != (ssize_t)n) || (!data && ftruncate(fd, (off_t)n) < 0) ||
        fcntl(fd, F_ADD_SEALS, seals) < 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

bool hook_client_open(struct hook_client *c, const char *socket_path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    *c = (struct hook_client){.intake = -1};
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", socket_path);
    c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    c->page_fd = hook_client_memfd(NULL, sizeof *c->page, PAGE_SEALS);
    c->page = mmap(NULL, sizeof *c->page, PROT_READ | PROT_WRITE, MAP_SHARED, c->page_fd, 0);
    if (c->page == MAP_FAILED || connect(c->fd, (const struct sockaddr *)&a, sizeof a) < 0)
        return false;
    c->page->magic = KYMO_HOOK_PAGE_MAGIC;
    c->page->layout = KYMO_HOOK_PAGE_LAYOUT;
    c->page->size = sizeof *c->page;
    c->page->models = KYMO_HOOK_MODELS;
    return true;
}

void hook_client_close(struct hook_client *c)
{
    if (c->page && c->page != MAP_FAILED)
        (void)munmap(c->page, sizeof *c->page);
    (void)close(c->page_fd);
    (void)close(c->fd);
    if (c->intake >= 0)
        (void)close(c->intake);
    *c = (struct hook_client){.fd = -1, .page_fd = -1, .intake = -1, .closed = true};
}

bool hook_client_send(struct hook_client *c, const void *data, size_t n, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    union {
        const void *in;
        void *out;
    } base = {data};
    struct iovec iov = {.iov_base = base.out, .iov_len = n};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
        control.header =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    return sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

bool hook_client_say(struct hook_client *c, uint16_t type, void *packet, uint32_t size, int fd)
{
    const struct kymo_hook_header h = {.size = size, .type = type, .version = 1, .seq = ++c->seq};
    memcpy(packet, &h, sizeof h);
    return hook_client_send(c, packet, size, fd);
}

void hook_client_hello(struct hook_client *c, uint32_t flags)
{
    struct kymo_hook_hello h = {.version_min = 1,
                                .version_max = 1,
                                .pid = (uint32_t)getpid(),
                                .flags = flags,
                                .page_size = sizeof *c->page,
                                .hook_version = "0.1.0",
                                .program = "client"};
    (void)hook_client_say(c, KYMO_HOOK_HELLO, &h, sizeof h, c->page_fd);
}

void hook_client_state(struct hook_client *c, uint32_t state)
{
    struct kymo_hook_state_msg m = {.state = state, .answered = 1};
    (void)hook_client_say(c, KYMO_HOOK_STATE, &m, sizeof m, -1);
}

void hook_client_loaded(struct hook_client *c, uint32_t model, int32_t vnc, const void *data, size_t n)
{
    const unsigned seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    struct kymo_hook_loaded m = {.model = model, .vnc = vnc, .vnc_count = 1, .neff_bytes = n, .slot = model - 1};
    int fd = data ? hook_client_memfd(data, n, seals) : -1;
    m.flags = data ? KYMO_HOOK_NEFF_ATTACHED : KYMO_HOOK_NEFF_FAILED;
    c->page->slots[model - 1].model = model;
    (void)hook_client_say(c, KYMO_HOOK_LOADED, &m, sizeof m, fd);
    if (fd >= 0)
        (void)close(fd);
}

void hook_client_captured(struct hook_client *c, const char *id, uint32_t mode, uint32_t model)
{
    struct kymo_hook_captured m = {.mode = (uint16_t)mode,
                                   .asked = (uint16_t)mode,
                                   .model = model,
                                   .first_execution = 7,
                                   .executions = 1,
                                   .start_unix_ns = 1000,
                                   .end_unix_ns = 2000,
                                   .stall_ns = 300,
                                   .stall_max_ns = 200};
    (void)snprintf(m.id, sizeof m.id, "%s", id);
    (void)hook_client_say(c, KYMO_HOOK_CAPTURED, &m, sizeof m, -1);
}

void hook_client_refused(struct hook_client *c, const char *id, uint32_t reason, const char *text)
{
    struct kymo_hook_refused m = {.reason = reason, .mode = KYMO_HOOK_MODE_MODEL};
    (void)snprintf(m.id, sizeof m.id, "%s", id);
    (void)snprintf(m.text, sizeof m.text, "%s", text);
    (void)hook_client_say(c, KYMO_HOOK_REFUSED, &m, sizeof m, -1);
}

void hook_client_poll(struct hook_client *c)
{
    for (int i = 0; i < 16 && !c->closed; i++) {
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
        struct kymo_hook_policy p = {0};
        struct iovec iov = {.iov_base = &p, .iov_len = sizeof p};
        struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        ssize_t n = recvmsg(c->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EAGAIN)
            return;
        c->closed = n <= 0;
        c->neffs_done += n == (ssize_t)sizeof(struct kymo_hook_neff_done) && p.header.type == KYMO_HOOK_NEFF_DONE;
        if (n != (ssize_t)sizeof p)
            continue;
        c->policy = p;
        c->policies++;
        if (!CMSG_FIRSTHDR(&m))
            continue;
        if (c->intake >= 0)
            (void)close(c->intake);
        memcpy(&c->intake, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof c->intake);
    }
}

void hook_client_write(struct hook_client *c, const char *name, const char *file, const char *text)
{
    char path[256];
    const char *slash = strchr(file, '/');
    (void)mkdirat(c->intake, name, 0777);
    if (slash) {
        (void)snprintf(path, sizeof path, "%s/%.*s", name, (int)(slash - file), file);
        (void)mkdirat(c->intake, path, 0777);
    }
    (void)snprintf(path, sizeof path, "%s/%s", name, file);
    int fd = openat(c->intake, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    if (write(fd, text, strlen(text)) < 0)
        (void)unlinkat(c->intake, path, 0);
    (void)close(fd);
}
