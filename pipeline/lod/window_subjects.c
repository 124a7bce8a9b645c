#include "pipeline/lod/window_subjects.h"

#include <errno.h>
#include <string.h>

#include "arch/opcode.h"
#include "base/alloc.h"
#include "pipeline/lod/track_names.h"

#define SUBJECTS_MAX (1u << 27)

struct window_subjects {
    const struct job *j;
    struct parquet_writer *writer;
    struct window_subject *list;
    size_t n, cap;
    uint32_t *index; /* hash table of places in list, plus 1 */
    size_t slots;
    struct instr_source source;
};

static const unsigned columns[WINDOW_NAMES] = {
    [WINDOW_TRACK] = KYMO_WINDOW_SUMS_TIMELINE_TRACK, [WINDOW_SPLIT_TRACK] = KYMO_WINDOW_SUMS_SPLIT_TRACK,
    [WINDOW_PCORE] = KYMO_WINDOW_SUMS_PCORE_IDX,      [WINDOW_ENGINE_NAME] = KYMO_WINDOW_SUMS_ENGINE,
    [WINDOW_OPCODE_NAME] = KYMO_WINDOW_SUMS_OPCODE,   [WINDOW_OPERATOR_NAME] = KYMO_WINDOW_SUMS_OPERATOR,
    [WINDOW_HLO_NAME] = KYMO_WINDOW_SUMS_HLO_NAME,    [WINDOW_QUEUE_NAME] = KYMO_WINDOW_SUMS_QUEUE_NAME,
};

int window_subjects_open(const struct job *j, struct parquet_writer *writer, struct window_subjects **ret,
                         struct kymo_err *err)
{
    struct window_subjects *s = KYMO_NEW(struct window_subjects);
    if (s) {
        s->j = j;
        s->writer = writer;
        s->slots = 1024;
        s->index = KYMO_NEW_ARRAY(uint32_t, s->slots);
    }
    if (!s || !s->index) {
        window_subjects_free(s);
        return kymo_err_set(err, -ENOMEM, "no memory for names");
    }
    *ret = s;
    return 0;
}

struct window_subjects *window_subjects_free(struct window_subjects *s)
{
    if (s) {
        kymo_free(s->list);
        kymo_free(s->index);
    }
    kymo_free(s);
    return NULL;
}

size_t window_subjects_count(const struct window_subjects *s)
{
    return s->n;
}

const struct window_subject *window_subjects_at(const struct window_subjects *s, uint32_t subject)
{
    return &s->list[subject];
}

size_t window_subjects_above(const struct window_subjects *s, const struct window_subject *subject, uint32_t *ret)
{
    size_t n = 0;
    for (uint32_t up = subject->up; up != WINDOW_NONE && n < WINDOW_TREE_MAX; up = s->list[up].up)
        ret[n++] = up;
    return n;
}

static size_t slot_of(const struct window_subjects *s, const struct window_subject *key)
{
    uint64_t h = key->kind;
    for (int i = 0; i < WINDOW_NAMES; i++)
        h = (h ^ key->names[i]) * 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 24) & (s->slots - 1);
}

static uint32_t *find(struct window_subjects *s, const struct window_subject *key)
{
    size_t i = slot_of(s, key);
    for (; s->index[i]; i = (i + 1) & (s->slots - 1)) {
        const struct window_subject *known = &s->list[s->index[i] - 1];
        if (known->kind == key->kind && !memcmp(known->names, key->names, sizeof key->names))
            break;
    }
    return &s->index[i];
}

static int rehash(struct window_subjects *s)
{
    uint32_t *index = KYMO_NEW_ARRAY(uint32_t, 4 * s->slots);
    if (!index)
        return -ENOMEM;
    kymo_free(s->index);
    s->index = index;
    s->slots *= 4;
    for (size_t i = 0; i < s->n; i++)
        *find(s, &s->list[i]) = (uint32_t)(i + 1);
    return 0;
}

static int intern(struct window_subjects *s, const struct window_subject *key, uint32_t *ret, struct kymo_err *err)
{
    uint32_t *at = find(s, key);
    if (*at) {
        *ret = *at - 1;
        return 0;
    }
    void *list = s->list;
    int r = kymo_grow(&list, &s->cap, s->n + 1, SUBJECTS_MAX, sizeof *s->list);
    s->list = list;
    if (r == 0 && 2 * s->n >= s->slots)
        r = rehash(s);
    if (r < 0)
        return kymo_err_set(err, r, "no memory for the names of %zu sums", s->n);
    s->list[s->n] = *key;
    *find(s, key) = (uint32_t)(s->n + 1);
    *ret = (uint32_t)s->n++;
    return 0;
}

