#include "tools/neff_print.h"

#include <inttypes.h>
#include <string.h>

#include "arch/layout.h"
#include "arch/opcode.h"
#include "base/hash.h"
#include "base/plain.h"

#define TEXT_MAX 1024

struct neff_debug_reach neff_debug_reach(const struct neff *n, const struct neff_subgraph *sg,
                                         const struct neff_engine *e)
{
    struct neff_debug_reach r = {0};
    for (size_t i = 0; i < e->count; i++) {
        const struct neff_debug *d = neff_debug_of(n, sg, e->engine, i);
        if (!d)
            continue;
        r.records++;
        r.sources += d->file != NULL;
        r.hlo += d->hlo_name != NULL;
        r.layers += d->layer != NULL;
        r.edges += d->dataflow_count + d->scheduling_count;
    }
    return r;
}

void neff_opcode_counts(const struct neff_engine *e, size_t counts[256])
{
    memset(counts, 0, 256 * sizeof *counts);
    for (size_t i = 0; i < e->count; i++)
        counts[e->code[i * KYMO_INSTR_SIZE]]++;
}

/* Text from the file reaches a terminal: control characters do not. */
static void put(FILE *out, const char *text)
{
    kymo_plain_print(out, text ? text : "(absent)");
}

static void put_row(FILE *out, const char *label, const char *text)
{
    (void)fprintf(out, "  %-16s ", label);
    put(out, text);
    (void)fputc('\n', out);
}

static void put_hex(FILE *out, const char *label, const uint8_t *data, size_t n)
{
    char hex[129];
    kymo_hash_hex(data, n, hex);
    put_row(out, label, hex);
}

static void put_header(const struct neff *n, FILE *out)
{
    const struct neff_header *h = neff_get_header(n);
    (void)fprintf(out, "header\n  %-16s %" PRIu64 "\n  %-16s %" PRIu64 "\n  %-16s %" PRIu64 " (%s)\n", "pkg_version",
                  h->pkg_version, "header_size", h->header_size, "data_size", h->data_size,
                  neff_is_gzip(n) ? "gzip" : "plain tar");
    (void)fprintf(out, "  %-16s %" PRIu64 ".%" PRIu64 "\n", "neff_version", h->version_major, h->version_minor);
    put_row(out, "build_version", h->build_version);
    put_row(out, "name", h->name);
    put_hex(out, "uuid", h->uuid, sizeof h->uuid);
    (void)fprintf(out, "  %-16s %u\n  %-16s %u\n  %-16s %u\n", "num_tpb", h->num_tpb, "requested_tpbs",
                  h->requested_tpb_count, "lnc_size", h->lnc_size);
    put_hex(out, "tpb_per_node", h->tpb_per_node, sizeof h->tpb_per_node);
    bool sha = neff_hash_kind(n) == NEFF_HASH_SHA256;
    put_hex(out, "hash", h->hash, sha ? KYMO_SHA256_SIZE : KYMO_MD5_SIZE);
    (void)fprintf(out, "  %-16s %s, %s\n", "hash verdict", sha ? "SHA-256" : "MD5",
                  neff_hash_matches(n) ? "fits the data" : "does NOT fit the data");
    put_hex(out, "file SHA-256", neff_file_sha256(n), KYMO_SHA256_SIZE);
}

static void put_features(const struct neff_header *h, FILE *out)
{
    (void)fprintf(out, "features 0x%" PRIx64 "\n", h->feature_bits);
    for (unsigned i = 0; i < 64; i++) {
        uint64_t bit = 1ull << i;
        if (!(h->feature_bits & bit))
            continue;
        const char *name = neff_feature_name(bit), *explorer = neff_feature_explorer_name(bit);
        bool refused = h->version_major == 2 && (bit & ~NEFF_FEATURES_RUNTIME_2_31);
        (void)fprintf(out, "  0x%-14" PRIx64 " %s%s%s%s%s\n", bit, name ? name : "(no known name)",
                      explorer ? " [" : "", explorer ? explorer : "", explorer ? "]" : "",
                      refused ? ", refused by runtime 2.31" : "");
    }
    if (neff_refused_by_runtime_2_31(h))
        (void)fprintf(out, "  runtime 2.31 refuses this file\n");
}

