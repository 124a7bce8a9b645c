#include "collector/query/query_verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"

#define RING_TEXT_MAX 256

/*
 * Ring labels are those of kymo_ring_label, and of pipeline/system_*.c for a system profile, whose rows know of how
 * many records they were made. A row of Instruction, DmaPacket, HostDmaTransfer, CcOp and CcInstruction is made of two
 * records, one of SemaphoreUpdate, CcSemaphoreUpdate, Throttle and Error of one.
 */
#define TABLE_RECORDS                                                                                                  \
    "SELECT 'INSTRUCTION(nc' || coalesce(pcore_idx, 0) || ')' AS ring, 2 * count(*) AS records FROM Instruction "      \
    "GROUP BY 1 "                                                                                                      \
    "UNION ALL SELECT 'EVENT(nc' || coalesce(pcore_idx, 0) || ')', count(*) FROM SemaphoreUpdate GROUP BY 1 "          \
    "UNION ALL SELECT 'DMA-E' || engine_idx || '(nc' || coalesce(pcore_idx, 0) || ')', 2 * count(*) FROM DmaPacket "   \
    "GROUP BY 1 "                                                                                                      \
    "UNION ALL SELECT 'H2D_DMA-E' || engine_idx, 2 * count(*) FROM HostDmaTransfer GROUP BY 1 "                        \
    "UNION ALL SELECT 'CC_CORE_INSTRUCTION-' || core_idx, 2 * count(*) FROM CcOp GROUP BY 1 "                          \
    "UNION ALL SELECT 'CC_CORE_INSTRUCTION-' || core_idx, 2 * count(*) FROM CcInstruction GROUP BY 1 "                 \
    "UNION ALL SELECT 'CC_CORE_EVENT-' || core_idx, count(*) FROM CcSemaphoreUpdate GROUP BY 1 "                       \
    "UNION ALL SELECT ring, count(*) FROM Throttle GROUP BY 1 "                                                        \
    "UNION ALL SELECT ring, count(*) FROM Error GROUP BY 1 "                                                           \
    "UNION ALL SELECT CASE WHEN trace_event_source = 'framework' THEN 'trace.json' "                                   \
    "ELSE 'SYSTEM(nc' || coalesce(nc_idx, -1) || ')' END, sum(trace_records) FROM SystemProfileEvents GROUP BY 1 "     \
    "UNION ALL SELECT 'cpu_util.pb', count(*) FROM CpuUsage WHERE cpu_id <> 'average' GROUP BY 1 "                     \
    "UNION ALL SELECT 'host_mem.pb', count(*) FROM HostMemUsage GROUP BY 1"

#define SQL                                                                                                            \
    "WITH ledger AS (SELECT ring, bool_or(emitted_records IS NULL) AS uncounted, "                                     \
    "bool_or(lost_unknown OR lost_records IS NULL) AS open, coalesce(sum(emitted_records), 0)::BIGINT AS emitted, "    \
    "coalesce(sum(row_records), 0)::BIGINT AS rows, coalesce(sum(partial_records), 0)::BIGINT AS partial, "            \
    "coalesce(sum(other_records), 0)::BIGINT AS other, coalesce(sum(unknown_records), 0)::BIGINT AS unknown, "         \
    "coalesce(sum(lost_records), 0)::BIGINT AS lost "                                                                  \
    "FROM LossLedger WHERE stage IN ('device_ring', 'runtime') GROUP BY ring), "                                       \
    "tables AS (SELECT ring, sum(records)::BIGINT AS records FROM (" TABLE_RECORDS ") GROUP BY ring), "                \
    "partials AS (SELECT ring, count(*)::BIGINT AS records FROM PartialEvent GROUP BY ring) "                          \
    "SELECT coalesce(l.ring, t.ring, p.ring) AS ring, coalesce(l.uncounted, true) AS uncounted, "                      \
    "coalesce(l.open, true) AS open, coalesce(l.emitted, 0), coalesce(l.rows, 0), coalesce(l.partial, 0), "            \
    "coalesce(l.other, 0), coalesce(l.unknown, 0), coalesce(l.lost, 0), coalesce(t.records, 0), "                      \
    "coalesce(p.records, 0), l.ring IS NULL AS unledgered "                                                            \
    "FROM ledger l FULL JOIN tables t ON l.ring = t.ring FULL JOIN partials p ON coalesce(l.ring, t.ring) = p.ring "   \
    "ORDER BY 1"

