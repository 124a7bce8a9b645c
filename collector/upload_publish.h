/* An upload whose files are all here becomes a capture of the store, on the store's thread. */
#ifndef KYMO_COLLECTOR_UPLOAD_PUBLISH_H
#define KYMO_COLLECTOR_UPLOAD_PUBLISH_H

#include "collector/upload.h"

struct upload;

/* Answers with the capture and its profiles. An error of the files' names or of a manifest leaves the upload as it is;
 * otherwise it is gone afterwards, whatever became of it. */
void upload_publish(struct upload *u, struct http_request *q);

#endif
