/*
 * The conformance vectors of tests/vectors/neff: every key of every expectation is compared, and a key that no row
 * below handles fails the test. Names of the vectors are the facts'; mapping them to the product's happens here and
 * only here.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/layout.h"
#include "arch/opcode.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "formats/neff/neff.h"
#include "tests/unit/small_memory.h"

#define DIR_NAME "tests/vectors/neff"
#define SOUND_FILES 37
#define BROKEN_FILES 55

static struct {
    size_t files, keys, instructions, blocks, texts;
} counts;

/* Where we are, for messages. */
static char where[512];

#define check(cond)                                                                                                    \
    do {                                                                                                               \
        if (!(cond))                                                                                                   \
            fail_msg("%s: %s", where, #cond);                                                                          \
    } while (0)

static void check_text(const char *got, const char *want, const char *what)
{
    if (!got || !want || strcmp(got, want) != 0)
        fail_msg("%s: %s: got \"%s\", want \"%s\"", where, what, got ? got : "(null)", want ? want : "(null)");
}

static void check_number(uint64_t got, const json_t *want, const char *what)
{
    uint64_t number =
        json_is_string(want) ? strtoull(json_string_value(want), NULL, 0) : (uint64_t)json_integer_value(want);
    if (!json_is_string(want) && !json_is_integer(want))
        fail_msg("%s: %s: the expectation is no number", where, what);
    if (got != number)
        fail_msg("%s: %s: got %" PRIu64 ", want %" PRIu64, where, what, got, number);
}

static void check_hex(const uint8_t *got, size_t n, const json_t *want, const char *what)
{
    char hex[129];
    assert_true(n <= 64);
    kymo_hash_hex(got, n, hex);
    check_text(hex, json_string_value(want), what);
}

/* One key of an expectation. False: no row handles it. */
typedef bool key_check(const char *key, const json_t *want, const void *subject);

static void each_key(const json_t *want, key_check *fn, const void *subject)
{
    const char *key;
    json_t *value;
    check(json_is_object(want));
    json_object_foreach((json_t *)(uintptr_t)want, key, value)
    {
        if (!fn(key, value, subject))
            fail_msg("%s: no check for the key \"%s\"", where, key);
        counts.keys++;
    }
}

static bool check_header_key(const char *key, const json_t *want, const void *subject)
{
    const struct neff_header *h = subject;
    if (!strcmp(key, "pkg_version"))
        check_number(h->pkg_version, want, key);
    else if (!strcmp(key, "header_size"))
        check_number(h->header_size, want, key);
    else if (!strcmp(key, "data_size"))
        check_number(h->data_size, want, key);
    else if (!strcmp(key, "neff_version_major"))
        check_number(h->version_major, want, key);
    else if (!strcmp(key, "neff_version_minor"))
        check_number(h->version_minor, want, key);
    else if (!strcmp(key, "neff_build_version"))
        check_text(h->build_version, json_string_value(want), key);
    else if (!strcmp(key, "num_tpb"))
        check_number(h->num_tpb, want, key);
    else if (!strcmp(key, "hash"))
        check_hex(h->hash, strlen(json_string_value(want)) / 2, want, key);
    else if (!strcmp(key, "uuid"))
        check_hex(h->uuid, sizeof h->uuid, want, key);
    else if (!strcmp(key, "name"))
        check_text(h->name, json_string_value(want), key);
    else if (!strcmp(key, "requested_tpb_count"))
        check_number(h->requested_tpb_count, want, key);
    else if (!strcmp(key, "tpb_per_node"))
        check_hex(h->tpb_per_node, sizeof h->tpb_per_node, want, key);
    else if (!strcmp(key, "feature_bits"))
        check_number(h->feature_bits, want, key);
    else if (!strcmp(key, "lnc_size"))
        check_number(h->lnc_size, want, key);
    else
        return false;
    return true;
}

static bool check_hash_key(const char *key, const json_t *want, const void *subject)
{
    const struct neff *n = subject;
    static const char *const kinds[] = {"none", "md5", "sha256"};
    if (!strcmp(key, "kind"))
        check_text(kinds[neff_hash_kind(n)], json_string_value(want), key);
    else if (!strcmp(key, "matches"))
        check(neff_hash_matches(n) == json_is_true(want));
    else
        return false;
    return true;
}

static bool check_feature_key(const char *key, const json_t *want, const void *subject)
{
    uint64_t bit = *(const uint64_t *)subject;
    if (!strcmp(key, "bit"))
        check_number(bit, want, key);
    else if (!strcmp(key, "name"))
        check_text(neff_feature_name(bit), json_string_value(want), key);
    else if (!strcmp(key, "explorer_name"))
        check_text(neff_feature_explorer_name(bit), json_string_value(want), key);
    else
        return false;
    return true;
}

static uint64_t bit_named(const char *text)
{
    return strtoull(text, NULL, 0);
}

/* Exactly the listed bits have names. */
static void check_features(const struct neff *n, const json_t *want)
{
    uint64_t listed = 0, bits = neff_get_header(n)->feature_bits;
    for (size_t i = 0; i < json_array_size(want); i++) {
        const json_t *f = json_array_get(want, i);
        uint64_t bit = bit_named(json_string_value(json_object_get(f, "bit")));
        each_key(f, check_feature_key, &bit);
        listed |= bit;
    }
    for (unsigned i = 0; i < 64; i++) {
        uint64_t bit = 1ull << i;
        if (bits & bit)
            check((neff_feature_name(bit) != NULL) == ((listed & bit) != 0));
    }
    check((bits & listed) == listed);
}

static void check_unnamed(const struct neff *n, const json_t *want)
{
    uint64_t unnamed = 0, bits = neff_get_header(n)->feature_bits;
    for (unsigned i = 0; i < 64; i++)
        if (bits >> i & 1 && !neff_feature_name(1ull << i))
            unnamed |= 1ull << i;
    check_number(unnamed, want, "unnamed feature bits");
}

static bool is_listed(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!strcmp(json_string_value(json_array_get(list, i)), name))
            return true;
    return false;
}

