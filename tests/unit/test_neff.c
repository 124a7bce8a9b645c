/* formats/neff beyond the vectors: writer and reader together, debug layers, odd archives, memory that runs out. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/le.h"
#include "formats/neff/neff.h"
#include "formats/neff/neff_writer.h"
#include "tests/unit/neff_sample.h"
#include "tests/unit/small_memory.h"

static char folder[] = "/tmp/kymo-neff-XXXXXX";
static char sample_path[sizeof folder + 32];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(sample_path, sizeof sample_path, "%s/sample.neff", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return kymo_file_remove_tree(folder, NULL);
}

static void write_sample(unsigned pkg_version, enum neff_sample_debug debug)
{
    struct kymo_err err = {0};
    struct neff_header h = neff_sample_header(pkg_version);
    struct neff_writer *w KYMO_CLEANUP(neff_writer_freep) = neff_writer_new();
    assert_non_null(w);
    assert_int_equal(neff_sample_fill(w, debug, &err), 0);
    if (neff_writer_write(w, &h, sample_path, &err) < 0)
        fail_msg("%s", err.text);
}

static struct neff *open_sample(unsigned flags)
{
    struct kymo_err err = {0};
    struct neff *n = NULL;
    if (neff_open(sample_path, flags, &n, &err) < 0)
        fail_msg("%s", err.text);
    return n;
}

static bool has_note(const struct neff *n, const char *words)
{
    for (size_t i = 0; i < neff_note_count(n); i++)
        if (strstr(neff_note(n, i), words))
            return true;
    return false;
}

static const struct neff_engine *engine_of(const struct neff *n, enum kymo_engine e)
{
    const struct neff_subgraph *sg = neff_subgraph_of_pcore(n, 0);
    for (size_t i = 0; i < sg->engine_count; i++)
        if (sg->engines[i].engine == e)
            return &sg->engines[i];
    fail_msg("no engine %d", (int)e);
    return NULL;
}

static void check_header(const struct neff *n, unsigned pkg_version)
{
    struct neff_header want = neff_sample_header(pkg_version);
    const struct neff_header *h = neff_get_header(n);
    assert_int_equal(h->pkg_version, pkg_version);
    assert_int_equal(h->header_size, NEFF_HEADER_SIZE);
    assert_int_equal(h->version_major, want.version_major);
    assert_string_equal(h->build_version, want.build_version);
    assert_string_equal(h->name, want.name);
    assert_memory_equal(h->uuid, want.uuid, sizeof want.uuid);
    assert_int_equal(h->feature_bits, want.feature_bits);
    assert_int_equal(h->lnc_size, 1);
    assert_int_equal(neff_hash_kind(n), pkg_version == 1 ? NEFF_HASH_SHA256 : NEFF_HASH_MD5);
    assert_true(neff_hash_matches(n));
    assert_int_equal(neff_is_gzip(n), pkg_version == 2);
    uint8_t sha[KYMO_SHA256_SIZE];
    assert_int_equal(kymo_hash_sha256_file(sample_path, sha, NULL), 0);
    assert_memory_equal(neff_file_sha256(n), sha, sizeof sha);
}

static void check_program(const struct neff *n)
{
    assert_string_equal(neff_kelf_name(n), "kelf-a.json");
    assert_string_equal(neff_target(n), "cayman");
    assert_string_equal(neff_compiler_version(n), "1.2.3+abc");
    assert_int_equal(neff_mac_count(n), 123456);
    assert_int_equal(neff_subgraph_count(n), 1);
    assert_null(neff_subgraph_of_pcore(n, 1));
    const struct neff_subgraph *sg = neff_subgraph(n, 0);
    assert_int_equal(sg->queue_count, 2);
    assert_int_equal(sg->queues[0].num_queues, 3);
    assert_int_equal(sg->queues[0].semaphore, 7);
    assert_int_equal(sg->queues[0].instance_count, 2);
    assert_string_equal(sg->queues[0].instances[1], "qTensorIO0-i1");
    assert_int_equal(sg->queues[1].num_queues, 1);
    assert_int_equal(sg->queues[1].semaphore, -1);
    assert_string_equal(sg->vars[0].shape, "[2,32]");
    assert_string_equal(sg->vars[0].dtype, "bf16");
    assert_null(sg->vars[0].format);
    assert_true(has_note(n, "num_queues 99"));
    assert_true(has_note(n, "w.npy, which is absent"));
    assert_true(has_note(n, "gone.json, which is absent"));
    assert_true(has_note(n, "without a usable id"));
    assert_true(has_note(n, "its sizes have no product"));
}

static void check_blocks(const struct neff *n)
{
    const struct neff_engine *pe = engine_of(n, KYMO_ENGINE_TENSOR), *sp = engine_of(n, KYMO_ENGINE_SYNC);
    assert_int_equal(pe->count, NEFF_SAMPLE_INSTRUCTIONS);
    assert_int_equal(sp->count, 0);
    assert_int_equal(sp->block_count, 0);
    assert_int_equal(pe->block_count, 3);
    const struct neff_dma_block *b = pe->blocks;
    assert_string_equal(b[0].queue, "qTensorIO0-i0");
    assert_string_equal(b[0].function, "f");
    assert_string_equal(b[0].op, "copy");
    assert_int_equal(b[0].bytes, 21);
    assert_int_equal(b[0].desc_count, 2);
    assert_int_equal(b[0].semaphore, -1);
    /* The function of the instance's set goes on under the set's own name. */
    assert_string_equal(b[1].function, "f");
    assert_int_equal(b[1].bytes, 0);
    assert_int_equal(b[1].semaphore, 9);
    assert_string_equal(b[1].from.dtype, "bfloat16");
    assert_string_equal(b[1].to.dtype, "uint8");
    assert_int_equal(b[1].transpose_dims, 4);
    assert_int_equal(b[1].transpose_shape[3], 4);
    assert_int_equal(b[1].transpose_element_size, 2);
    assert_null(b[2].function);
    assert_string_equal(b[2].from.variable, "a");
    assert_int_equal(b[2].bytes, 6);
}