static void put_members(const struct neff *n, FILE *out)
{
    (void)fprintf(out, "members %zu\n", neff_member_count(n));
    for (size_t i = 0; i < neff_member_count(n); i++) {
        const struct neff_member *m = neff_member(n, i);
        (void)fprintf(out, "  %12zu  ", m->size);
        put(out, m->name);
        (void)fputc('\n', out);
    }
}

static void put_queues(const struct neff_subgraph *sg, FILE *out)
{
    (void)fprintf(out, "  queues %zu\n", sg->queue_count);
    for (size_t i = 0; i < sg->queue_count; i++) {
        const struct neff_queue *q = &sg->queues[i];
        (void)fprintf(out, "    ");
        put(out, q->name);
        (void)fprintf(out, " type=");
        put(out, q->type);
        (void)fprintf(out, " owner=");
        put(out, q->owner);
        (void)fprintf(out, " num_queues=%u", q->num_queues);
        if (q->semaphore >= 0)
            (void)fprintf(out, " semaphore=%d", q->semaphore);
        for (size_t k = 0; k < q->instance_count; k++) {
            (void)fprintf(out, k ? "," : " instances=");
            put(out, q->instances[k]);
        }
        (void)fputc('\n', out);
    }
}

static void put_variables(const struct neff_subgraph *sg, FILE *out)
{
    (void)fprintf(out, "  variables %zu\n", sg->var_count);
    for (size_t i = 0; i < sg->var_count; i++) {
        const struct neff_var *v = &sg->vars[i];
        (void)fprintf(out, "    %4" PRId64 "  %14" PRIu64 "  ", v->var_id, v->size);
        put(out, v->type);
        (void)fprintf(out, "  ");
        put(out, v->name);
        if (v->file_name) {
            (void)fprintf(out, "  file=");
            put(out, v->file_name);
        }
        (void)fputc('\n', out);
    }
}

static void put_opcodes(const struct neff_engine *e, FILE *out)
{
    size_t counts[256];
    char name[32];
    neff_opcode_counts(e, counts);
    for (unsigned i = 0; i < 256; i++)
        if (counts[i])
            (void)fprintf(out, "      %12zu  %02X %s\n", counts[i], i, kymo_opcode_name((uint8_t)i, name, sizeof name));
}

static void put_debug(const struct neff_debug *d, FILE *out)
{
    if (!d)
        return;
    (void)fprintf(out, "  # ");
    put(out, d->bir_name ? d->bir_name : "");
    if (d->file) {
        (void)fputc(' ', out);
        put(out, d->file);
        (void)fprintf(out, ":%d", d->line);
    }
    if (d->layer) {
        (void)fputc(' ', out);
        put(out, d->layer);
    }
}

static void put_instructions(const struct neff_print *p, const struct neff_subgraph *sg, const struct neff_engine *e,
                             FILE *out)
{
    char name[32], text[TEXT_MAX];
    for (size_t i = 0; i < e->count; i++) {
        const uint8_t *rec = e->code + i * KYMO_INSTR_SIZE;
        kymo_instr_text(p->arch, rec, text, sizeof text);
        (void)fprintf(out, "      %8zu  %-28s ", i, kymo_opcode_name(rec[0], name, sizeof name));
        put(out, text);
        put_debug(neff_debug_of(p->neff, sg, e->engine, i), out);
        (void)fputc('\n', out);
    }
}

static void put_access(const struct neff_access *a, FILE *out)
{
    put(out, a->variable);
    (void)fprintf(out, "+%" PRId64, a->offset);
    for (unsigned i = 0; i < a->size_count; i++)
        (void)fprintf(out, "[%" PRId64 ",%" PRId64 "]", i < a->step_count ? a->steps[i] : 0, a->sizes[i]);
    (void)fputc(' ', out);
    put(out, a->dtype);
}

