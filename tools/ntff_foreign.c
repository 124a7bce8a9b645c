/* kymo ntff inspect on a file whose header is not ours. Nothing here is used to make tables. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/le.h"
#include "formats/ntff/ntff_facts.h"
#include "formats/ntff/ntff_header.h"
#include "tools/ntff_inspect.h"
#include "tools/tree_pb.h"

/* The protobuf is looked for in this many bytes: what is looked at must fit memory. */
#define LOOKED_AT_MAX ((uint64_t)NTFF_PROTOBUF_MAX)

/* Where the facts say a protobuf may begin: behind 128 bytes of header; at once, as in the bare .pb files. */
static const uint64_t places[] = {NTFF_HEADER_SIZE, 0};

int ntff_inspect_is_foreign(const char *path, bool *ret, struct kymo_err *err)
{
    uint8_t bytes[NTFF_HEADER_SIZE];
    uint64_t size;
    int fd KYMO_CLOSE = kymo_file_open(path, O_RDONLY, 0, err);
    if (fd < 0)
        return fd;
    int code = kymo_file_size(fd, &size, path, err);
    size_t n = size < sizeof bytes ? (size_t)size : sizeof bytes;
    if (code == 0)
        code = kymo_file_pread_all(fd, bytes, n, 0, path, err);
    if (code == 0)
        *ret = n > 0 && !ntff_header_is_ours(bytes, n);
    return code;
}

static void show_facts_table(struct tree *t, const struct ntff_facts *f, uint64_t at)
{
    tree_list(t, "facts");
    for (size_t i = 0; i < ntff_facts_count(f); i++) {
        const struct ntff_fact *fact = ntff_facts_get(f, i);
        tree_row(t, NULL);
        tree_textf(t, "field", "%s.%s", fact->message, fact->name);
        tree_u64(t, "number", fact->number);
        tree_text(t, "wire", pb_wire_name(fact->wire));
        tree_text(t, "mark", fact->mark);
        tree_text(t, "verdict", fact->contradicted ? "contradicted" : fact->confirmed ? "confirmed" : "not seen");
        tree_u64(t, "confirmed", fact->confirmed);
        tree_u64(t, "contradicted", fact->contradicted);
        if (fact->contradicted) {
            tree_text(t, "seen_wire", pb_wire_name(fact->other_wire));
            tree_u64(t, "seen_at", at + fact->other_offset);
        }
        tree_close(t);
    }
    tree_close(t);
}

/* at: where in the file the message begins; all offsets shown are the file's. */
static void show_facts(struct tree *t, const struct ntff_facts *f, uint64_t at)
{
    uint32_t nodes = ntff_facts_nodes_number(f);
    if (nodes)
        tree_u64(t, "neff_nodes_number", nodes);
    else
        tree_text(t, "neff_nodes_number", NULL);
    show_facts_table(t, f, at);
    tree_list(t, "numbers_without_fact");
    for (size_t i = 0; i < ntff_facts_other_count(f); i++) {
        const struct ntff_fact_other *o = ntff_facts_other(f, i);
        tree_row(t, NULL);
        tree_text(t, "message", o->message);
        tree_u64(t, "number", o->number);
        tree_text(t, "wire", pb_wire_name(o->wire));
        tree_u64(t, "seen", o->seen);
        tree_u64(t, "first_at", at + o->offset);
        tree_close(t);
    }
    tree_close(t);
}

/* Words of the header that equal a number we know are the first candidates for its fields. */
static void show_header_words(struct tree *t, const uint8_t *header, uint64_t file_size, uint64_t at, uint64_t used)
{
    const struct {
        const char *what;
        uint64_t value;
    } known[] = {{"protobuf length", used},
                 {"end of the protobuf", at + used},
                 {"bytes behind the protobuf", file_size - at - used},
                 {"file size", file_size}};
    tree_list(t, "header_words");
    for (size_t off = 0; off + 4 <= NTFF_HEADER_SIZE; off += 4)
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
            bool wide = off + 8 <= NTFF_HEADER_SIZE && kymo_le64(header + off) == known[k].value;
            if (known[k].value == 0 || (!wide && kymo_le32(header + off) != known[k].value))
                continue;
            tree_row(t, NULL);
            tree_u64(t, "offset", off);
            tree_u64(t, "bits", wide ? 64 : 32);
            tree_u64(t, "value", known[k].value);
            tree_text(t, "equals", known[k].what);
            tree_close(t);
        }
    tree_close(t);
}

static int show_candidate(struct tree *t, const uint8_t *data, uint64_t n, uint64_t file_size, uint64_t at,
                          struct kymo_err *err)
{
    const char *cause = NULL;
    tree_object(t, NULL);
    tree_u64(t, "offset", at);
    size_t used =
        tree_pb_bytes(t, "protobuf", data + at, (size_t)(n - at), (size_t)at, NTFF_FACTS_TOP_NUMBER_MAX, &cause);
    tree_u64(t, "length", used);
    tree_text(t, "ended_by", cause ? cause : "the end of the file");
    if (used > 0) {
        struct ntff_facts *f KYMO_CLEANUP(ntff_facts_freep) = ntff_facts_check(data + at, used);
        if (!f)
            return kymo_err_set(err, -ENOMEM, "out of memory");
        show_facts(t, f, at);
        if (at == NTFF_HEADER_SIZE)
            show_header_words(t, data, file_size, at, used);
    }
    tree_close(t);
    return 0;
}

int ntff_inspect_foreign(struct tree *t, const char *path, struct kymo_err *err)
{
    uint64_t size;
    int fd KYMO_CLOSE = kymo_file_open(path, O_RDONLY, 0, err);
    if (fd < 0)
        return fd;
    int code = kymo_file_size(fd, &size, path, err);
    if (code < 0)
        return code;
    uint64_t n = size < LOOKED_AT_MAX ? size : LOOKED_AT_MAX;
    uint8_t *data KYMO_FREE = kymo_malloc((size_t)n);
    if (!data)
        return kymo_err_set(err, -ENOMEM, "%s: out of memory for %llu bytes", path, (unsigned long long)n);
    code = kymo_file_pread_all(fd, data, (size_t)n, 0, path, err);
    if (code < 0)
        return code;
    tree_u64(t, "file_size", size);
    tree_hex(t, "first_bytes", data, (size_t)n, NTFF_HEADER_SIZE);
    tree_list(t, "candidates");
    for (size_t i = 0; code == 0 && i < sizeof places / sizeof *places; i++)
        if (places[i] < n)
            code = show_candidate(t, data, n, size, places[i], err);
    tree_close(t);
    return code;
}
