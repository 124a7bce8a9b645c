/* The table TimelineWarning: ranges of time that show a known pattern or lack data, as bands over the timeline. */
#ifndef KYMO_PIPELINE_SUMMARY_TIMELINE_WARNINGS_H
#define KYMO_PIPELINE_SUMMARY_TIMELINE_WARNINGS_H

#include "pipeline/consumer.h"

extern const struct consumer timeline_warnings;

#endif
