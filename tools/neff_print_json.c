/* The JSON form. Built in pieces that are written and dropped, so that a stream of millions of instructions needs no
 * memory. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "arch/layout.h"
#include "arch/opcode.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "tools/neff_print.h"

#define TEXT_MAX 1024
#define EXACT_MAX (1ull << 53)

/* Bytes that are no UTF-8 cannot stand in JSON; they become question marks. */
static json_t *text(const char *s)
{
    json_t *v = s ? json_string(s) : json_null();
    if (v)
        return v;
    char *ascii KYMO_FREE = kymo_strdup(s);
    if (!ascii)
        return NULL;
    for (char *p = ascii; *p; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    return json_string(ascii);
}

static json_t *number(uint64_t v)
{
    char digits[32];
    if (v <= EXACT_MAX)
        return json_integer((json_int_t)v);
    (void)snprintf(digits, sizeof digits, "%" PRIu64, v);
    return json_string(digits);
}

static json_t *hex(const uint8_t *data, size_t n)
{
    char digits[129];
    kymo_hash_hex(data, n, digits);
    return json_string(digits);
}

static json_t *bits(uint64_t v)
{
    char digits[32];
    (void)snprintf(digits, sizeof digits, "0x%" PRIx64, v);
    return json_string(digits);
}

/* Writes a piece and drops it. NULL pieces are what jansson gives when memory ends. */
static int write_piece(FILE *out, const char *before, json_t *piece)
{
    if (!piece)
        return -ENOMEM;
    (void)fputs(before, out);
    int r = json_dumpf(piece, out, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(piece);
    return r < 0 ? -EIO : 0;
}

static json_t *header(const struct neff_header *h)
{
    return json_pack("{so so so so so so si so so so si so so si}", "pkg_version", number(h->pkg_version),
                     "header_size", number(h->header_size), "data_size", number(h->data_size), "neff_version_major",
                     number(h->version_major), "neff_version_minor", number(h->version_minor), "neff_build_version",
                     text(h->build_version), "num_tpb", (int)h->num_tpb, "hash", hex(h->hash, sizeof h->hash), "uuid",
                     hex(h->uuid, sizeof h->uuid), "name", text(h->name), "requested_tpb_count",
                     (int)h->requested_tpb_count, "tpb_per_node", hex(h->tpb_per_node, sizeof h->tpb_per_node),
                     "feature_bits", bits(h->feature_bits), "lnc_size", (int)h->lnc_size);
}

static json_t *features(uint64_t set)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < 64 && list; i++) {
        uint64_t bit = 1ull << i;
        if (set & bit)
            (void)json_array_append_new(list,
                                        json_pack("{so ss? ss? sb}", "bit", bits(bit), "name", neff_feature_name(bit),
                                                  "explorer_name", neff_feature_explorer_name(bit),
                                                  "refused_by_runtime_2_31", (bit & ~NEFF_FEATURES_RUNTIME_2_31) != 0));
    }
    return list;
}

static json_t *members(const struct neff *n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < neff_member_count(n) && list; i++)
        (void)json_array_append_new(list,
                                    json_pack("[oo]", text(neff_member(n, i)->name), number(neff_member(n, i)->size)));
    return list;
}

static json_t *notes(const struct neff *n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < neff_note_count(n) && list; i++)
        (void)json_array_append_new(list, text(neff_note(n, i)));
    return list;
}

static json_t *queue(const struct neff_queue *q)
{
    json_t *names = json_array();
    for (size_t i = 0; i < q->instance_count && names; i++)
        (void)json_array_append_new(names, text(q->instances[i]));
    return json_pack("{so so so si si so}", "name", text(q->name), "type", text(q->type), "owner", text(q->owner),
                     "num_queues", (int)q->num_queues, "semaphore", q->semaphore, "instances", names);
}

static json_t *variable(const struct neff_var *v)
{
    return json_pack("{so so sI so so so so so}", "name", text(v->name), "type", text(v->type), "var_id",
                     (json_int_t)v->var_id, "size", number(v->size), "file_name", text(v->file_name), "shape",
                     text(v->shape), "format", text(v->format), "dtype", text(v->dtype));
}

static json_t *numbers(const int64_t *list, unsigned n)
{
    json_t *a = json_array();
    for (unsigned i = 0; i < n && a; i++)
        (void)json_array_append_new(a, json_integer(list[i]));
    return a;
}

