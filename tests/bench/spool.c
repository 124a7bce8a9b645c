/*
 * The spool's side of its bench. usage: bench_spool SPOOL copy|link|rename FILE...: publishes each file as a capture of
 * its own and prints bytes and nanoseconds from the first to the last acknowledged publication.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/spool/spool.h"
#include "proto/manifest.pb-c.h"

/* One that a collector takes, since another bench sends what this one made. */
static int publish(struct spool_capture *c, char *id, struct spool_file *f, struct kymo_err *err)
{
    char mode[] = "model", job[] = "bench";
    uint8_t packed[1024];
    Kymo__Manifest__File file = KYMO__MANIFEST__FILE__INIT, *files[] = {&file};
    Kymo__Manifest__Capture m = KYMO__MANIFEST__CAPTURE__INIT;
    file.name = f->name;
    file.has_type = file.has_size = file.has_sha256 = 1;
    file.type = KYMO__MANIFEST__FILE__KIND__NTFF;
    file.size = f->size;
    file.sha256 = (ProtobufCBinaryData){sizeof f->sha256, f->sha256};
    m.has_version = 1;
    m.version = 1;
    m.capture_id = id;
    m.job = job;
    m.mode = mode;
    m.files = files;
    m.n_files = 1;
    if (protobuf_c_message_get_packed_size(&m.base) > sizeof packed)
        return kymo_err_set(err, -EMSGSIZE, "too large a manifest");
    return spool_publish(c, packed, protobuf_c_message_pack(&m.base, packed), NULL, err);
}

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
            r = publish(c, id, &f, &err);
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