/* Members that the runtime ignores may be there or not; ours leaves their contents out of memory. */
static void check_members(const struct neff *n, const json_t *want, const json_t *ignored)
{
    for (size_t i = 0; i < json_array_size(want); i++) {
        const json_t *row = json_array_get(want, i);
        const char *name = json_string_value(json_array_get(row, 0));
        const struct neff_member *m = neff_find_member(n, name);
        if (m)
            check_number(m->size, json_array_get(row, 1), name);
        else if (!is_listed(ignored, name))
            fail_msg("%s: no member %s", where, name);
    }
}

static void check_no_other_member(const struct neff *n, const json_t *want, const json_t *ignored)
{
    for (size_t i = 0; i < neff_member_count(n); i++) {
        const char *name = neff_member(n, i)->name;
        bool listed = is_listed(ignored, name);
        for (size_t k = 0; k < json_array_size(want) && !listed; k++)
            listed = !strcmp(json_string_value(json_array_get(json_array_get(want, k), 0)), name);
        if (!listed)
            fail_msg("%s: member %s is not expected", where, name);
    }
}

static void check_all_members(const struct neff *n, const json_t *file)
{
    const json_t *members = json_object_get(file, "members"), *ignored = json_object_get(file, "ignored_members");
    check_members(n, members, ignored);
    check_no_other_member(n, members, ignored);
}

static bool check_queue_key(const char *key, const json_t *want, const void *subject)
{
    const struct neff_queue *q = subject;
    if (!strcmp(key, "type"))
        check_text(q->type, json_string_value(want), key);
    else if (!strcmp(key, "num_queues"))
        check_number(q->num_queues, want, key);
    else if (!strcmp(key, "instances") || !strcmp(key, "queue_instances"))
        for (size_t i = 0; i < json_array_size(want); i++)
            check_text(q->instances[i], json_string_value(json_array_get(want, i)), key);
    else
        return false;
    return true;
}

static bool check_one_queue(const char *key, const json_t *want, const void *subject)
{
    const struct neff_subgraph *sg = subject;
    for (size_t i = 0; i < sg->queue_count; i++)
        if (!strcmp(sg->queues[i].name, key)) {
            each_key(want, check_queue_key, &sg->queues[i]);
            return true;
        }
    fail_msg("%s: no queue %s", where, key);
    return false;
}

static bool check_variable_key(const char *key, const json_t *want, const void *subject)
{
    const struct neff_var *v = subject;
    if (!strcmp(key, "name"))
        check_text(v->name, json_string_value(want), key);
    else if (!strcmp(key, "type"))
        check_text(v->type, json_string_value(want), key);
    else if (!strcmp(key, "var_id"))
        check_number((uint64_t)v->var_id, want, key);
    else if (!strcmp(key, "size"))
        check_number(v->size, want, key);
    else if (!strcmp(key, "file_name"))
        check_text(v->file_name, json_string_value(want), key);
    else
        return false;
    return true;
}