enum { RING, UNCOUNTED, OPEN, EMITTED, ROWS, PARTIAL, OTHER, UNKNOWN, LOST, IN_TABLE, IN_PARTIAL, UNLEDGERED, COLUMNS };

struct verifier {
    FILE *out;
    enum query_verdict worst;
    size_t rings;
};

const char *query_verdict_name(enum query_verdict v)
{
    static const char *const names[] = {
        [QUERY_CLOSED] = "closed",
        [QUERY_UNVERIFIABLE] = "unverifiable",
        [QUERY_OPEN] = "open",
        [QUERY_VIOLATED] = "violated",
    };
    return names[v];
}

static int64_t number(const char *const *values, int column)
{
    return values[column] ? strtoll(values[column], NULL, 10) : 0;
}

static bool flag(const char *const *values, int column)
{
    return values[column] && !strcmp(values[column], "true");
}

static enum query_verdict judge(const char *const *v, const char **ret_why)
{
    int64_t accounted = number(v, ROWS) + number(v, PARTIAL) + number(v, OTHER) + number(v, UNKNOWN) + number(v, LOST);
    *ret_why = "";
    if (flag(v, UNLEDGERED))
        *ret_why = "rows of a ring that LossLedger does not know";
    else if (number(v, IN_TABLE) != number(v, ROWS))
        *ret_why = "the table's rows differ from LossLedger";
    else if (number(v, IN_PARTIAL) != number(v, PARTIAL))
        *ret_why = "PartialEvent's rows differ from LossLedger";
    if (**ret_why)
        return QUERY_VIOLATED;
    if (flag(v, UNCOUNTED)) {
        *ret_why = "no counter for this ring, or counters that contradict the stored records";
        return QUERY_UNVERIFIABLE;
    }
    if (flag(v, OPEN)) {
        *ret_why = "records were lost, their number is not known";
        return QUERY_OPEN;
    }
    if (accounted != number(v, EMITTED)) {
        *ret_why = "the sum is not what was emitted";
        return QUERY_VIOLATED;
    }
    return QUERY_CLOSED;
}

static int print_ring(void *ctx, size_t columns, const char *const *v)
{
    struct verifier *f = ctx;
    if (columns != COLUMNS || !v[RING])
        return -EPROTO;
    const char *why;
    enum query_verdict verdict = judge(v, &why);
    if (verdict > f->worst)
        f->worst = verdict;
    f->rings++;
    char ring[RING_TEXT_MAX];
    (void)kymo_plain_copy(ring, sizeof ring, v[RING]);
    (void)fprintf(f->out, "%-24s", ring);
    for (int c = EMITTED; c <= LOST; c++)
        (void)fprintf(f->out, " %12s", c == EMITTED && flag(v, UNCOUNTED) ? "?" : v[c]);
    (void)fprintf(f->out, "  %s%s%s\n", query_verdict_name(verdict), *why ? ": " : "", why);
    return ferror(f->out) ? -EIO : 0;
}

/* Losses on the way from the host to the tables: they are told, not balanced. */
static int print_stage(void *ctx, size_t columns, const char *const *v)
{
    struct verifier *f = ctx;
    if (columns != 4)
        return -EPROTO;
    static const char *const before[] = {"lost at ", ", ", ", ", ": "};
    for (int i = 0; i < 4; i++) {
        (void)fputs(before[i], f->out);
        kymo_plain_print(f->out, v[i] ? v[i] : i == 3 ? "an unknown number of" : "-");
    }
    (void)fputs(" records\n", f->out);
    return ferror(f->out) ? -EIO : 0;
}

