/* The manifest under which what a user uploaded enters the raw store. */
#ifndef KYMO_COLLECTOR_UPLOAD_MANIFEST_H
#define KYMO_COLLECTOR_UPLOAD_MANIFEST_H

#include "collector/upload.h"
#include "proto/manifest_check.h"

#define UPLOAD_NO_FILE SIZE_MAX
#define UPLOAD_SOURCES "sources" /* folder of source texts in a capture */

struct upload;

struct upload_manifest {
    uint8_t *data;
    size_t n;
    char id[MANIFEST_ID_MAX + 1];
    size_t *places; /* of each file of the manifest in the upload; UPLOAD_NO_FILE: a NEFF that may be in the store */
    bool *used;     /* of each file of the upload: the manifest has it */
};

/*
 * With a manifest.pb among the files that one, once all that it lists is there, of the size and the hash that it says;
 * else one made of names: NTFFs, NEFFs, system traces, ready tables by their folder, source texts. -EINVAL with what is
 * missing or wrong. Reads no file but manifest.pb.
 */
int upload_manifest_make(const struct upload *u, struct upload_manifest *ret, struct kymo_err *err) KYMO_MUST_CHECK;
void upload_manifest_done(struct upload_manifest *m);

#endif