static void test_round_trip(void **state)
{
    (void)state;
    for (unsigned version = 1; version <= 2; version++) {
        write_sample(version, NEFF_SAMPLE_NONE);
        struct neff *n = open_sample(0);
        check_header(n, version);
        check_program(n);
        check_blocks(n);
        assert_false(neff_has_debug(n));
        assert_null(neff_debug_of(n, neff_subgraph(n, 0), KYMO_ENGINE_TENSOR, 0));
        assert_null(neff_find_member(n, "nothing"));
        assert_null(neff_member(n, neff_member_count(n)));
        n = neff_free(n);
    }
}

static void read_file(uint8_t **data, size_t *len)
{
    assert_int_equal(kymo_file_read_all(sample_path, 64u << 20, data, len, NULL), 0);
}

static void test_same_bytes(void **state)
{
    (void)state;
    for (unsigned version = 1; version <= 2; version++) {
        uint8_t *first, *second;
        size_t first_n, second_n;
        write_sample(version, NEFF_SAMPLE_FLAT);
        read_file(&first, &first_n);
        write_sample(version, NEFF_SAMPLE_FLAT);
        read_file(&second, &second_n);
        assert_int_equal(first_n, second_n);
        assert_memory_equal(first, second, first_n);
        if (version == 1) {
            const char *tar = (const char *)first + NEFF_HEADER_SIZE;
            assert_string_equal(tar, "hlo_stats.json");
            assert_memory_equal(tar + 136, "00000000000", 11); /* time stamp */
            assert_memory_equal(tar + 257, "ustar", 6);
            assert_string_equal(tar + 265, "nobody");
        } else {
            assert_int_equal(kymo_le32(first + NEFF_HEADER_SIZE + 4), 0); /* gzip's own time stamp */
        }
        kymo_free(first);
        kymo_free(second);
    }
}