static void put_blocks(const struct neff_engine *e, FILE *out)
{
    (void)fprintf(out, "    DMA blocks %zu\n", e->block_count);
    for (size_t i = 0; i < e->block_count; i++) {
        const struct neff_dma_block *b = &e->blocks[i];
        (void)fprintf(out, "      ");
        put(out, b->queue);
        (void)fprintf(out, " id=%u ", b->id);
        if (b->function) {
            (void)fprintf(out, "function=");
            put(out, b->function);
            (void)fputc(' ', out);
        }
        put(out, b->op);
        (void)fprintf(out, " %" PRIu64 " bytes, %u descriptors: ", b->bytes, b->desc_count);
        put_access(&b->from, out);
        (void)fprintf(out, " -> ");
        put_access(&b->to, out);
        if (b->semaphore >= 0)
            (void)fprintf(out, " semaphore=%d", b->semaphore);
        (void)fputc('\n', out);
    }
}

static void put_engine(const struct neff_print *p, const struct neff_subgraph *sg, const struct neff_engine *e,
                       FILE *out)
{
    struct neff_debug_reach r = neff_debug_reach(p->neff, sg, e);
    (void)fprintf(out, "  engine %s\n    instructions %zu", kymo_engine_name(e->engine), e->count);
    (void)fprintf(out, "  (");
    put(out, e->bin_name);
    (void)fprintf(out, ", ");
    put(out, e->json_name);
    (void)fprintf(out, ")\n");
    if (r.records)
        (void)fprintf(
            out, "    debug: %zu of them named, %zu with source, %zu with HLO, %zu with a framework layer, %zu edges\n",
            r.records, r.sources, r.hlo, r.layers, r.edges);
    put_opcodes(e, out);
    if (p->instructions)
        put_instructions(p, sg, e, out);
    put_blocks(e, out);
}

static void put_layout(const struct neff_replica_layout *layout, FILE *out)
{
    for (size_t s = 0; s < layout->count; s++) {
        (void)fprintf(out, "%s[", s ? " " : "");
        for (size_t i = 0; i < layout->sets[s].count; i++)
            (void)fprintf(out, "%s%u", i ? "," : "", layout->sets[s].ranks[i]);
        (void)fputc(']', out);
    }
}

static void put_collectives(const struct neff_subgraph *sg, FILE *out)
{
    if (!sg->world_size && !sg->replica_layout_count)
        return;
    (void)fprintf(out, "  collectives over %u ranks, %u streams\n", sg->world_size, sg->stream_count);
    for (size_t i = 0; i < sg->replica_layout_count; i++) {
        (void)fprintf(out, "    replica groups %zu: ", i);
        put_layout(&sg->replica_layouts[i], out);
        (void)fputc('\n', out);
    }
}

static void put_subgraph(const struct neff_print *p, const struct neff_subgraph *sg, FILE *out)
{
    (void)fprintf(out, "subgraph ");
    put(out, sg->name);
    (void)fprintf(out, " (");
    put(out, sg->definition);
    (void)fprintf(out, ", physical core %u)\n", sg->pcore_idx);
    put_queues(sg, out);
    put_variables(sg, out);
    put_collectives(sg, out);
    for (size_t i = 0; i < sg->engine_count; i++)
        if (p->engine == KYMO_ENGINE_INVALID || p->engine == sg->engines[i].engine)
            put_engine(p, sg, &sg->engines[i], out);
}

int neff_print_text(const struct neff_print *p, FILE *out)
{
    const struct neff *n = p->neff;
    put(out, neff_path(n));
    (void)fputc('\n', out);
    put_header(n, out);
    put_features(neff_get_header(n), out);
    put_members(n, out);
    (void)fprintf(out, "program\n");
    put_row(out, "kelf", neff_kelf_name(n));
    put_row(out, "target", neff_target(n));
    put_row(out, "compiler", neff_compiler_version(n));
    if (neff_mac_count(n) >= 0)
        (void)fprintf(out, "  %-16s %" PRId64 "\n", "MAC count", neff_mac_count(n));
    else
        put_row(out, "MAC count", NULL);
    put_row(out, "debug layers", neff_has_debug(n) ? "joined" : NULL);
    for (size_t i = 0; i < neff_subgraph_count(n); i++)
        put_subgraph(p, neff_subgraph(n, i), out);
    (void)fprintf(out, "notes %zu\n", neff_note_count(n));
    for (size_t i = 0; i < neff_note_count(n); i++) {
        (void)fprintf(out, "  ");
        put(out, neff_note(n, i));
        (void)fputc('\n', out);
    }
    return 0;
}
