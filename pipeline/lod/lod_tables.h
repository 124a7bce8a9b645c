/* Makes the table LevelOfDetail: from any zoom of the timeline, a few rows per pixel and track (lod.h). */
#ifndef KYMO_PIPELINE_LOD_LOD_TABLES_H
#define KYMO_PIPELINE_LOD_LOD_TABLES_H

#include "pipeline/consumer.h"

extern const struct consumer lod_consumer;

#endif