/*
 * What must hold within a system profile beside its counts. HBM classes: the columns of SystemProfileHbmUsage in bytes,
 * but total_bytes.
 */
#define HBM_CLASSES                                                                                                    \
    "generic_bytes + tensor_instructions_bytes + scalar_instructions_bytes + gpsimd_instructions_bytes + io_bytes + "  \
    "dram_spill_bytes + weights_bytes + profiler_buffers_bytes + scalar_table_bytes + vector_instructions_bytes + "    \
    "sync_instructions_bytes + shared_scratchpad_bytes + tensors_bytes + ucode_lib_bytes + gpsimd_stdio_bytes + "      \
    "collectives_bytes + scratchpad_bytes + dma_rings_runtime_bytes + dma_rings_spill_bytes + dma_rings_io_bytes + "   \
    "dma_rings_collectives_bytes + unknown_bytes"

#define SYSTEM_SQL                                                                                                     \
    "SELECT 'SystemProfileHbmUsage.total_bytes is the sum of the classes' AS rule, count(*) AS rows, "                 \
    "count(*) FILTER (WHERE total_bytes <> " HBM_CLASSES ") AS wrong FROM SystemProfileHbmUsage "                      \
    "UNION ALL SELECT 'SystemProfileEvents.duration_ns is end_ts less start_ts, and not negative', count(*), "         \
    "count(*) FILTER (WHERE duration_ns < 0 OR duration_ns <> end_ts - start_ts) FROM SystemProfileEvents "            \
    "UNION ALL SELECT 'SystemProfileMetadata spans all events', count(*), "                                            \
    "count(*) FILTER (WHERE start_ts < m.first OR end_ts > m.last) FROM SystemProfileEvents, "                         \
    "(SELECT first_ts_ns::BIGINT AS first, last_ts_ns::BIGINT AS last FROM SystemProfileMetadata WHERE first_ts_ns "   \
    "<> '') m"

static int print_rule(void *ctx, size_t columns, const char *const *v)
{
    struct verifier *f = ctx;
    if (columns != 3 || !v[0])
        return -EPROTO;
    int64_t rows = number(v, 1), wrong = number(v, 2);
    if (!rows)
        return 0;
    (void)fprintf(f->out, "%s: ", v[0]);
    if (wrong) {
        (void)fprintf(f->out, "violated by %s of %s rows\n", v[2], v[1]);
        f->worst = QUERY_VIOLATED;
    } else {
        (void)fprintf(f->out, "holds for %s rows\n", v[1]);
    }
    return ferror(f->out) ? -EIO : 0;
}

int query_verify(struct query_db *db, FILE *out, enum query_verdict *ret, struct kymo_err *err)
{
    struct verifier f = {.out = out};
    (void)fprintf(out, "%-24s %12s %12s %12s %12s %12s %12s  %s\n", "ring", "emitted", "rows", "partial", "other",
                  "unknown", "lost", "verdict");
    const struct query_sink rings = {.row = print_ring, .ctx = &f};
    int r = query_db_run(db, SQL, &rings, err);
    if (r < 0)
        return r;
    if (!f.rings)
        return kymo_err_set(err, -ENODATA, "the profile has no LossLedger: nothing can be verified");
    const struct query_sink stages = {.row = print_stage, .ctx = &f};
    r = query_db_run(
        db,
        "SELECT stage, ring, cause, lost_records FROM LossLedger WHERE stage NOT IN ('device_ring', 'runtime') "
        "ORDER BY stage, ring",
        &stages, err);
    if (r < 0)
        return r;
    const struct query_sink rules = {.row = print_rule, .ctx = &f};
    r = query_db_run(db, SYSTEM_SQL, &rules, err);
    if (r < 0)
        return r;
    (void)fprintf(out, "%zu rings: %s\n", f.rings, query_verdict_name(f.worst));
    *ret = f.worst;
    return 0;
}