static json_t *access_side(const struct neff_access *a)
{
    return json_pack("{so sI so so so}", "variable", text(a->variable), "offset", (json_int_t)a->offset, "steps",
                     numbers(a->steps, a->step_count), "sizes", numbers(a->sizes, a->size_count), "dtype",
                     text(a->dtype));
}

static json_t *block(const struct neff_dma_block *b)
{
    return json_pack("{sI so so so so so so si si}", "id", (json_int_t)b->id, "queue", text(b->queue), "function",
                     text(b->function), "op", text(b->op), "from", access_side(&b->from), "to", access_side(&b->to),
                     "bytes", number(b->bytes), "semaphore", b->semaphore, "descriptors", (int)b->desc_count);
}

static json_t *opcodes(const struct neff_engine *e)
{
    size_t counts[256];
    char name[32];
    json_t *o = json_object();
    neff_opcode_counts(e, counts);
    for (unsigned i = 0; i < 256 && o; i++)
        if (counts[i])
            (void)json_object_set_new(o, kymo_opcode_name((uint8_t)i, name, sizeof name), number(counts[i]));
    return o;
}

static json_t *debug(const struct neff_debug *d)
{
    if (!d)
        return json_null();
    return json_pack("{so so si so si so so si si}", "raw_bir_id", bits(d->raw_bir_id), "bir_name", text(d->bir_name),
                     "kind", d->kind, "file", text(d->file), "line", d->line, "hlo_name", text(d->hlo_name), "layer",
                     text(d->layer), "dataflow_predecessors", (int)d->dataflow_count, "scheduling_predecessors",
                     (int)d->scheduling_count);
}

static json_t *instruction(const struct neff_print *p, const struct neff_subgraph *sg, const struct neff_engine *e,
                           size_t i)
{
    char name[32], words[TEXT_MAX];
    const uint8_t *rec = e->code + i * KYMO_INSTR_SIZE;
    kymo_instr_text(p->arch, rec, words, sizeof words);
    return json_pack("{so si so so so}", "i", number(i), "opcode", rec[0], "name",
                     text(kymo_opcode_name(rec[0], name, sizeof name)), "text", text(words), "debug",
                     debug(neff_debug_of(p->neff, sg, e->engine, i)));
}

static int write_instructions(const struct neff_print *p, const struct neff_subgraph *sg, const struct neff_engine *e,
                              FILE *out)
{
    int r = 0;
    (void)fputs(",\"instructions\":[", out);
    for (size_t i = 0; i < e->count && r == 0; i++)
        r = write_piece(out, i ? "," : "", instruction(p, sg, e, i));
    (void)fputc(']', out);
    return r;
}

static int write_engine(const struct neff_print *p, const struct neff_subgraph *sg, const struct neff_engine *e,
                        FILE *out)
{
    struct neff_debug_reach d = neff_debug_reach(p->neff, sg, e);
    int r = write_piece(out, "{\"engine\":", text(kymo_engine_name(e->engine)));
    if (r == 0)
        r = write_piece(out, ",\"bin\":", text(e->bin_name));
    if (r == 0)
        r = write_piece(out, ",\"json\":", text(e->json_name));
    if (r == 0)
        r = write_piece(out, ",\"instruction_count\":", number(e->count));
    if (r == 0)
        r = write_piece(out, ",\"opcodes\":", opcodes(e));
    if (r == 0)
        r = write_piece(out, ",\"debug\":",
                        json_pack("{so so so so so}", "records", number(d.records), "sources", number(d.sources), "hlo",
                                  number(d.hlo), "layers", number(d.layers), "edges", number(d.edges)));
    if (r == 0 && p->instructions)
        r = write_instructions(p, sg, e, out);
    (void)fputs(",\"dma\":[", out);
    for (size_t i = 0; i < e->block_count && r == 0; i++)
        r = write_piece(out, i ? "," : "", block(&e->blocks[i]));
    (void)fputs("]}", out);
    return r;
}

/* Layouts of replica groups: lists of lists of lists of ranks. */
static json_t *layouts(const struct neff_subgraph *sg)
{
    json_t *all = json_array();
    for (size_t l = 0; l < sg->replica_layout_count; l++) {
        json_t *layout = json_array();
        for (size_t s = 0; s < sg->replica_layouts[l].count; s++) {
            const struct neff_replica_set *set = &sg->replica_layouts[l].sets[s];
            json_t *ranks = json_array();
            for (size_t i = 0; i < set->count; i++)
                (void)json_array_append_new(ranks, json_integer(set->ranks[i]));
            (void)json_array_append_new(layout, ranks);
        }
        (void)json_array_append_new(all, layout);
    }
    return all;
}

