#include "pipeline/input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "pipeline/rings/claims.h"

#define UUID_SIZE 16

struct input *input_free(struct input *in)
{
    if (!in)
        return NULL;
    for (size_t i = 0; i < in->neff_count; i++)
        neff_free(in->neffs[i]);
    if (in->manifest)
        kymo__manifest__capture__free_unpacked(in->manifest, NULL);
    kymo_free(in->nodes);
    ntff_reader_free(in->ntff);
    kymo_free(in);
    return NULL;
}

void input_freep(struct input **in)
{
    *in = input_free(*in);
}

const Ntff__EngineInstructionInfo *input_engine(const struct input_node *node, unsigned pcore, enum kymo_engine engine)
{
    const Ntff__SubgraphInfo *g = pcore < INPUT_CORES_MAX ? node->graph[pcore] : NULL;
    for (size_t i = 0; g && i < g->n_instruction_info; i++) {
        const Ntff__EngineInstructionInfo *info = g->instruction_info[i];
        if ((int)info->nc_engine_type == (int)engine && info->block_type == NTFF__BLOCK_TYPE__BLOCK_TYPE_NC &&
            !info->function_section)
            return info;
    }
    return NULL;
}

const struct neff_subgraph *input_subgraph(const struct input *in, uint32_t node, unsigned pcore)
{
    const struct neff *n = in->nodes[node].neff;
    if (!n)
        return NULL;
    if (in->cores == 1 && neff_subgraph_count(n) == 1)
        return neff_subgraph(n, 0);
    return neff_subgraph_of_pcore(n, pcore);
}

void input_node_uuid(const struct input_node *node, char out[33])
{
    if (node->info->neff_uuid.len == UUID_SIZE)
        kymo_hash_hex(node->info->neff_uuid.data, UUID_SIZE, out);
    else
        (void)snprintf(out, 33, "none");
}

static bool same_uuid(const struct input_node *node, const struct neff *neff)
{
    const ProtobufCBinaryData *uuid = &node->info->neff_uuid;
    return uuid->len == UUID_SIZE && !memcmp(uuid->data, neff_get_header(neff)->uuid, UUID_SIZE);
}

static bool same_file(const struct input_node *node, const struct neff *neff)
{
    const ProtobufCBinaryData *sha = &node->info->neff_sha256;
    return sha->len == KYMO_SHA256_SIZE && !memcmp(sha->data, neff_file_sha256(neff), KYMO_SHA256_SIZE);
}

/* The very file when it is offered, else one with the same uuid: a NEFF that was repacked keeps its uuid and its
 * streams. */
static const struct neff *find_neff(const struct input *in, const struct input_node *node)
{
    for (size_t i = 0; i < in->neff_count; i++)
        if (same_file(node, in->neffs[i]))
            return in->neffs[i];
    for (size_t i = 0; i < in->neff_count; i++)
        if (same_uuid(node, in->neffs[i]))
            return in->neffs[i];
    /* A profile that does not name its NEFF takes the only one offered; comparing it with the image shows whether it
     * is. */
    bool nameless = node->info->neff_uuid.len != UUID_SIZE && node->info->neff_sha256.len != KYMO_SHA256_SIZE;
    return nameless && in->node_count == 1 && in->neff_count == 1 ? in->neffs[0] : NULL;
}

static void explain_missing(const struct input *in, const struct input_node *node, struct warnings *w)
{
    char want[33], have[33];
    input_node_uuid(node, want);
    if (!in->neff_count) {
        warnings_add(w, "Missing NEFF",
                     "no %sNEFF was given for uuid %s (%s): opcodes and operands come from the trace's own image, "
                     "compiler columns and "
                     "DMA blocks are empty; give the NEFF with -n",
                     in->neff_unreadable ? "readable " : "", want, node->info->neff_name ? node->info->neff_name : "");
        return;
    }
    for (size_t i = 0; i < in->neff_count; i++) {
        char item[512];
        kymo_hash_hex(neff_get_header(in->neffs[i])->uuid, UUID_SIZE, have);
        (void)snprintf(item, sizeof item, "%s has uuid %s", neff_path(in->neffs[i]), have);
        warnings_list(
            w, "Wrong NEFF", item,
            "the trace was taken from uuid %s, and no NEFF that was given is that one: compiler columns and DMA "
            "blocks are empty; give the NEFF that was loaded",
            want);
    }
}

static void match_nodes(struct input *in, struct warnings *w)
{
    for (size_t i = 0; i < in->node_count; i++) {
        struct input_node *node = &in->nodes[i];
        node->neff = find_neff(in, node);
        if (!node->neff)
            explain_missing(in, node, w);
        else if (!neff_has_debug(node->neff))
            warnings_add(w, "Missing debug information",
                         "%s has no debug layer: source locations, layer and IR names are empty; recompile with debug "
                         "information",
                         neff_path(node->neff));
    }
}

