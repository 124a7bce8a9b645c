/*
 * One directory of tables, opened for the operations of kymo-query --serve: DuckDB with a view per table (query_db.h),
 * a second view of each in the schema's shape (schema k: all its columns, of its types, null where a file has none),
 * one view per kind of track over the events that it shows, and what is known of the directory as a whole. Made by one
 * thread, then shared by all.
 */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_DIR_H
#define KYMO_COLLECTOR_QUERY_SERVE_DIR_H

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "collector/query/query_bad.h"
#include "collector/query/query_damage.h"
#include "collector/query/query_db.h"
#include "collector/query/serve_sql.h"

#define SERVE_TRACKS_MAX 8192
#define SERVE_CORES_MAX 2
#define SERVE_OVERVIEW_MAX (64u << 20)
#define SERVE_LEVELS_MAX 32

/* X(name, group, dma grouping, split, table of the events, whether LevelOfDetail has it) */
#define SERVE_KINDS(X)                                                                                                 \
    X(instruction, "engine", NULL, "joined", "Instruction", true)                                                      \
    X(instruction_split, "engine", NULL, "split", "Instruction", true)                                                 \
    X(dma_engine, "dma", "engine", NULL, "DmaPacket", true)                                                            \
    X(dma_queue, "dma", "queue", NULL, "DmaPacket", true)                                                              \
    X(dma_transfer, "dma", "aggregated", NULL, "DmaPacketAggregated", true)                                            \
    X(host_dma, "host_dma", NULL, NULL, "HostDmaTransfer", true)                                                       \
    X(collective, "collective", NULL, NULL, "CcOp", false)                                                             \
    X(cc_instruction, "collective", NULL, NULL, "CcInstruction", false)                                                \
    X(barrier, "collective", NULL, NULL, "CoreBarriers", false)                                                        \
    X(throttle, "throttle", NULL, NULL, NULL, false)                                                                   \
    X(error, "error", NULL, NULL, NULL, false)

enum serve_kind {
#define X(name, group, dma, split, table, levels) SERVE_KIND_##name,
    SERVE_KINDS(X)
#undef X
        SERVE_KIND_MAX
};

struct serve_kind_row {
    const char *name, *group, *dma, *split, *table;
    bool levels;
};
extern const struct serve_kind_row serve_kinds[SERVE_KIND_MAX];

/* A track of events. */
struct serve_track {
    enum serve_kind kind;
    char *label, *id, *engine; /* id: kind:label, escaped; engine NULL: none */
    int64_t pcore;             /* -1: none */
    int64_t events;
    const char *split; /* joined, sequencer, compute; NULL: the switch does not change it */
};

/* What the tables of sums are about; the events of each have buckets of one width. */
enum serve_sums {
    SERVE_SUMS_PACKETS,
    SERVE_SUMS_TRANSFERS,
    SERVE_SUMS_HOST,
    SERVE_SUMS_INSTRUCTIONS,
    SERVE_SUMS_WAITS,
    SERVE_SUMS_MAX
};

struct serve_series_list;
struct serve_own;
struct serve_waits;

struct serve_dir {
    struct query_db *db;
    char *path;
    int cores;
    bool own_levels; /* LevelOfDetail is there */
    bool has_split;  /* executed_by is there */
    bool has_table[256];
    /*
     * Under damage_lock. Tables that are damaged inside: the first n_left_out it does without, others were found since,
     * and with them nobody looks again. Instructions that are damaged in places are shown where they are not.
     */
    struct query_bad damage;
    size_t n_left_out;
    char *bad_instructions; /* NULL: they can be read */
    uint64_t looked_stamp;  /* query_damage_stamp when somebody looked; 0: nobody has */
    size_t look_at;         /* where a search that was stopped goes on; SIZE_MAX: it was not */
    uint64_t opened_stamp;  /* query_damage_stamp when it was opened without damaged tables; else 0 */
    char *left_out;         /* names of damaged tables that this one does without, with commas; NULL: none */
    pthread_mutex_t damage_lock;
    int64_t from, to;
    double peak; /* FLOPs that one PE array can do in a nanosecond; 0: the tables do not say */
    int64_t buckets[SERVE_KIND_MAX][SERVE_LEVELS_MAX]; /* widths of the levels, the finest first; 0: no more */
    int64_t sums[SERVE_SUMS_MAX];                      /* width of a bucket; 0: there are none */
    int64_t summed[SERVE_SUMS_MAX];                    /* rows of the tables that they are about */
    struct serve_track *tracks;                        /* in the order in which to show them */
    size_t n_tracks;
    struct serve_series_list *series;
    struct serve_own *own;     /* its tables as files, where they are kymo's own */
    struct serve_waits *waits; /* serve_waits.h; NULL: what was counted is all that is known */
    pthread_mutex_t lock;      /* of what is made when first asked for: */
    bool has_coarse[256];      /* by table: k.coarse_TABLE is there (op_series.c) */
    bool has_places;           /* k.source_groups and k.source_places are there (op_source.c), */
    size_t n_places;           /* or so many of them */
    struct kymo_buf overview;  /* the answer, as text; empty: not made yet */
};

/*
 * The time it takes grows with the tables where LevelOfDetail is not there. before: what was opened of this path
 * earlier, whose damaged tables are left out; NULL: nothing was. -EBADMSG: the instructions cannot be read. -ENOMSG:
 * they have no times.
 */
int serve_dir_open(const char *path, const struct query_limits *limits, const struct serve_dir *before,
                   struct serve_dir **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct serve_dir *serve_dir_free(struct serve_dir *d); /* NULL is fine; returns NULL */
/* Whether an error is one of those that damaged tables lead to. */
bool serve_dir_failed(int error);
/*
 * Looks which tables are damaged inside, unless somebody has and the files are the same. 0: none is; -EBADMSG: err has
 * the first of them. *ret_more: some that d does not do without. Thread-safe.
 */
int serve_dir_look(struct serve_dir *d, const struct query_limits *limits, const struct query_damage_watch *watch,
                   bool *ret_more, struct kymo_err *err) KYMO_MUST_CHECK;
/* The widest bucket of a kind that is at most so wide, else the finest. -1: it has none. */
int64_t serve_dir_bucket(const struct serve_dir *d, enum serve_kind kind, int64_t most);
int serve_dir_connect(struct serve_dir *d, duckdb_connection *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