static const char *wait_condition(uint8_t mode)
{
    static const char *const names[16] = {
        [KYMO_WAIT_EQ] = "sem_eq",
        [KYMO_WAIT_LT] = "sem_lt",
        [KYMO_WAIT_LE] = "sem_le",
        [KYMO_WAIT_GT] = "sem_gt",
        [KYMO_WAIT_GE] = "sem_ge",
        [KYMO_WAIT_EVT_SET] = "event_set",
        [KYMO_WAIT_EVT_SET_CLEAR] = "event_set_then_clear",
        [KYMO_WAIT_EVT_CLEAR] = "event_clear",
        [KYMO_WAIT_EVT_CLEAR_SET] = "event_clear_then_set",
    };
    return mode == KYMO_WAIT_UNORDERED ? "unordered" : names[mode & 0xF];
}

struct sync_subject {
    struct kymo_sync sync;
    char text[1024]; /* of the whole instruction */
};

static void check_shown(const struct sync_subject *s, const json_t *want)
{
    if (!strstr(s->text, json_string_value(want)))
        fail_msg("%s: \"%s\" does not show \"%s\"", where, s->text, json_string_value(want));
    counts.texts++;
}

static bool check_wait_key(const char *key, const json_t *want, const void *subject)
{
    const struct sync_subject *s = subject;
    if (!strcmp(key, "mode"))
        check_number(s->sync.wait_mode, want, key);
    else if (!strcmp(key, "idx"))
        check_number(s->sync.wait_idx, want, key);
    else if (!strcmp(key, "cond"))
        check_text(wait_condition(s->sync.wait_mode), json_string_value(want), key);
    else if (!strcmp(key, "operand"))
        check_text(s->sync.wait_mode & KYMO_WAIT_REGISTER ? "register" : "immediate", json_string_value(want), key);
    else if (!strcmp(key, "value"))
        check_number(s->sync.wait_value, want, key);
    else if (!strcmp(key, "text"))
        check_shown(s, want);
    else
        return false;
    return true;
}

/* The product says sem_add_imm where the vectors say sem_add with an immediate operand; a register form has no word
 * there. */
static void check_operation(uint8_t immediate_mode, const char *want)
{
    char got[32];
    (void)snprintf(got, sizeof got, "%s", kymo_update_operation(immediate_mode));
    char *suffix = strstr(got, "_imm");
    if (suffix)
        *suffix = '\0';
    check_text(got, want, "update operation");
}

static bool check_update_key(const char *key, const json_t *want, const void *subject)
{
    const struct sync_subject *s = subject;
    uint8_t immediate = s->sync.update_mode & (uint8_t)~KYMO_UPD_REGISTER;
    if (!strcmp(key, "mode"))
        check_number(s->sync.update_mode, want, key);
    else if (!strcmp(key, "idx"))
        check_number(s->sync.update_idx, want, key);
    else if (!strcmp(key, "op"))
        check_operation(immediate, json_string_value(want));
    else if (!strcmp(key, "timing"))
        check_text(kymo_update_timing(immediate), json_string_value(want), key);
    else if (!strcmp(key, "operand"))
        check_text(s->sync.update_mode & KYMO_UPD_REGISTER ? "register" : "immediate", json_string_value(want), key);
    else if (!strcmp(key, "value"))
        check_number(s->sync.update_value, want, key);
    else if (!strcmp(key, "text"))
        check_shown(s, want);
    else
        return false;
    return true;
}

struct instruction_subject {
    const struct kymo_arch *arch;
    const struct neff_engine *engine;
    size_t index;
    const uint8_t *rec;
};

static const struct neff_dma_block *find_block(const struct neff_engine *e, const char *queue, uint64_t id)
{
    for (size_t i = 0; i < e->block_count; i++)
        if (!e->blocks[i].function && e->blocks[i].id == id && !strcmp(e->blocks[i].queue, queue))
            return &e->blocks[i];
    return NULL;
}