static void test_writer_refuses(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    struct neff_header h = neff_sample_header(3);
    struct neff_writer *w KYMO_CLEANUP(neff_writer_freep) = neff_writer_new();
    static const char *const unsafe[] = {"", "/a", "../a", "a/..", "a/../b", "..", "./a", "a\nb"};
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
        assert_int_equal(neff_writer_add(w, unsafe[i], "x", 1, &err), -EINVAL);
    assert_int_equal(neff_writer_add(w, "a..b/...", "x", 1, &err), 0);
    assert_int_equal(neff_writer_add(w, "a..b/...", "x", 1, &err), -EEXIST);
    assert_int_equal(neff_writer_write(w, &h, sample_path, &err), -EINVAL);
    h.pkg_version = 1;
    assert_int_equal(neff_writer_write(w, &h, "/nonexistent/folder/x.neff", &err), -ENOENT);
    assert_null(neff_writer_free(NULL));
    assert_null(neff_free(NULL));
}

static void test_long_and_foreign_names(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    struct neff_header h = neff_sample_header(1);
    struct neff_writer *w KYMO_CLEANUP(neff_writer_freep) = neff_writer_new();
    char name[600];
    memset(name, 'n', sizeof name);
    for (size_t i = 90; i < sizeof name; i += 90)
        name[i] = '/';
    name[sizeof name - 1] = '\0';
    assert_int_equal(neff_sample_fill(w, NEFF_SAMPLE_NONE, &err), 0);
    assert_int_equal(neff_writer_add(w, name, "long", 4, &err), 0);
    assert_int_equal(neff_writer_add(w,
                                     "gr\xC3\xB6\xC3\x9F"
                                     "e/\xFF",
                                     "raw", 3, &err),
                     0);
    assert_int_equal(neff_writer_write(w, &h, sample_path, &err), 0);
    struct neff *n = open_sample(0);
    assert_memory_equal(neff_find_member(n, name)->data, "long", 4);
    assert_memory_equal(neff_find_member(n, "gr\xC3\xB6\xC3\x9F"
                                            "e/\xFF")
                            ->data,
                        "raw", 3);
    n = neff_free(n);
}

static void check_debug(const struct neff *n)
{
    const struct neff_subgraph *sg = neff_subgraph(n, 0);
    assert_true(neff_has_debug(n));
    const struct neff_debug *d = neff_debug_of(n, sg, KYMO_ENGINE_TENSOR, 0);
    assert_non_null(d);
    assert_int_equal(d->raw_bir_id, 10);
    assert_string_equal(d->bir_name, "I-10");
    assert_int_equal(d->kind, 1);
    assert_string_equal(d->file, "model.py");
    assert_int_equal(d->line, 42);
    assert_true(d->has_penguin);
    assert_int_equal(d->raw_penguin_id, 20);
    assert_int_equal(d->raw_hlo_id, 30);
    assert_string_equal(d->hlo_name, "dot.1");
    assert_int_equal(d->raw_framework_id, 40);
    assert_string_equal(d->layer, "Model/Layer[0]");
    assert_int_equal(d->dataflow_count, 2);
    assert_int_equal(d->dataflow_predecessors[1], 6);
    assert_int_equal(d->dataflow_kinds[0], 4);
    assert_int_equal(d->dataflow_kinds[1], 0);
    assert_int_equal(d->scheduling_count, 1);
    assert_null(neff_debug_of(n, sg, KYMO_ENGINE_TENSOR, 1));
    d = neff_debug_of(n, sg, KYMO_ENGINE_TENSOR, 2);
    assert_string_equal(d->bir_name, "I-11");
    assert_string_equal(d->file, "kernel.py");
    assert_int_equal(d->line, 7);
    assert_false(d->has_penguin);
    d = neff_debug_of(n, sg, KYMO_ENGINE_TENSOR, 3);
    assert_int_equal(d->raw_bir_id, 99);
    assert_null(d->bir_name);
    assert_null(neff_debug_of(n, sg, KYMO_ENGINE_TENSOR, 4));
    assert_null(neff_debug_of(n, sg, KYMO_ENGINE_SYNC, 0));
    assert_null(neff_debug_of(n, sg, KYMO_ENGINE_INVALID, 0));
}

