/*
 * The spool's side of its bench. usage: bench_spool SPOOL copy|link|rename FILE...: publishes each file as a capture of
 * its own and prints bytes and nanoseconds from the first to the last acknowledged publication.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/spool/spool.h"

int main(int argc, char **argv)
{
    struct spool *s;
    struct kymo_err err = {0};
    if (argc < 4)
        return 2;
    enum spool_how how = strcmp(argv[2], "rename") == 0 ? SPOOL_RENAME
                         : strcmp(argv[2], "link") == 0 ? SPOOL_LINK
                                                        : SPOOL_COPY;
    int r = spool_open(argv[1], NULL, &s, &err);
    uint64_t bytes = 0, start = kymo_clock_mono_ns();
    for (int i = 3; r == 0 && i < argc; i++) {
        struct spool_capture *c;
        struct spool_file f = {0};
        char id[32];
        (void)snprintf(id, sizeof id, "capture-%d", i);
        r = spool_begin(s, id, &c, &err);
        if (r == 0)
            r = spool_take(c, argv[i], "x.ntff", how, &f, &err);
        if (r == 0)
            r = spool_publish(c, "manifest", 8, NULL, &err);
        bytes += r == 0 ? f.size : 0;
    }
    if (r < 0) {
        (void)fprintf(stderr, "bench_spool: %s\n", err.text);
        return 1;
    }
    printf("%llu %llu\n", (unsigned long long)bytes, (unsigned long long)(kymo_clock_mono_ns() - start));
    spool_close(s);
    return 0;
}