static struct window_subject key_of(enum window_kind kind)
{
    struct window_subject key = {
        .kind = kind, .up = WINDOW_NONE, .engine = WINDOW_NONE, .track = WINDOW_NONE, .split = WINDOW_NONE};
    memset(key.names, 0xff, sizeof key.names);
    return key;
}

static int set_text(struct window_subjects *s, struct window_subject *key, enum window_name name, const char *text,
                    size_t n, struct kymo_err *err)
{
    key->names[name] = parquet_writer_string_id(s->writer, columns[name], text, n, err);
    return key->names[name] == PARQUET_NULL ? -ENOMEM : 0;
}

static int set_core(struct window_subjects *s, struct window_subject *key, unsigned pcore, struct kymo_err *err)
{
    key->names[WINDOW_PCORE] = parquet_writer_int_id(s->writer, columns[WINDOW_PCORE], pcore, err);
    return key->names[WINDOW_PCORE] == PARQUET_NULL ? -ENOMEM : 0;
}

int window_subjects_packets(struct window_subjects *s, enum window_kind kind, uint32_t phys, uint32_t set,
                            uint32_t *ret, struct kymo_err *err)
{
    struct window_subject key = key_of(kind);
    char name[TRACK_NAME_MAX];
    if (kind == WINDOW_DMA)
        return intern(s, &key, ret, err);
    if (kind == WINDOW_DMA_ENGINE)
        track_name_engine(s->j, phys, name);
    else
        track_name_queue(s->j, phys, set == DMA_NONE ? NULL : s->j->queues.sets[set].name, name);
    int r = set_text(s, &key, WINDOW_TRACK, name, strlen(name), err);
    if (r == 0)
        r = set_core(s, &key, phys / DMA_QUEUES / DMA_ENGINES, err);
    return r < 0 ? r : intern(s, &key, ret, err);
}

int window_subjects_transfers(struct window_subjects *s, uint32_t set, unsigned pcore, uint32_t *ret,
                              struct kymo_err *err)
{
    struct window_subject key = key_of(WINDOW_DMA_TRANSFER);
    const char *queue = set == DMA_NONE ? "" : s->j->queues.sets[set].name;
    char name[TRACK_NAME_MAX];
    track_name_transfers(s->j, set, name);
    int r = set_text(s, &key, WINDOW_TRACK, name, strlen(name), err);
    if (r == 0)
        r = set_text(s, &key, WINDOW_QUEUE_NAME, queue, strlen(queue), err);
    if (r == 0)
        r = set_core(s, &key, pcore, err);
    return r < 0 ? r : intern(s, &key, ret, err);
}

int window_subjects_host(struct window_subjects *s, uint32_t ring, uint32_t *ret, struct kymo_err *err)
{
    struct window_subject key = key_of(WINDOW_HOST_DMA);
    char name[TRACK_NAME_MAX];
    track_name_host(s->j, ring, name);
    int r = set_text(s, &key, WINDOW_TRACK, name, strlen(name), err);
    return r < 0 ? r : intern(s, &key, ret, err);
}

/* Instructions: whole is the operation's key, of which the others have some names each. */

static int intern_part(struct window_subjects *s, enum window_kind kind, const struct window_subject *whole,
                       const enum window_name *names, size_t n, uint32_t up, uint32_t *ret, struct kymo_err *err)
{
    struct window_subject key = key_of(kind);
    for (size_t i = 0; i < n; i++)
        key.names[names[i]] = whole->names[names[i]];
    key.up = up;
    return intern(s, &key, ret, err);
}

/* The path with each of its beginnings. */
static int intern_path(struct window_subjects *s, const char *path, uint32_t *ret, struct kymo_err *err)
{
    uint32_t up = WINDOW_NONE;
    size_t depth = 0;
    int r = 0;
    for (const char *at = path; at && r == 0;) {
        struct window_subject key = key_of(WINDOW_OPERATOR);
        const char *slash = strchr(at, '/');
        size_t n = slash ? (size_t)(slash - path) : strlen(path);
        if (++depth > WINDOW_DEPTH_MAX)
            break;
        r = set_text(s, &key, WINDOW_OPERATOR_NAME, path, n, err);
        key.up = up;
        if (r == 0)
            r = intern(s, &key, &up, err);
        at = slash ? slash + 1 : NULL;
    }
    *ret = up;
    return r;
}