static void test_debug_layouts(void **state)
{
    (void)state;
    static const enum neff_sample_debug layouts[] = {NEFF_SAMPLE_FLAT, NEFF_SAMPLE_FOLDER};
    for (size_t i = 0; i < 2; i++) {
        write_sample(2, layouts[i]);
        struct neff *n = open_sample(0);
        check_debug(n);
        n = neff_free(n);
        n = open_sample(NEFF_NO_DEBUG);
        assert_false(neff_has_debug(n));
        n = neff_free(n);
    }
}

/* Damage in a debug file costs what it holds from there on, never the rest of the package. */
static void test_damaged_debug(void **state)
{
    (void)state;
    static const char *const damage[] = {"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x1a\x02\x08", "\x07",
                                         "\x1a\x01\x0f"};
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        struct kymo_err err = {0};
        struct neff_header h = neff_sample_header(1);
        struct neff_writer *w KYMO_CLEANUP(neff_writer_freep) = neff_writer_new();
        assert_int_equal(neff_sample_fill(w, NEFF_SAMPLE_FLAT, &err), 0);
        assert_int_equal(neff_writer_add(w, "sg00/debug_info_backend.pe.7.dbg", damage[i], strlen(damage[i]), &err), 0);
        assert_int_equal(neff_writer_add(w, "sg00/debug_info_asm.dbg", "", 0, &err), 0);
        assert_int_equal(neff_writer_write(w, &h, sample_path, &err), 0);
        struct neff *n = open_sample(0);
        assert_true(has_note(n, "backend.pe.7.dbg: it is damaged"));
        assert_true(has_note(n, "tells no engine"));
        check_debug(n);
        n = neff_free(n);
    }
}

/* A package around an archive of the test's own making, in memory. */
struct bytes {
    uint8_t *data;
    size_t len, cap;
};

static la_ssize_t append(struct archive *a, void *ctx, const void *data, size_t n)
{
    (void)a;
    struct bytes *b = ctx;
    void *p = b->data;
    if (kymo_grow(&p, &b->cap, b->len + n, 256u << 20, 1) < 0)
        return -1;
    b->data = p;
    memcpy(b->data + b->len, data, n);
    b->len += n;
    return (la_ssize_t)n;
}

static struct archive *begin_archive(struct bytes *b, bool gzip)
{
    static const uint8_t room[NEFF_HEADER_SIZE];
    *b = (struct bytes){0};
    assert_int_equal(append(NULL, b, room, sizeof room), NEFF_HEADER_SIZE);
    struct archive *a = archive_write_new();
    assert_non_null(a);
    assert_int_equal(archive_write_set_format_pax_restricted(a), ARCHIVE_OK);
    if (gzip) {
        assert_int_equal(archive_write_add_filter_gzip(a), ARCHIVE_OK);
        assert_int_equal(archive_write_set_filter_option(a, "gzip", "compression-level", "9"), ARCHIVE_OK);
    }
    assert_int_equal(archive_write_open(a, b, NULL, append, NULL), ARCHIVE_OK);
    return a;
}

static void add_entry(struct archive *a, const char *name, mode_t type, const char *target, const char *text,
                      size_t repeat)
{
    struct archive_entry *e = archive_entry_new();
    size_t n = text ? strlen(text) : 0;
    archive_entry_set_pathname(e, name);
    archive_entry_set_filetype(e, type);
    archive_entry_set_perm(e, 0644);
    if (type == AE_IFLNK)
        archive_entry_set_symlink(e, target);
    else if (target)
        archive_entry_set_hardlink(e, target);
    archive_entry_set_size(e, (la_int64_t)(n * repeat));
    assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
    for (size_t i = 0; i < repeat && n; i++)
        assert_int_equal(archive_write_data(a, text, n), n);
    archive_entry_free(e);
}

