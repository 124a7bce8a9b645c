/* What the parts of a system profile share. Inside of system*.c. */
#ifndef KYMO_PIPELINE_SYSTEM_SYSTEM_IMPL_H
#define KYMO_PIPELINE_SYSTEM_SYSTEM_IMPL_H

#include <stdbool.h>

#include "arch/arch.h"
#include "base/buf.h"
#include "formats/parquet/parquet_writer.h"
#include "formats/systrace/systrace_facts.h"
#include "formats/systrace/systrace_reader.h"
#include "formats/systrace/trace_json.h"
#include "pipeline/rings/ledger.h"
#include "pipeline/spill/sort_spill.h"
#include "pipeline/spill/text_store.h"
#include "pipeline/system/system.h"
#include "pipeline/warnings.h"
#include "proto/manifest.pb-c.h"

#define SYSTEM_CORES_MAX 4096
#define SYSTEM_INSTANCE_MAX 127
#define SYSTEM_RINGS_MAX (SYSTEM_CORES_MAX + 8)
#define SYSTEM_OPEN_MAX 16384u        /* starts that wait for their stop; the oldest gives up its place */
#define SYSTEM_SYNCS_MAX (1u << 20)   /* clock readings kept; beyond them every second one is dropped */
#define SYSTEM_STREAMS_MAX (1u << 18) /* sequence numbers whose stream is remembered */
#define SYSTEM_HBMS_MAX 4096u
#define SYSTEM_TYPE_FRAMEWORK 0xffffu
#define SYSTEM_TEXT_MAX (8u << 20)               /* of one event */
#define SYSTEM_YEAR_2000_NS 946684800000000000ll /* earlier times are those of some other clock */

/* One source of records, as LossLedger has it. */
struct system_ring {
    char label[64];
    const char *kind; /* record_kind */
    bool has_counters;
    uint64_t emitted, dropped;                      /* by its counters */
    uint64_t stored, rows, partial, other, unknown; /* as read */
    const char *broken;                             /* why reading ended before the end; NULL: it did not */
};

/* A row of SystemProfileEvents on its way to be sorted by start. Texts lie in the store: name, flows (each ended by a
 * newline), attributes. */
struct system_row {
    int64_t start, end, thread, process, worker, bytes;
    uint64_t sequence, text;
    uint32_t name_len, flows_len, json_len;
    int32_t nc, pcore, stream;
    uint16_t type; /* of a runtime's event without a name of its own */
    uint8_t source, records;
    bool has_worker, has_nc, has_bytes, has_sequence;
};

struct system_partial {
    int64_t ts;
    uint32_t ring;
    int32_t pcore;
    uint16_t type;
    bool start_side;
    uint8_t reason; /* enum pair_reason */
};

struct system_sync {
    uint64_t exec_id;
    int64_t device_ns, cpu_ns;
    uint32_t nc;
};

struct system_memory {
    int64_t ts;
    uint64_t class_total, total;
    uint32_t device, hbm;
    uint16_t usage; /* enum systrace_usage; SYSTRACE_USAGE_MAX: not a known one */
    bool has_class, has_total;
};

struct system_core {
    uint32_t nc, vnc, nd, first_pcore;
    uint32_t ring; /* in rings */
};

struct system_syncs;
struct system_pairs;
struct system_streams;

struct system_job {
    const struct system_options *options;
    struct system_result result;
    const char *dir; /* where tables are made */
    struct parquet_options parquet;
    struct warnings *warnings;
    struct systrace_reader *files[SYSTRACE_KIND_MAX]; /* NULL: not there */
    struct trace_json *framework;
    Kymo__Manifest__Capture *manifest; /* NULL: none */
    const Ntff__NtraceInfo *info;      /* of trace_info.pb, else of ntrace.pb; NULL: none */
    char instance[SYSTEM_INSTANCE_MAX + 1];
    int64_t process;
    const struct kymo_arch *arch; /* NULL: not known */

    struct system_ring *rings;
    size_t n_rings;
    struct system_core *cores;
    size_t n_cores, cores_cap;
    struct system_syncs *syncs;
    struct system_pairs *pairs;
    struct system_streams *streams;
    struct sort_spill *rows, *memory, *partials;
    struct text_store *texts;
    struct ledger_loss *losses;
    size_t loss_count, losses_cap;
    int64_t first, last;              /* of all rows; first > last: none */
    uint64_t unconverted;             /* hardware events without a clock reading */
    uint64_t read_bytes, total_bytes; /* of events */
};

int system_report(struct system_job *j, enum process_stage stage, uint64_t done, uint64_t total,
                  struct kymo_err *err) KYMO_MUST_CHECK;