/* The node that the operation is in. hlo NULL: its instructions stand below the path itself. */
static int intern_tree(struct window_subjects *s, struct window_subject *whole, const char *path, const char *hlo,
                       uint32_t *ret, struct kymo_err *err)
{
    static const enum window_name of_hlo[] = {WINDOW_OPERATOR_NAME, WINDOW_HLO_NAME};
    static const enum window_name of_opcode[] = {WINDOW_OPERATOR_NAME, WINDOW_HLO_NAME, WINDOW_ENGINE_NAME,
                                                 WINDOW_OPCODE_NAME};
    struct window_subject part = *whole;
    uint32_t up = WINDOW_NONE;
    int r = *path ? intern_path(s, path, &up, err)
                  : intern_part(s, WINDOW_OPERATOR, whole, of_hlo, 1, WINDOW_NONE, &up, err);
    if (r == 0 && hlo)
        r = intern_part(s, WINDOW_HLO, whole, of_hlo, 2, up, &up, err);
    if (!hlo)
        part.names[WINDOW_HLO_NAME] = PARQUET_NULL;
    return r < 0 ? r : intern_part(s, WINDOW_OPCODE, &part, of_opcode, 4, up, ret, err);
}

static int name_operation(struct window_subjects *s, const struct static_row *row, const char *hlo,
                          struct window_subject *key, struct kymo_err *err)
{
    char name[TRACK_NAME_MAX];
    const char *engine = kymo_engine_name((enum kymo_engine)row->engine), *path = s->source.operator_name;
    statics_track(&s->j->statics, row, name, sizeof name);
    int r = set_text(s, key, WINDOW_TRACK, name, strlen(name), err);
    track_name_part(s->j, row, name);
    if (r == 0)
        r = set_text(s, key, WINDOW_SPLIT_TRACK, name, strlen(name), err);
    if (r == 0)
        r = set_core(s, key, row->pcore, err);
    if (r == 0)
        r = set_text(s, key, WINDOW_ENGINE_NAME, engine, strlen(engine), err);
    const char *opcode = row->known ? kymo_opcode_name(row->opcode, name, sizeof name) : "";
    if (r == 0)
        r = set_text(s, key, WINDOW_OPCODE_NAME, opcode, strlen(opcode), err);
    if (r == 0 && path && *path)
        r = set_text(s, key, WINDOW_OPERATOR_NAME, path, strlen(path), err);
    if (r == 0 && hlo && *hlo)
        r = set_text(s, key, WINDOW_HLO_NAME, hlo, strlen(hlo), err);
    return r;
}

/* The split track's name stands in two columns, which have a dictionary each. */
static int intern_tracks(struct window_subjects *s, const struct static_row *row, struct window_subject *key,
                         struct kymo_err *err)
{
    static const enum window_name of_engine[] = {WINDOW_ENGINE_NAME, WINDOW_PCORE},
                                  of_track[] = {WINDOW_TRACK, WINDOW_PCORE};
    struct window_subject split = key_of(WINDOW_SPLIT);
    char name[TRACK_NAME_MAX];
    track_name_part(s->j, row, name);
    split.names[WINDOW_PCORE] = key->names[WINDOW_PCORE];
    int r = set_text(s, &split, WINDOW_TRACK, name, strlen(name), err);
    if (r == 0)
        r = intern(s, &split, &key->split, err);
    if (r == 0)
        r = intern_part(s, WINDOW_ENGINE, key, of_engine, 2, WINDOW_NONE, &key->engine, err);
    return r < 0 ? r : intern_part(s, WINDOW_INSTRUCTION, key, of_track, 2, WINDOW_NONE, &key->track, err);
}

int window_subjects_operation(struct window_subjects *s, const struct static_row *row, const struct static_facts *facts,
                              uint32_t *ret, struct kymo_err *err)
{
    struct window_subject key = key_of(WINDOW_OPERATION);
    const char *hlo = facts->debug ? facts->debug->hlo_name : NULL;
    instr_source_find(&s->j->statics, row, facts, &s->source);
    int r = name_operation(s, row, hlo, &key, err);
    if (r == 0)
        r = intern_tracks(s, row, &key, err);
    const char *path = s->source.operator_name ? s->source.operator_name : "";
    bool apart = hlo && *hlo && strcmp(hlo, path) != 0;
    if (r == 0)
        r = intern_tree(s, &key, path, apart ? hlo : NULL, &key.up, err);
    return r < 0 ? r : intern(s, &key, ret, err);
}
