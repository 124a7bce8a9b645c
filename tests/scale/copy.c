/*
 * What an ingest cannot do without: captures of one NTFF written below a directory with the store's order of names and
 * syncs (collector/RAW_STORE.md), by one thread, without network, hashes and catalogue.
 *
 * usage: scale_copy DIR CAPTURES NTFF    prints "seconds=S bytes=N"
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"

#define FILE_MAX (256u << 20)
#define MANIFEST_BYTES 240u

static char incoming[PATH_MAX], captures[PATH_MAX];

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    perror(what);
    exit(1);
}

static void sync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(fd >= 0 && fsync(fd) == 0, path);
    (void)close(fd);
}

static void write_file(const char *path, const void *data, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    must(fd >= 0 && write(fd, data, n) == (ssize_t)n && fsync(fd) == 0, path);
    (void)close(fd);
}

static const char *join(char out[static PATH_MAX], const char *a, const char *b)
{
    int n = snprintf(out, PATH_MAX, "%s/%s", a, b);
    must(n > 0 && n < PATH_MAX, "path too long");
    return out;
}

static void copy_one(unsigned long number, const uint8_t *data, size_t n)
{
    static const uint8_t manifest[MANIFEST_BYTES];
    char id[32], place[PATH_MAX], tree[PATH_MAX], from[PATH_MAX], to[PATH_MAX];
    (void)snprintf(id, sizeof id, "%08lu", number);
    must(mkdir(join(place, incoming, id), 0777) == 0 && mkdir(join(tree, place, "tree"), 0777) == 0, place);
    write_file(join(from, tree, "manifest.pb.tmp"), manifest, sizeof manifest);
    must(rename(from, join(to, tree, "manifest.pb")) == 0, to);
    sync_dir(tree);
    sync_dir(place);
    sync_dir(incoming);
    write_file(join(from, place, "part-0"), data, n);
    must(rename(from, join(to, tree, "profile_nc_0.ntff")) == 0, to);
    sync_dir(tree);
    sync_dir(tree);
    must(rename(tree, join(to, captures, id)) == 0, to);
    sync_dir(captures);
    must(rmdir(place) == 0, place);
}

int main(int argc, char **argv)
{
    uint8_t *data = NULL;
    size_t n = 0;
    struct kymo_err err = {0};
    unsigned long count = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    if (count == 0) {
        (void)fprintf(stderr, "usage: scale_copy DIR CAPTURES NTFF\n");
        return 2;
    }
    if (kymo_file_read_all(argv[3], FILE_MAX, &data, &n, &err) < 0) {
        (void)fprintf(stderr, "scale_copy: %s\n", err.text);
        return 1;
    }
    must(mkdir(argv[1], 0777) == 0 && mkdir(join(incoming, argv[1], "incoming"), 0777) == 0 &&
             mkdir(join(captures, argv[1], "captures"), 0777) == 0,
         argv[1]);
    uint64_t start = kymo_clock_mono_ns();
    for (unsigned long i = 0; i < count; i++)
        copy_one(i, data, n);
    printf("seconds=%.6f bytes=%llu\n", (double)(kymo_clock_mono_ns() - start) / 1e9, (unsigned long long)n * count);
    kymo_free(data);
    return 0;
}
