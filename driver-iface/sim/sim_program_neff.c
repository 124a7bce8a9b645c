/* The package around the subgraphs: neff.json, kelf-0.json, info.json, hlo_stats.json and the header (neff.md 1). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "driver-iface/sim/sim_program_internal.h"
#include "formats/neff/neff_writer.h"

#define FEATURE_LOGICAL_CORE 0x400
#define COMPILER_VERSION "kymo-sim " KYMO_VERSION

void sim_json_put(bool *failed, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) < 0)
        *failed = true;
}

void sim_json_push(bool *failed, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) < 0)
        *failed = true;
}

int sim_program_add_json(struct neff_writer *w, const char *name, json_t *root, bool failed, struct kymo_err *err)
{
    char *text = root && !failed ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text)
        return kymo_err_set(err, -ENOMEM, "%s: out of memory", name);
    int r = neff_writer_add(w, name, text, strlen(text), err);
    json_free_t release;
    json_get_alloc_funcs(NULL, &release);
    release(text);
    return r;
}

static int count_vars(const struct sim_program *p, const char *type)
{
    int n = 0;
    for (size_t i = 0; i < p->var_count; i++)
        n += !strcmp(p->vars[i].type, type);
    return n;
}

static int add_graph(const struct sim_program *p, struct neff_writer *w, struct kymo_err *err)
{
    json_t *nodes = json_array(), *args = json_array(), *inputs = json_array(), *rows = json_array();
    bool failed = false;
    int n = 0;
    for (size_t i = 0; i < p->var_count; i++) {
        if (strcmp(p->vars[i].type, "input") != 0)
            continue;
        sim_json_push(&failed, nodes, json_pack("{s:s,s:s,s:[]}", "op", "null", "name", p->vars[i].name, "inputs"));
        sim_json_push(&failed, args, json_integer(n));
        sim_json_push(&failed, inputs, json_pack("[i,i,i]", n, 0, 0));
        sim_json_push(&failed, rows, json_integer(n++));
    }
    char in[16], out[16];
    (void)snprintf(in, sizeof in, "%d", n);
    (void)snprintf(out, sizeof out, "%d", count_vars(p, "output"));
    sim_json_push(&failed, rows, json_integer(n));
    sim_json_push(&failed, rows, json_integer(n + 1));
    sim_json_push(&failed, nodes,
                  json_pack("{s:s,s:s,s:s,s:{s:s,s:s,s:s,s:s,s:s},s:o}", "op", "tvm_op", "name", "subgraph_0",
                            "func_name", "__kelf", "attrs", "func_name", "__kelf", "kelf", "kelf-0.json", "num_inputs",
                            in, "num_outputs", out, "flatten_data", "0", "inputs", inputs));
    return sim_program_add_json(w, "neff.json",
                                json_pack("{s:o,s:o,s:[[i,i,i]],s:{},s:o}", "nodes", nodes, "arg_nodes", args, "heads",
                                          n, 0, 0, "attrs", "node_row_ptr", rows),
                                failed, err);
}

static int add_kelf(struct sim_program *const *programs, unsigned lnc, struct neff_writer *w, struct kymo_err *err)
{
    json_t *graphs = json_array();
    bool failed = false;
    for (unsigned c = 0; c < lnc; c++) {
        char definition[32], name[16];
        (void)snprintf(name, sizeof name, "sg%02u", programs[c]->sg);
        (void)snprintf(definition, sizeof definition, "%s/def.json", name);
        sim_json_push(&failed, graphs, json_pack("{s:s,s:s}", "definition", definition, "name", name));
    }
    return sim_program_add_json(
        w, "kelf-0.json",
        json_pack("{s:f,s:s,s:o}", "version", 0.5, "target", programs[0]->arch->codename, "graphs", graphs), failed,
        err);
}

static int add_info(const struct sim_neff_info *info, struct neff_writer *w, struct kymo_err *err)
{
    json_t *engines = json_array();
    bool failed = false;
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
        sim_json_push(&failed, engines, json_string(kymo_engine_neff((enum kymo_engine)e)));
    return sim_program_add_json(w, "info.json",
                                json_pack("{s:f,s:s,s:s,s:o,s:i}", "version", 1.0, "name", info->name, "tool_version",
                                          COMPILER_VERSION, "engines", engines, "num_cores", (int)info->lnc),
                                failed, err);
}

/* A version 4 UUID that follows from the seed and what was asked for. */
static int make_uuid(const struct sim_program *p, const struct sim_neff_info *info, uint64_t macs, uint8_t uuid[16])
{
    char text[256], world[32] = "";
    uint8_t digest[KYMO_SHA256_SIZE];
    if (p->world > 1)
        (void)snprintf(world, sizeof world, "|%u", p->world);
    int n = snprintf(text, sizeof text, "%s|%s|%u|%llu|%llu|%llu%s", info->name, p->arch->name, info->lnc,
                     (unsigned long long)info->seed, (unsigned long long)macs,
                     (unsigned long long)p->stats.static_instructions, world);
    if (n < 0 || (size_t)n >= sizeof text)
        return -EINVAL;
    int r = kymo_hash_sha256(text, (size_t)n, digest);
    if (r < 0)
        return r;
    memcpy(uuid, digest, 16);
    uuid[6] = (uint8_t)((uuid[6] & 0x0F) | 0x40);
    uuid[8] = (uint8_t)((uuid[8] & 0x3F) | 0x80);
    return 0;
}

static int fill_header(struct sim_program *const *programs, const struct sim_neff_info *info, uint64_t macs,
                       struct neff_header *h, struct kymo_err *err)
{
    *h = (struct neff_header){.pkg_version = 2,
                              .header_size = NEFF_HEADER_SIZE,
                              .version_major = 2,
                              .num_tpb = 1,
                              .requested_tpb_count = 1,
                              .lnc_size = info->lnc,
                              .feature_bits = info->lnc > 1 ? FEATURE_LOGICAL_CORE : 0};
    h->tpb_per_node[0] = 1;
    (void)snprintf(h->build_version, sizeof h->build_version, "%s", COMPILER_VERSION);
    (void)snprintf(h->name, sizeof h->name, "%s", info->name);
    int r = make_uuid(programs[0], info, macs, h->uuid);
    return r < 0 ? kymo_err_set(err, r, "no uuid for \"%.100s\": its name is too long or hashing failed", info->name)
                 : 0;
}

int sim_program_write(struct sim_program *const *programs, const struct sim_neff_info *info, uint64_t macs,
                      const char *path, struct kymo_err *err)
{
    struct neff_header header;
    struct neff_writer *w KYMO_CLEANUP(neff_writer_freep) = neff_writer_new();
    if (!w)
        return kymo_err_set(err, -ENOMEM, "%s: out of memory", path);
    int r = fill_header(programs, info, macs, &header, err);
    if (r == 0)
        r = add_graph(programs[0], w, err);
    if (r == 0)
        r = add_kelf(programs, info->lnc, w, err);
    if (r == 0)
        r = add_info(info, w, err);
    if (r == 0)
        r = sim_program_add_json(w, "hlo_stats.json", json_pack("{s:I}", "mac_count", (json_int_t)macs), false, err);
    for (unsigned c = 0; c < info->lnc && r == 0; c++)
        r = sim_program_add_subgraph(programs[c], w, err);
    return r == 0 ? neff_writer_write(w, &header, path, err) : r;
}
