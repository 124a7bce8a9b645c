#include "daemon/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "daemon/process.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static void read_boot_id(struct host *h)
{
    char text[64] = "";
    int fd KYMO_CLOSE = kymo_file_open(BOOT_ID, O_RDONLY, 0, NULL);
    ssize_t n = fd >= 0 ? kymo_file_ops()->pread(fd, text, sizeof text - 1, 0) : 0;
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    kymo_utf8_copy_plain(h->boot_id, sizeof h->boot_id, text, strlen(text));
}

static void make_mark(struct host *h)
{
    uint8_t sha256[KYMO_SHA256_SIZE] = {0};
    char text[sizeof h->name + sizeof h->boot_id + 1];
    int n = snprintf(text, sizeof text, "%s/%s", h->name, h->boot_id);
    (void)!kymo_hash_sha256(text, (size_t)n, sha256);
    kymo_hash_hex(sha256, sizeof h->mark / 2, h->mark);
}

int host_read(const struct config *c, struct host *ret, struct kymo_err *err)
{
    char name[256] = "localhost";
    *ret = (struct host){0};
    (void)gethostname(name, sizeof name - 1);
    const char *wanted = c->host ? c->host : name;
    kymo_utf8_copy_plain(ret->name, sizeof ret->name, wanted, strlen(wanted));
    read_boot_id(ret);
    make_mark(ret);
    int r = sysfs_init(&ret->sysfs, c->sysfs, err);
    if (r < 0)
        return r;
    ret->has_driver = sysfs_read_host(&ret->sysfs, &ret->devices, NULL) == 0;
    (void)snprintf(ret->driver, sizeof ret->driver, "%s", ret->devices.driver_version);
    (void)snprintf(ret->instance, sizeof ret->instance, "%s",
                   c->instance_type ? c->instance_type : ret->devices.instance);
    return 0;
}