static bool check_trigger_key(const char *key, const json_t *want, const void *subject)
{
    const struct instruction_subject *s = subject;
    char queue[33];
    uint64_t id = 0;
    check(kymo_layout_get_chars(s->arch, s->rec, KYMO_F_QUEUE_NAME, queue, sizeof queue));
    check(kymo_layout_get(s->arch, s->rec, KYMO_F_BLOCK_ID, &id));
    if (!strcmp(key, "queue")) {
        check_text(queue, json_string_value(want), key);
    } else if (!strcmp(key, "block_id")) {
        check_number(id, want, key);
    } else if (!strcmp(key, "bytes")) {
        const struct neff_dma_block *b = find_block(s->engine, queue, id);
        check(b != NULL);
        check_number(b->bytes, want, key);
    } else {
        return false;
    }
    return true;
}

/* Design, "Decided": the seeds' spelling, and PSEUDO_ before the pseudo numbers. */
static void check_opcode_name(uint8_t number, const char *facts_name)
{
    char buf[32], want[64];
    (void)snprintf(want, sizeof want, "%s%s", number >= 0xC1 && number <= 0xDF ? "PSEUDO_" : "", facts_name);
    if (number == KYMO_OP_TENSOR_TENSOR)
        (void)snprintf(want, sizeof want, "TENSOR_TENSOR");
    if (number == KYMO_OP_PSEUDO_DMA_TRIGGER)
        (void)snprintf(want, sizeof want, "PSEUDO_DMA_TRIGGER");
    check_text(kymo_opcode_name(number, buf, sizeof buf), want, "opcode name");
}

static struct sync_subject sync_of(const struct instruction_subject *s, bool second)
{
    struct sync_subject sync = {.sync = kymo_instr_sync(s->rec)};
    if (second)
        check(kymo_instr_sync2(s->rec, &sync.sync));
    kymo_instr_text(s->arch, s->rec, sync.text, sizeof sync.text);
    return sync;
}

static bool check_instruction_key(const char *key, const json_t *want, const void *subject)
{
    const struct instruction_subject *s = subject;
    bool second = !strncmp(key, "second_", 7);
    const char *set = second ? key + 7 : key;
    if (!strcmp(key, "i")) {
        check_number(s->index, want, key);
    } else if (!strcmp(key, "opcode")) {
        check_number(s->rec[0], want, key);
    } else if (!strcmp(key, "name")) {
        check_opcode_name(s->rec[0], json_string_value(want));
    } else if (!strcmp(set, "wait")) {
        struct sync_subject sync = sync_of(s, second);
        each_key(want, check_wait_key, &sync);
    } else if (!strcmp(set, "update")) {
        struct sync_subject sync = sync_of(s, second);
        each_key(want, check_update_key, &sync);
    } else if (!strcmp(key, "dma_trigger")) {
        each_key(want, check_trigger_key, s);
    } else {
        return false;
    }
    return true;
}

static bool check_block_key(const char *key, const json_t *want, const void *subject)
{
    const struct neff_dma_block *b = subject;
    if (!strcmp(key, "id"))
        check_number(b->id, want, key);
    else if (!strcmp(key, "queue"))
        check_text(b->queue, json_string_value(want), key);
    else if (!strcmp(key, "function") && json_is_null(want))
        check(b->function == NULL);
    else if (!strcmp(key, "function"))
        check_text(b->function, json_string_value(want), key);
    else if (!strcmp(key, "op"))
        check_text(b->op, json_string_value(want), key);
    else if (!strcmp(key, "from"))
        check_text(b->from.variable, json_string_value(want), key);
    else if (!strcmp(key, "to"))
        check_text(b->to.variable, json_string_value(want), key);
    else if (!strcmp(key, "bytes"))
        check_number(b->bytes, want, key);
    else
        return false;
    return true;
}

static void check_instructions(const struct neff_engine *e, const json_t *want)
{
    struct instruction_subject s = {.arch = kymo_arch_get(KYMO_GEN_TRN2), .engine = e};
    check(e->count == json_array_size(want));
    for (s.index = 0; s.index < e->count; s.index++) {
        s.rec = e->code + s.index * KYMO_INSTR_SIZE;
        each_key(json_array_get(want, s.index), check_instruction_key, &s);
    }
    counts.instructions += e->count;
}