static void end_archive(struct archive *a, struct bytes *b)
{
    assert_int_equal(archive_write_close(a), ARCHIVE_OK);
    (void)archive_write_free(a);
    kymo_put_le64(b->data, 2);
    kymo_put_le64(b->data + 8, NEFF_HEADER_SIZE);
    kymo_put_le64(b->data + 16, b->len - NEFF_HEADER_SIZE);
}

#define NEFF_JSON_TEXT "{\"nodes\":[{\"attrs\":{\"func_name\":\"__kelf\",\"k\":\"kelf.json\"}}]}"
#define KELF_TEXT "{\"graphs\":[{\"definition\":\"def.json\",\"name\":\"main\"}]}"

static void test_odd_entries(void **state)
{
    (void)state;
    struct bytes b;
    struct archive *a = begin_archive(&b, false);
    add_entry(a, "neff.json", AE_IFREG, NULL, "not this one", 1);
    add_entry(a, "./neff.json", AE_IFREG, NULL, NEFF_JSON_TEXT, 1);
    add_entry(a, "kelf.json", AE_IFREG, NULL, KELF_TEXT, 1);
    add_entry(a, "def.json", AE_IFREG, NULL, "{}", 1);
    add_entry(a, "link", AE_IFLNK, "/etc/passwd", NULL, 0);
    add_entry(a, "hard", AE_IFREG, "def.json", NULL, 0);
    add_entry(a, "pipe", AE_IFIFO, NULL, NULL, 0);
    end_archive(a, &b);
    struct kymo_err err = {0};
    struct neff *n = NULL;
    if (neff_open_memory(b.data, b.len, "odd", 0, &n, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(neff_member_count(n), 3);
    assert_true(has_note(n, "more than once"));
    assert_true(has_note(n, "link: is no regular file"));
    assert_true(has_note(n, "hard: is no regular file"));
    assert_true(has_note(n, "pipe: is no regular file"));
    assert_true(has_note(n, "does not fit the data"));
    assert_true(has_note(n, "names no engine"));
    assert_int_equal(neff_subgraph(n, 0)->pcore_idx, 0);
    n = neff_free(n);
    kymo_free(b.data);
}

static enum neff_error class_of(const struct bytes *b)
{
    struct kymo_err err = {0};
    struct neff *n = NULL;
    enum neff_error cls;
    int r = neff_open_classified("memory", b->data, b->len, 0, &n, &cls, &err);
    assert_int_equal(r < 0, cls != NEFF_ERROR_NONE);
    assert_int_equal(r, err.code);
    assert_int_equal(n == NULL, r < 0);
    n = neff_free(n);
    return cls;
}

/* 300 MiB of zeros in some 300 KB: refused at the floor of the expansion limit, without holding more than that. */
/* Notes name the member that was looked for. */
static void test_blame(void **state)
{
    (void)state;
    struct bytes b;
    struct archive *a = begin_archive(&b, false);
    add_entry(a, "neff.json", AE_IFREG, NULL, NEFF_JSON_TEXT, 1);
    add_entry(a, "kelf.json", AE_IFREG, NULL, KELF_TEXT, 1);
    add_entry(a, "def.json", AE_IFREG, NULL, "{\"pe\":\"PE.bin\",\"pool\":\"Pool.bin\"}", 1);
    add_entry(a, "PE.bin", AE_IFREG, NULL, NULL, 0);
    add_entry(a, "PE.json", AE_IFREG, NULL, "{}", 1);
    end_archive(a, &b);
    struct kymo_err err = {0};
    struct neff *n = NULL;
    if (neff_open_memory(b.data, b.len, "odd", 0, &n, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(has_note(n, "\"PE.bin\" has no bytes"));
    assert_true(has_note(n, "the instructions of GpSimd are absent (Pool.bin)"));
    assert_true(has_note(n, "the transfers of GpSimd are absent (Pool.json)"));
    n = neff_free(n);
    kymo_free(b.data);
    a = begin_archive(&b, false);
    add_entry(a, "neff.json", AE_IFREG, NULL, NEFF_JSON_TEXT, 1);
    end_archive(a, &b);
    assert_int_equal(neff_open_memory(b.data, b.len, "odd", 0, &n, &err), -EPROTO);
    assert_non_null(strstr(err.text, "neff.json has a kelf node, but no member that it names is in the archive"));
    kymo_free(b.data);
}

static void test_expansion(void **state)
{
    (void)state;
    static char zeros[1 << 20];
    memset(zeros, '0', sizeof zeros - 1);
    struct bytes b;
    struct archive *a = begin_archive(&b, true);
    add_entry(a, "bomb", AE_IFREG, NULL, zeros, 300);
    end_archive(a, &b);
    assert_true(b.len < (2u << 20));
    rlim_t old = small_memory_begin(1u << 30);
    assert_int_equal(class_of(&b), NEFF_ERROR_LIMIT);
    small_memory_end(old);
    kymo_free(b.data);
}

static enum neff_error class_with_engine(const char *engine_json)
{
    struct bytes b;
    struct archive *a = begin_archive(&b, false);
    add_entry(a, "neff.json", AE_IFREG, NULL, NEFF_JSON_TEXT, 1);
    add_entry(a, "kelf.json", AE_IFREG, NULL, KELF_TEXT, 1);
    add_entry(a, "def.json", AE_IFREG, NULL, "{\"act\":\"act.json\"}", 1);
    add_entry(a, "act.json", AE_IFREG, NULL, engine_json, 1);
    end_archive(a, &b);
    enum neff_error cls = class_of(&b);
    kymo_free(b.data);
    return cls;
}

static void test_engine_json(void **state)
{
    (void)state;
    static const char *const sound[] = {"{}",
                                        " {\"dma\":[]} \n",
                                        "{\"dma\":7}",
                                        "{\"a\":1,\"dma\":[{},3,null],\"b\":[[]]}",
                                        "{\"dma\":[{\"id\":1,\"desc\":null}]}",
                                        "{\"dma\":[{\"id\":1,\"desc\":[]}]}"};
    static const char *const broken[] = {"",
                                         "[]",
                                         "{",
                                         "{\"dma\":[",
                                         "{\"dma\":[}",
                                         "{\"dma\":[{}]",
                                         "{\"dma\":[{},]}",
                                         "{\"dma\":[{} {}]}",
                                         "{\"a\" 1}",
                                         "{\"a\":1,}",
                                         "{a:1}",
                                         "{} {}",
                                         "{\"a\":01}"};
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++)
        if (class_with_engine(sound[i]) != NEFF_ERROR_NONE)
            fail_msg("refused: %s", sound[i]);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        if (class_with_engine(broken[i]) != NEFF_ERROR_BAD_JSON)
            fail_msg("accepted: %s", broken[i]);
    /* One entry longer than the limit on entries. */
    char *entry KYMO_FREE = kymo_malloc(3u << 20);
    memset(entry, ' ', 3u << 20);
    memcpy(entry, "{\"dma\":[{\"id\":1,", 16);
    memcpy(entry + (3u << 20) - 16, "\"queue\":\"q\"}]}\n", 16);
    entry[(3u << 20) - 1] = '\0';
    assert_int_equal(class_with_engine(entry), NEFF_ERROR_LIMIT);
}

static void test_header_alone(void **state)
{
    (void)state;
    uint8_t bytes[NEFF_HEADER_SIZE] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 4};
    struct neff_header h = {.lnc_size = 77};
    struct kymo_err err = {0};
    assert_int_equal(neff_header_parse(bytes, sizeof bytes - 1, &h, &err), -EPROTO);
    assert_int_equal(h.lnc_size, 77);
    assert_int_equal(neff_header_parse(bytes, sizeof bytes, &h, &err), 0);
    assert_int_equal(h.lnc_size, 0);
    assert_string_equal(neff_error_name(NEFF_ERROR_TAR_DAMAGED), "tar_damaged");
    assert_null(neff_error_name(NEFF_ERROR_MAX));
}

#define CALM_RUN 64

/*
 * Each allocation fails once: no crash, no leak (under a sanitizer), no half-made result. Some failures cost only a
 * note, so the end is reached when many runs in a row succeed.
 */
static size_t bytes_read;

static ssize_t counting_pread(int fd, void *buf, size_t n, off_t off)
{
    ssize_t got = kymo_file_ops_system.pread(fd, buf, n, off);
    bytes_read += got > 0 ? (size_t)got : 0;
    return got;
}

static void check_refused_early(const char *words)
{
    struct kymo_file_ops ops = kymo_file_ops_system;
    ops.pread = counting_pread;
    struct kymo_err err = {0};
    struct neff *n = NULL;
    bytes_read = 0;
    kymo_file_set_ops(&ops);
    assert_int_equal(neff_open(sample_path, 0, &n, &err), -EPROTO);
    kymo_file_set_ops(NULL);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
    assert_true(bytes_read <= NEFF_HEADER_SIZE);
}

/* A large foreign file, or a NEFF that was cut off, costs one read of its header. */
static void test_header_comes_first(void **state)
{
    (void)state;
    write_sample(2, NEFF_SAMPLE_FLAT);
    struct stat st;
    assert_int_equal(stat(sample_path, &st), 0);
    char words[64];
    (void)snprintf(words, sizeof words, "offset %lld: the file is truncated", (long long)st.st_size - 1);
    assert_int_equal(truncate(sample_path, st.st_size - 1), 0);
    check_refused_early(words);
    assert_int_equal(truncate(sample_path, 0), 0);
    assert_int_equal(truncate(sample_path, (off_t)3 << 30), 0);
    check_refused_early("pkg_version 0 is neither 1 nor 2");
}

static void test_no_memory(void **state)
{
    (void)state;
    static const enum neff_sample_debug layouts[] = {NEFF_SAMPLE_FLAT, NEFF_SAMPLE_FOLDER};
    for (unsigned version = 1; version <= 2; version++) {
        write_sample(version, layouts[version - 1]);
        long failed = 0, calm = 0;
        for (long i = 0; calm < CALM_RUN && i < 100000; i++) {
            struct kymo_err err = {0};
            struct neff *n = NULL;
            kymo_alloc_fail_after(i);
            int r = neff_open(sample_path, 0, &n, &err);
            kymo_alloc_fail_after(-1);
            assert_int_equal(err.code, r);
            assert_int_equal(n == NULL, r < 0);
            if (n) {
                check_blocks(n);
                check_debug(n);
            }
            n = neff_free(n);
            failed += r < 0;
            calm = r < 0 ? 0 : calm + 1;
        }
        assert_true(failed > 50);
        print_message("pkg_version %u: refused %ld times for one lost allocation\n", version, failed);
    }
}

static int try_write(struct kymo_err *err)
{
    struct neff_header h = neff_sample_header(2);
    struct neff_writer *w KYMO_CLEANUP(neff_writer_freep) = neff_writer_new();
    if (!w)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    int r = neff_sample_fill(w, NEFF_SAMPLE_FLAT, err);
    return r == 0 ? neff_writer_write(w, &h, sample_path, err) : r;
}

static void test_no_memory_to_write(void **state)
{
    (void)state;
    int r = -ENOMEM;
    for (long i = 0; r < 0 && i < 10000; i++) {
        struct kymo_err err = {0};
        kymo_alloc_fail_after(i);
        r = try_write(&err);
        kymo_alloc_fail_after(-1);
        assert_int_equal(err.code, r);
        assert_true(r == 0 || r == -ENOMEM);
    }
    assert_int_equal(r, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_writer_refuses), cmocka_unit_test(test_long_and_foreign_names),
        cmocka_unit_test(test_debug_layouts),  cmocka_unit_test(test_damaged_debug),
        cmocka_unit_test(test_odd_entries),    cmocka_unit_test(test_expansion),
        cmocka_unit_test(test_engine_json),    cmocka_unit_test(test_header_alone),
        cmocka_unit_test(test_blame),          cmocka_unit_test(test_header_comes_first),
        cmocka_unit_test(test_no_memory),      cmocka_unit_test(test_no_memory_to_write),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
