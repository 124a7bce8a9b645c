#include "collector/query/export_tables.h"

#include <stddef.h>
#include <string.h>

#define SPAN .start = "start_ts", .end = "end_ts"
#define SAMPLE .start = "timestamp"

const struct export_table export_tables[] = {
    {.name = "Instruction", SPAN, .track = "engine || $NC", .columns = "engine", .usual = true},
    {.name = "DmaPacketAggregated",
     SPAN,
     .track = "coalesce(nullif(queue_name, ''), 'DMA queue ' || queue_idx) || $NC",
     .columns = "queue_name queue_idx",
     .usual = true},
    {.name = "DmaPacket", SPAN, .track = "'DMA-E' || engine_idx || $NC", .columns = "engine_idx", .usual = true},
    {.name = "CcInstruction", SPAN, .track = "'CC-Core ' || core_idx", .columns = "core_idx", .usual = true},
    {.name = "SemaphoreUpdate", SAMPLE, .track = "'Semaphore ' || id || $NC", .columns = "id", .usual = true},
    {.name = "HostDmaTransfer", SPAN, .track = "'Host-device DMA-E' || engine_idx", .columns = "engine_idx"},
    {.name = "CcOp", SPAN, .track = "'Collectives, stream ' || stream_id", .columns = "stream_id"},
    {.name = "CoreBarriers", SPAN, .track = "'Core barriers' || $NC", .columns = ""},
    {.name = "Throttle", SAMPLE, .track = "'Throttling' || $NC", .columns = ""},
    {.name = "Error", SAMPLE, .track = "'Errors' || $NC", .columns = ""},
    {.name = "TimelineWarning", SPAN, .track = "'Warnings' || $NC", .columns = ""},
    {.name = "ExecutionInfo",
     .start = "execution_start_ts",
     .end = "execution_end_ts",
     .track = "'Executions'",
     .columns = ""},
    {.name = "ActiveTime", SPAN, .track = "engine || $NC", .columns = "engine"},
    {.name = "PartialEvent", .start = "ts", .track = "ring", .columns = "ring"},
    {.name = "FrameworkInstruction", SPAN, .track = "'Framework' || $NC", .columns = ""},
    {.name = "FrameworkNode", SPAN, .track = "'Framework' || $NC", .columns = ""},
    {.name = "HloInstruction", SPAN, .track = "'HLO' || $NC", .columns = ""},
    {.name = "PenguinInstruction", SPAN, .track = "'Penguin' || $NC", .columns = ""},
    {.name = "BirInstruction", SPAN, .track = "'BIR' || $NC", .columns = ""},
    {.name = "SbufAllocation", SPAN, .track = "'SBUF partition ' || partition || $NC", .columns = "partition"},
    {.name = "DmaUsage", SAMPLE, .track = "'DMA Throughput' || $NC", .columns = ""},
    {.name = "HbmUsage", SAMPLE, .track = "'HBM Throughput' || $NC", .columns = ""},
    {.name = "PendingDma", SAMPLE, .track = "'Pending DMA' || $NC", .columns = ""},
    {.name = "SbufUsage", SAMPLE, .track = "'SBUF Usage' || $NC", .columns = ""},
    {.name = "PsumUsage", SAMPLE, .track = "'PSUM Usage' || $NC", .columns = ""},
    {.name = "SystemProfileEvents",
     SPAN,
     .track = "instance_id || ' pid ' || process_id || ' ' || trace_event_source || CASE WHEN trace_event_source = "
              "'neuron_hw' THEN coalesce(' nc' || nc_idx, '') ELSE ' thread ' || thread_id END",
     .columns = "instance_id process_id trace_event_source thread_id nc_idx",
     .usual = true},
    {.name = "SystemProfileHbmUsage",
     SAMPLE,
     .track = "'nd' || device_idx || ' HBM ' || hbm_idx",
     .columns = "device_idx hbm_idx",
     .usual = true},
    {.name = "CpuUsage", SAMPLE, .track = "'CPU ' || cpu_id", .columns = "cpu_id", .usual = true},
    {.name = "HostMemUsage", SAMPLE, .track = "'Host memory'", .columns = "", .usual = true},
    {0},
};

const struct export_table *export_tables_find(const char *name)
{
    for (const struct export_table *t = export_tables; t->name; t++)
        if (!strcmp(t->name, name))
            return t;
    return NULL;
}