static bool check_engine_key(const char *key, const json_t *want, const void *subject)
{
    const struct neff_engine *e = subject;
    if (!strcmp(key, "bin")) {
        check_text(e->bin_name, json_string_value(want), key);
    } else if (!strcmp(key, "json")) {
        check_text(e->json_name, json_string_value(want), key);
    } else if (!strcmp(key, "instructions")) {
        check_instructions(e, want);
    } else if (!strcmp(key, "dma")) {
        check(e->block_count == json_array_size(want));
        for (size_t i = 0; i < e->block_count; i++)
            each_key(json_array_get(want, i), check_block_key, &e->blocks[i]);
        counts.blocks += e->block_count;
    } else {
        return false;
    }
    return true;
}

static bool check_one_engine(const char *key, const json_t *want, const void *subject)
{
    const struct neff_subgraph *sg = subject;
    for (size_t i = 0; i < sg->engine_count; i++)
        if (sg->engines[i].engine == kymo_engine_find(key)) {
            each_key(want, check_engine_key, &sg->engines[i]);
            return true;
        }
    fail_msg("%s: no engine %s", where, key);
    return false;
}

static bool check_subgraph_key(const char *key, const json_t *want, const void *subject)
{
    const struct neff_subgraph *sg = subject;
    if (!strcmp(key, "name")) {
        check_text(sg->name, json_string_value(want), key);
    } else if (!strcmp(key, "definition")) {
        check_text(sg->definition, json_string_value(want), key);
    } else if (!strcmp(key, "pcore_idx")) {
        check_number(sg->pcore_idx, want, key);
    } else if (!strcmp(key, "queues")) {
        check(sg->queue_count == json_object_size(want));
        each_key(want, check_one_queue, sg);
    } else if (!strcmp(key, "variables")) {
        check(sg->var_count == json_array_size(want));
        for (size_t i = 0; i < sg->var_count; i++)
            each_key(json_array_get(want, i), check_variable_key, &sg->vars[i]);
    } else if (!strcmp(key, "engines")) {
        check(sg->engine_count == json_object_size(want));
        each_key(want, check_one_engine, sg);
    } else {
        return false;
    }
    return true;
}

static void check_subgraphs(const struct neff *n, const json_t *want)
{
    check(neff_subgraph_count(n) == json_array_size(want));
    for (size_t i = 0; i < json_array_size(want); i++)
        each_key(json_array_get(want, i), check_subgraph_key, neff_subgraph(n, i));
}

static bool check_file_key(const char *key, const json_t *want, const void *subject)
{
    const struct neff *n = subject;
    if (!strcmp(key, "file"))
        check(strstr(neff_path(n), json_string_value(want)) != NULL);
    else if (!strcmp(key, "ok"))
        check(json_is_true(want));
    else if (!strcmp(key, "header"))
        each_key(want, check_header_key, neff_get_header(n));
    else if (!strcmp(key, "gzip"))
        check(neff_is_gzip(n) == json_is_true(want));
    else if (!strcmp(key, "hash"))
        each_key(want, check_hash_key, n);
    else if (!strcmp(key, "features"))
        check_features(n, want);
    else if (!strcmp(key, "unnamed_feature_bits"))
        check_unnamed(n, want);
    else if (!strcmp(key, "refused_by_runtime_2_31"))
        check(neff_refused_by_runtime_2_31(neff_get_header(n)) == json_is_true(want));
    else if (!strcmp(key, "members") || !strcmp(key, "ignored_members"))
        check(json_is_array(want)); /* compared together, in check_all_members */
    else if (!strcmp(key, "kelf"))
        check_text(neff_kelf_name(n), json_string_value(want), key);
    else if (!strcmp(key, "target"))
        check_text(neff_target(n), json_string_value(want), key);
    else if (!strcmp(key, "compiler_version"))
        check_text(neff_compiler_version(n), json_string_value(want), key);
    else if (!strcmp(key, "subgraphs"))
        check_subgraphs(n, want);
    else
        return false;
    return true;
}

static json_t *load_expectation(const char *file)
{
    char path[512];
    (void)snprintf(path, sizeof path, DIR_NAME "/%s", file);
    (void)snprintf(where, sizeof where, "%s", path);
    json_error_t e;
    json_t *want = json_load_file(path, 0, &e);
    if (!want)
        fail_msg("%s: %s", path, e.text);
    return want;
}

static void neff_path_of(const json_t *want, char *out, size_t n)
{
    (void)snprintf(out, n, DIR_NAME "/%s", json_string_value(json_object_get(want, "file")));
}

