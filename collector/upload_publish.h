/* An upload whose files are all here becomes a capture of the store, on the store's thread. */
#ifndef KYMO_COLLECTOR_UPLOAD_PUBLISH_H
#define KYMO_COLLECTOR_UPLOAD_PUBLISH_H

#include "collector/upload.h"

struct upload;

/* 202 when what is to become of it is written down (entering.h). An error before that is the answer, and leaves the
 * upload as it is; a later one is its reason, and it may be tried again. */
void upload_publish(struct upload *u, struct http_request *q);

#endif
