/* Feeds each file of the named directories to a fuzz target's entry point: corpus replay without libFuzzer. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

#define INPUT_MAX (64u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    uint8_t *data KYMO_FREE = NULL;
    size_t size;
    struct kymo_err err = {0};
    if (kymo_file_read_all(path, INPUT_MAX, &data, &size, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    return LLVMFuzzerTestOneInput(data, size);
}

static long replay_dir(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) {
        (void)fprintf(stderr, "%s: cannot list\n", path);
        return -1;
    }
    long n = 0;
    for (const struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        char *child KYMO_FREE = kymo_asprintf("%s/%s", path, e->d_name);
        if (!child || replay_file(child) < 0) {
            n = -1;
            break;
        }
        n++;
    }
    (void)closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    long total = 0;
    for (int i = 1; i < argc; i++) {
        long n = replay_dir(argv[i]);
        if (n < 0)
            return 1;
        total += n;
    }
    /* An empty corpus would be a test that cannot fail. */
    if (total == 0) {
        (void)fprintf(stderr, "no input was replayed\n");
        return 1;
    }
    printf("%ld inputs replayed\n", total);
    return 0;
}