static int read_nodes(struct input *in, struct kymo_err *err)
{
    size_t n = in->info->n_neff_nodes;
    if (n > INPUT_NODES_MAX)
        return kymo_err_set(err, -E2BIG, "%s: %zu NEFFs in one profile, at most %d are read",
                            ntff_reader_path(in->ntff), n, INPUT_NODES_MAX);
    in->nodes = KYMO_NEW_ARRAY(struct input_node, n + 1);
    if (!in->nodes)
        return kymo_err_set(err, -ENOMEM, "no memory for the profile's NEFF list");
    for (size_t i = 0; i < n; i++) {
        const Ntff__NeffNodeInfo *info = in->info->neff_nodes[i];
        if (info->node_info_case != NTFF__NEFF_NODE_INFO__NODE_INFO_ND_NODE || !info->nd_node)
            continue;
        struct input_node *node = &in->nodes[in->node_count++];
        node->info = info;
        node->position = (unsigned)i;
        for (size_t g = 0; g < info->nd_node->n_graphs; g++) {
            const Ntff__SubgraphInfo *graph = info->nd_node->graphs[g];
            uint32_t pcore = graph->nc_idx - in->info->start_nc;
            if (pcore < INPUT_CORES_MAX)
                node->graph[pcore] = graph;
        }
    }
    return 0;
}

static void open_neffs(struct input *in, const char *const *paths, size_t n, struct warnings *w)
{
    for (size_t i = 0; i < n && in->neff_count < INPUT_NEFFS_MAX; i++) {
        struct kymo_err why = {0};
        struct neff *neff;
        if (neff_open(paths[i], 0, &neff, &why) < 0) {
            in->neff_unreadable = true;
            warnings_add(w, "Unreadable NEFF", "%s; it is left out: give a sound copy", why.text);
            continue;
        }
        in->neffs[in->neff_count++] = neff;
        if (neff_hash_kind(neff) != NEFF_HASH_NONE && !neff_hash_matches(neff))
            warnings_add(w, "NEFF hash",
                         "%s: its contents do not match the hash in its header; names and blocks may be wrong",
                         paths[i]);
        for (size_t k = 0; k < neff_note_count(neff); k++)
            warnings_list(w, "NEFF contents", neff_note(neff, k), "%s", paths[i]);
    }
}

static void read_manifest(struct input *in, const char *path, struct warnings *w)
{
    struct kymo_err why = {0};
    uint8_t *data KYMO_FREE = NULL;
    size_t n;
    int r = kymo_file_read_all(path, MANIFEST_BYTES_MAX, &data, &n, &why);
    if (r == 0) {
        r = manifest_parse(data, n, &in->manifest, &why);
        if (r < 0)
            kymo_err_prefix(&why, "%s", path);
    }
    if (r < 0)
        warnings_add(w, "Manifest", "%s; losses on the way and labels are not known", why.text);
}

/* The manifest says which bytes were captured: a profile of other bytes would be nobody's. */
static int open_manifest(struct input *in, const char *path, struct warnings *w, struct kymo_err *err)
{
    read_manifest(in, path, w);
    if (!in->manifest)
        return 0;
    for (size_t i = 0; i < in->neff_count; i++) {
        const struct neff *n = in->neffs[i];
        struct kymo_err why = {0};
        if (claims_check(in->manifest, path, neff_path(n), neff_file_sha256(n), &why) < 0)
            warnings_add(w, "Manifest", "%s: the file was changed, and what comes from it may be wrong", why.text);
    }
    return claims_check(in->manifest, path, ntff_reader_path(in->ntff), NULL, err);
}

static int find_arch(struct input *in, struct kymo_err *err)
{
    const char *arch = in->info->arch, *instance = in->info->instance_type;
    if (arch && *arch)
        in->arch = kymo_arch_find(arch);
    if (!in->arch && instance && *instance)
        in->arch = kymo_arch_find(instance);
    if (!in->arch)
        return kymo_err_set(err, -ENOTSUP, "%s: no data for generation \"%s\", instance type \"%s\"",
                            ntff_reader_path(in->ntff), arch ? arch : "", instance ? instance : "");
    in->cores = in->info->lnc_size ? in->info->lnc_size : 1;
    if (in->cores > INPUT_CORES_MAX)
        return kymo_err_set(err, -EPROTO, "%s: a logical core of %u physical cores does not exist",
                            ntff_reader_path(in->ntff), in->cores);
    return 0;
}

int input_open(const char *ntff, const char *const *neffs, size_t neff_count, const char *manifest,
               struct warnings *warnings, struct input **ret, struct kymo_err *err)
{
    struct input *in KYMO_CLEANUP(input_freep) = KYMO_NEW(struct input);
    if (!in)
        return kymo_err_set(err, -ENOMEM, "no memory for the inputs");
    int r = ntff_reader_open(ntff, &in->ntff, err);
    if (r < 0)
        return r;
    in->info = ntff_reader_info(in->ntff);
    r = find_arch(in, err);
    if (r < 0)
        return r;
    r = read_nodes(in, err);
    if (r < 0)
        return r;
    open_neffs(in, neffs, neff_count, warnings);
    r = manifest ? open_manifest(in, manifest, warnings, err) : 0;
    if (r < 0)
        return r;
    match_nodes(in, warnings);
    *ret = KYMO_TAKE(in);
    return 0;
}