void system_span(struct system_job *j, int64_t ts); /* widens first and last */
/* A new ring; its index, or a negative errno. */
int system_ring_new(struct system_job *j, const char *kind, const char *label, struct kymo_err *err) KYMO_MUST_CHECK;

/* system_input.c */
int system_open(struct system_job *j, struct kymo_err *err) KYMO_MUST_CHECK;

/* system_syncs.c: pairs of device and host time of a core. */
struct system_syncs *system_syncs_new(void); /* NULL: no memory */
struct system_syncs *system_syncs_free(struct system_syncs *s);
int system_syncs_add(struct system_syncs *s, const struct system_sync *sync, struct kymo_err *err) KYMO_MUST_CHECK;
void system_syncs_sort(struct system_syncs *s);
bool system_syncs_thinned(const struct system_syncs *s);
/* By the reading of the same execution on that core, else by the one nearest in device time. False: the core has none.
 */
bool system_syncs_convert(const struct system_syncs *s, uint32_t nc, const uint64_t *exec_id, int64_t device_ns,
                          int64_t *ret);

/* system_streams.c: streams of the framework by sequence number of a request. */
struct system_streams *system_streams_new(void);
struct system_streams *system_streams_free(struct system_streams *s);
/* False: it is full. */
bool system_streams_add(struct system_streams *s, uint64_t sequence, const char *stream);
const char *system_streams_find(const struct system_streams *s, uint64_t sequence); /* NULL: none */

/* system_pairs.c: starts that wait for their stop. */
struct system_open {
    uint64_t tracking, thread, exec_id, sequence, id, parent;
    int64_t ts; /* as recorded */
    int64_t worker, bytes;
    uint32_t nd, ring;
    int32_t nc, pcore;
    uint32_t hbm; /* of memory events */
    uint16_t type, usage;
    bool has_exec, has_sequence, has_worker, has_bytes, is_device_time, has_hbm;
    char *name; /* NULL: the type's */
    char *json; /* attributes without the braces; NULL: none */
};
struct system_pairs *system_pairs_new(void);
struct system_pairs *system_pairs_free(struct system_pairs *p);
/* Takes the texts over. 1: *ret_evicted is a start that has given up its place, whose texts are the caller's. */
int system_pairs_open(struct system_pairs *p, const struct system_open *start, struct system_open *ret_evicted,
                      struct kymo_err *err) KYMO_MUST_CHECK;
/* The newest start of that call, type and core; its texts are the caller's. False: none. */
bool system_pairs_close(struct system_pairs *p, const struct system_open *stop, struct system_open *ret);
/* Any one that is left. False: none. */
bool system_pairs_take(struct system_pairs *p, struct system_open *ret);
void system_open_done(struct system_open *o);

/* system_text.c: texts of events. */
struct system_text {
    struct kymo_buf buf;
    bool failed; /* no memory, or too long */
};
void system_text_start(struct system_text *t);
/* "key":value, after a comma where something stands before. A decimal number stays one, other text becomes a string;
 * bytes that are no UTF-8 become question marks. */
void system_text_member(struct system_text *t, const char *prefix, const char *key, const char *value);
void system_text_line(struct system_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Puts a row's texts into the store, and the row into its place in time. */
int system_row_add(struct system_job *j, struct system_row *row, const char *name, const struct system_text *flows,
                   const struct system_text *json, struct kymo_err *err) KYMO_MUST_CHECK;
int system_partial_add(struct system_job *j, const struct system_partial *p, struct kymo_err *err) KYMO_MUST_CHECK;

/* system_events.c, system_framework.c: records to rows, partial events and memory samples. */
int system_read_events(struct system_job *j, struct kymo_err *err) KYMO_MUST_CHECK;
int system_read_framework(struct system_job *j, struct kymo_err *err) KYMO_MUST_CHECK;

/* system_rows.c, system_samples.c, system_tables.c: the tables. */
int system_write_events(struct system_job *j, struct kymo_err *err) KYMO_MUST_CHECK;
int system_write_memory(struct system_job *j, struct kymo_err *err) KYMO_MUST_CHECK;
int system_write_cpu(struct system_job *j, struct kymo_err *err) KYMO_MUST_CHECK;
int system_write_host_memory(struct system_job *j, struct kymo_err *err) KYMO_MUST_CHECK;
int system_write_partials(struct system_job *j, struct kymo_err *err) KYMO_MUST_CHECK;
int system_write_ledger(struct system_job *j, struct kymo_err *err) KYMO_MUST_CHECK;
int system_write_metadata(struct system_job *j, struct kymo_err *err) KYMO_MUST_CHECK;
int system_write_devices(struct system_job *j, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
