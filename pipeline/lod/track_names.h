/* What tracks of the timeline are called, where it is not a column of a table that says so. */
#ifndef KYMO_PIPELINE_LOD_TRACK_NAMES_H
#define KYMO_PIPELINE_LOD_TRACK_NAMES_H

#include <stddef.h>

#include "pipeline/job.h"

#define TRACK_NAME_MAX 320

/* Packets by engine and, with a queue set's name (NULL: not known), by queue: DMA-E0(nc1), DMA-E0 qSyncIO0(nc1). */
void track_name_engine(const struct job *j, uint32_t phys, char out[TRACK_NAME_MAX]);
void track_name_queue(const struct job *j, uint32_t phys, const char *set, char out[TRACK_NAME_MAX]);
/* Transfers by queue set; DMA_NONE: those of none that is known. */
void track_name_transfers(const struct job *j, uint32_t set, char out[TRACK_NAME_MAX]);
/* Host-device transfers, by the ring in scan.rings. */
void track_name_host(const struct job *j, uint32_t ring, char out[TRACK_NAME_MAX]);

/* Where an instruction runs. Matrix multiplications stay one track: their engine's compute side runs nothing else
 * beside them. */
enum track_part { TRACK_PART_SEQUENCER, TRACK_PART_COMPUTE, TRACK_PART_MATRIX, TRACK_PARTS };
enum track_part track_part_of(const struct static_row *row);
/* The track of the row where sequencer and compute side are apart. */
void track_name_part(const struct job *j, const struct static_row *row, char out[TRACK_NAME_MAX]);

#endif