/* Every sound file from the path, and once more from memory, where members must not point into the caller's bytes. */
static void check_sound_file(const char *file)
{
    json_t *want = load_expectation(file);
    char path[512];
    neff_path_of(want, path, sizeof path);
    struct kymo_err err = {0};
    struct neff *n = NULL;
    if (neff_open(path, 0, &n, &err) < 0)
        fail_msg("%s", err.text);
    each_key(want, check_file_key, n);
    check_all_members(n, want);
    n = neff_free(n);

    uint8_t *data;
    size_t len;
    assert_int_equal(kymo_file_read_all(path, 64u << 20, &data, &len, &err), 0);
    assert_int_equal(neff_open_memory(data, len, path, 0, &n, &err), 0);
    memset(data, 0xAA, len);
    kymo_free(data);
    each_key(want, check_file_key, n);
    check_all_members(n, want);
    n = neff_free(n);
    json_decref(want);
    counts.files++;
}

static size_t for_each_vector(bool broken, void (*fn)(const char *file))
{
    DIR *dir = opendir(DIR_NAME);
    assert_non_null(dir);
    size_t n = 0;
    for (const struct dirent *e; (e = readdir(dir));) {
        size_t len = strlen(e->d_name);
        if (len < 5 || strcmp(e->d_name + len - 5, ".json") != 0 || !strncmp(e->d_name, "bad-", 4) != broken)
            continue;
        fn(e->d_name);
        n++;
    }
    (void)closedir(dir);
    return n;
}

static void test_sound(void **state)
{
    (void)state;
    assert_int_equal(for_each_vector(false, check_sound_file), SOUND_FILES);
    print_message("%zu sound files, %zu keys, %zu instructions, %zu texts, %zu DMA blocks\n", counts.files, counts.keys,
                  counts.instructions, counts.texts, counts.blocks);
    assert_true(counts.instructions > 1000 && counts.blocks > 1000 && counts.texts > 1000);
}

static size_t writes_seen;

static int read_only_open(const char *path, int flags, mode_t mode)
{
    writes_seen += (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0;
    return kymo_file_ops_system.open(path, flags, mode);
}

static int no_mkdir(const char *path, mode_t mode)
{
    (void)path, (void)mode;
    writes_seen++;
    return -1;
}

static int no_rename(const char *from, const char *to)
{
    (void)from, (void)to;
    writes_seen++;
    return -1;
}

static bool classes_hold(const json_t *classes, const char *name)
{
    return is_listed(classes, name);
}

static bool check_broken_key(const char *key, const json_t *want, const void *subject)
{
    const bool *refused = subject;
    if (!strcmp(key, "ok"))
        check(json_is_false(want));
    else if (!strcmp(key, "fatal"))
        check(*refused == json_is_true(want));
    else if (!strcmp(key, "file") || !strcmp(key, "error") || !strcmp(key, "words"))
        check(want != NULL);
    else
        return false;
    return true;
}

static void check_broken_file(const char *file)
{
    json_t *want = load_expectation(file);
    char path[512];
    neff_path_of(want, path, sizeof path);
    struct kymo_err err = {0};
    struct neff *n = NULL;
    enum neff_error cls;
    int r = neff_open_classified(path, NULL, 0, 0, &n, &cls, &err);
    bool refused = r < 0;
    check(refused == (n == NULL) && refused == (cls != NEFF_ERROR_NONE));
    if (!refused)
        cls = neff_hash_matches(n) ? NEFF_ERROR_NONE : NEFF_ERROR_HASH_MISMATCH;
    if (!classes_hold(json_object_get(want, "error"), neff_error_name(cls)))
        fail_msg("%s: class %s, text \"%s\"", where, neff_error_name(cls), err.text);
    if (refused)
        check(err.code == r && strstr(err.text, path) == err.text);
    each_key(want, check_broken_key, &refused);
    n = neff_free(n);
    json_decref(want);
}

static void test_broken(void **state)
{
    (void)state;
    struct kymo_file_ops ops = kymo_file_ops_system;
    ops.open = read_only_open;
    ops.mkdir = no_mkdir;
    ops.rename = no_rename;
    kymo_file_set_ops(&ops);
    /* A size that an archive merely declares must not become an allocation: several declare 8 GiB and more. */
    rlim_t old = small_memory_begin(1u << 30);
    size_t n = for_each_vector(true, check_broken_file);
    small_memory_end(old);
    kymo_file_set_ops(NULL);
    assert_int_equal(n, BROKEN_FILES);
    assert_int_equal(writes_seen, 0);
    print_message("%zu broken files\n", n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),
        cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