/* Only programs that have collectives say something of them. */
static int write_collectives(const struct neff_subgraph *sg, FILE *out)
{
    if (!sg->world_size && !sg->replica_layout_count)
        return 0;
    int r = write_piece(out, ",\"world_size\":", number(sg->world_size));
    if (r == 0)
        r = write_piece(out, ",\"streams\":", number(sg->stream_count));
    return r == 0 ? write_piece(out, ",\"replica_groups\":", layouts(sg)) : r;
}

static int write_subgraph(const struct neff_print *p, const struct neff_subgraph *sg, FILE *out)
{
    int r = write_piece(out, "{\"name\":", text(sg->name));
    if (r == 0)
        r = write_piece(out, ",\"definition\":", text(sg->definition));
    if (r == 0)
        r = write_piece(out, ",\"pcore_idx\":", number(sg->pcore_idx));
    if (r == 0)
        r = write_collectives(sg, out);
    (void)fputs(",\"queues\":[", out);
    for (size_t i = 0; i < sg->queue_count && r == 0; i++)
        r = write_piece(out, i ? "," : "", queue(&sg->queues[i]));
    (void)fputs("],\"variables\":[", out);
    for (size_t i = 0; i < sg->var_count && r == 0; i++)
        r = write_piece(out, i ? "," : "", variable(&sg->vars[i]));
    (void)fputs("],\"engines\":[", out);
    bool first = true;
    for (size_t i = 0; i < sg->engine_count && r == 0; i++) {
        if (p->engine != KYMO_ENGINE_INVALID && p->engine != sg->engines[i].engine)
            continue;
        (void)fputs(first ? "" : ",", out);
        first = false;
        r = write_engine(p, sg, &sg->engines[i], out);
    }
    (void)fputs("]}", out);
    return r;
}

static int write_package(const struct neff *n, FILE *out)
{
    static const char *const kinds[] = {"none", "md5", "sha256"};
    const struct neff_header *h = neff_get_header(n);
    int r = write_piece(out, "{\"file\":", text(neff_path(n)));
    if (r == 0)
        r = write_piece(out, ",\"sha256\":", hex(neff_file_sha256(n), KYMO_SHA256_SIZE));
    if (r == 0)
        r = write_piece(out, ",\"header\":", header(h));
    if (r == 0)
        r = write_piece(out, ",\"gzip\":", json_boolean(neff_is_gzip(n)));
    if (r == 0)
        r = write_piece(out, ",\"hash\":",
                        json_pack("{ss sb}", "kind", kinds[neff_hash_kind(n)], "matches", (int)neff_hash_matches(n)));
    if (r == 0)
        r = write_piece(out, ",\"features\":", features(h->feature_bits));
    if (r == 0)
        r = write_piece(out, ",\"refused_by_runtime_2_31\":", json_boolean(neff_refused_by_runtime_2_31(h)));
    return r == 0 ? write_piece(out, ",\"members\":", members(n)) : r;
}

static int write_program(const struct neff_print *p, FILE *out)
{
    const struct neff *n = p->neff;
    int r = write_piece(out, ",\"kelf\":", text(neff_kelf_name(n)));
    if (r == 0)
        r = write_piece(out, ",\"target\":", text(neff_target(n)));
    if (r == 0)
        r = write_piece(out, ",\"compiler_version\":", text(neff_compiler_version(n)));
    if (r == 0)
        r = write_piece(out,
                        ",\"mac_count\":", neff_mac_count(n) < 0 ? json_null() : number((uint64_t)neff_mac_count(n)));
    (void)fputs(",\"subgraphs\":[", out);
    for (size_t i = 0; i < neff_subgraph_count(n) && r == 0; i++) {
        (void)fputs(i ? "," : "", out);
        r = write_subgraph(p, neff_subgraph(n, i), out);
    }
    (void)fputc(']', out);
    if (r == 0)
        r = write_piece(out, ",\"notes\":", notes(n));
    (void)fputs("}\n", out);
    return r;
}

int neff_print_json(const struct neff_print *p, FILE *out)
{
    int r = write_package(p->neff, out);
    return r == 0 ? write_program(p, out) : r;
}
