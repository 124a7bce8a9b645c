/* Manifests: what is accepted keeps its promises, and names of profiles are names of directories. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/manifest_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Kymo__Manifest__Capture *m = NULL;
    struct kymo_err err = {0};
    if (manifest_parse(data, size, &m, &err) < 0) {
        check(!m && err.text[0]);
        return 0;
    }
    check(manifest_is_id(m->capture_id) && m->n_files <= MANIFEST_FILES_MAX);
    for (size_t i = 0; i < m->n_files; i++) {
        char name[MANIFEST_PROFILE_NAME_MAX + 1];
        check(manifest_is_file_name(m->files[i]->name) && m->files[i]->sha256.len == 32);
        manifest_file_profile_name(m, i, name);
        check(*name && *name != '.' && !strchr(name, '/'));
    }
    manifest_freep(&m);
    return 0;
}
