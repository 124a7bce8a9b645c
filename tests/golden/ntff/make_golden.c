/*
 * Writes the sample profiles of tests/unit/ntff_sample.c as files: `make_ntff_golden DIR PREFIX`. The files of a
 * version that are checked in are never made again: they must stay readable for ever. A new version gets a new prefix.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "tests/unit/ntff_sample.h"

int main(int argc, char **argv)
{
    if (argc != 3) {
        (void)fprintf(stderr, "usage: make_ntff_golden DIR PREFIX\n");
        return 2;
    }
    for (int kind = 0; kind < NTFF_SAMPLE_MAX; kind++) {
        struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new((enum ntff_sample_kind)kind);
        char *path KYMO_FREE =
            kymo_asprintf("%s/%s-%s.ntff", argv[1], argv[2], ntff_sample_name((enum ntff_sample_kind)kind));
        struct kymo_err err = {.text = "out of memory"};
        if (!path || ntff_sample_write(s, path, &err) < 0) {
            (void)fprintf(stderr, "make_ntff_golden: %s\n", err.text);
            return 1;
        }
    }
    char *path KYMO_FREE = kymo_asprintf("%s/%s-foreign.ntff", argv[1], argv[2]);
    if (!path)
        return 1;
    ntff_sample_write_foreign(path);
    return 0;
}
