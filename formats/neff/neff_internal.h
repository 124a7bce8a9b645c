/* What the files of this folder share: the object, and the way a load reports trouble. */
#ifndef KYMO_FORMATS_NEFF_NEFF_INTERNAL_H
#define KYMO_FORMATS_NEFF_NEFF_INTERNAL_H

#include "arch/arch.h"
#include "formats/neff/neff.h"
#include "formats/neff/neff_arena.h"

#define NEFF_NOTES_MAX 256
#define NEFF_SUBGRAPHS_MAX 64
#define NEFF_HELD_MAX (64u << 20) /* larger members of a gzip archive are read when they are needed */

/* Debug records of one stream: index[pc] is 1 + the number of a record in records, 0 for none. */
struct neff_debug_stream {
    const uint32_t *index;
    size_t count;
    const struct neff_debug *records;
};

struct neff_debug_streams {
    struct neff_debug_stream engine[KYMO_ENGINE_MAX];
    const struct neff_kernels *kernels; /* NULL: none */
};

struct neff {
    struct neff_arena arena;
    char *path;
    uint8_t *file; /* the whole file while members of a plain tar lie in it, else NULL */
    struct neff_header header;
    uint8_t sha256[32];
    enum neff_hash_kind hash_kind;
    bool hash_matches, gzip, has_debug;
    struct neff_member *members; /* by name */
    bool *member_owned;          /* data of its own, to be freed */
    size_t member_count;
    const char *kelf, *target, *compiler_version;
    int64_t mac_count;
    struct neff_subgraph *subgraphs;
    struct neff_debug_streams *debug; /* one per subgraph; NULL: none */
    struct neff_frames frames;
    size_t subgraph_count;
    const char *notes[NEFF_NOTES_MAX];
    size_t note_count;
    uint64_t stream_serial; /* counts engine files: tells one's sticky functions from another's */
};

/* A load under way. */
struct neff_load {
    struct neff *n;
    enum neff_error cls;
    struct kymo_err *err;
    const uint8_t *archive; /* what members that are not held can be read from again */
    size_t archive_size;
    bool left; /* there are some */
};

/* Sets class and text; returns code. */
int neff_refuse(struct neff_load *l, enum neff_error cls, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* As with kymo_err_set, the macro lets analysers see that a refusal is negative. */
#define neff_refuse(l, cls, code, ...)                                                                                 \
    __extension__({                                                                                                    \
        int neff_code_ = (code);                                                                                       \
        (void)(neff_refuse)((l), (cls), neff_code_, __VA_ARGS__);                                                      \
        neff_code_ < 0 ? neff_code_ : -EPROTO;                                                                         \
    })
int neff_no_memory(struct neff_load *l);
/* Adds a note. Silently full beyond NEFF_NOTES_MAX, the last of which says so; a note that finds no memory is lost. */
void neff_add_note(struct neff *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Interned text; NULL: out of memory. */
const char *neff_intern(struct neff *n, const char *text);

/* neff_archive.c: members from data. owned: data lives as long as the neff, so that members may point into it. */
int neff_archive_load(struct neff_load *l, const uint8_t *data, size_t n, bool owned);
/* Reads a member that is not held. To be called before data of one is used that may be above NEFF_HELD_MAX. */
int neff_archive_hold(struct neff_load *l, const struct neff_member *m);
void neff_archive_free(struct neff *n);

/* neff_json.c: neff.json, kelf, def.json, info.json, hlo_stats.json. */
int neff_json_load(struct neff_load *l);

/* neff_engine.c: engine's stream and its DMA blocks into *e, whose engine and queues of sg are set. */
int neff_engine_load(struct neff_load *l, const struct neff_subgraph *sg, const char *file, struct neff_engine *e);

/* neff_kernel.c: the NKI kernels of each subgraph into n->debug; never refuses, but for want of memory. */
int neff_kernel_load(struct neff_load *l);
/* The entry of this name; NULL: none. */
const struct neff_kernel_instruction *neff_kernel_find(const struct neff_kernels *k, const char *name);

/* neff_debug.c: never refuses for what a debug file holds, only for want of memory. */
int neff_debug_load(struct neff_load *l);

#endif
