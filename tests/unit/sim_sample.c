#include "tests/unit/sim_sample.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "formats/neff/neff_writer.h"

static const char *const bins[KYMO_ENGINE_MAX] = {"PE", "Activation", "Pool", "DVE", "SP"};

#define MUST(x)                                                                                                        \
    do {                                                                                                               \
        if (!(x)) {                                                                                                    \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                              \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

struct sample *sample_new(const struct kymo_arch *arch)
{
    struct sample *s = KYMO_NEW(struct sample);
    MUST(s);
    s->arch = arch;
    return s;
}

void sample_free(struct sample *s)
{
    kymo_free(s);
}

uint8_t *sample_op(struct sample *s, enum kymo_engine e, uint8_t opcode)
{
    MUST(s->count[e] < SAMPLE_SLOTS_MAX);
    uint8_t *rec = s->code[e][s->count[e]++];
    kymo_instr_init(rec, opcode);
    return rec;
}

void sample_set(const struct sample *s, uint8_t *rec, enum kymo_field f, uint64_t value)
{
    MUST(kymo_layout_set(s->arch, rec, f, value) == 0);
}

void sample_trigger(struct sample *s, enum kymo_engine e, const char *queue, uint32_t block)
{
    uint8_t *rec = sample_op(s, e, KYMO_OP_PSEUDO_DMA_TRIGGER);
    MUST(kymo_layout_set_chars(s->arch, rec, KYMO_F_QUEUE_NAME, queue) == 0);
    sample_set(s, rec, KYMO_F_BLOCK_ID, block);
}

static void add(struct neff_writer *w, const char *name, const void *data, size_t n)
{
    struct kymo_err err = {0};
    if (neff_writer_add(w, name, data, n, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

static void add_text(struct neff_writer *w, const char *name, const char *text)
{
    add(w, name, text, strlen(text));
}

static void add_core(struct neff_writer *w, const struct sample *s, unsigned core)
{
    char name[64];
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
        (void)snprintf(name, sizeof name, "sg%02u/%s.bin", core, bins[e]);
        add(w, name, s->code[e], (size_t)s->count[e] * KYMO_INSTR_SIZE);
        char *json = kymo_asprintf("{\"dma\":[%s]}", e == KYMO_ENGINE_SYNC && s->blocks ? s->blocks : "");
        MUST(json);
        (void)snprintf(name, sizeof name, "sg%02u/%s.json", core, bins[e]);
        add_text(w, name, json);
        kymo_free(json);
    }
    char *def = kymo_asprintf(
        "{\"version\":0.6,\"pe\":\"PE.bin\",\"act\":\"Activation.bin\",\"pool\":\"Pool.bin\",\"dve\":\"DVE.bin\","
        "\"sp\":\"SP.bin\",\"dma_queue\":{%s},\"var\":{\"a\":{\"type\":\"input\",\"var_id\":0,\"size\":65536},"
        "\"b\":{\"type\":\"state-buffer\",\"var_id\":1,\"size\":65536}}}",
        s->queues ? s->queues : "");
    MUST(def);
    (void)snprintf(name, sizeof name, "sg%02u/def.json", core);
    add_text(w, name, def);
    kymo_free(def);
}

void sample_write(const struct sample *s, unsigned cores, const char *path)
{
    struct neff_writer *w = neff_writer_new();
    MUST(w);
    add_text(w, "info.json", "{\"name\":\"sample\"}");
    add_text(
        w, "neff.json",
        "{\"nodes\":[{\"op\":\"tvm_op\",\"name\":\"subgraph_0\",\"func_name\":\"__kelf\",\"attrs\":{\"func_name\":\"__"
        "kelf\","
        "\"kelf\":\"kelf-a.json\"},\"inputs\":[]}],\"arg_nodes\":[],\"heads\":[],\"attrs\":{},\"node_row_ptr\":[0,1]}");
    add_text(
        w, "kelf-a.json",
        cores == 1
            ? "{\"version\":0.5,\"target\":\"*\",\"graphs\":[{\"definition\":\"sg00/def.json\",\"name\":\"sg00\"}]}"
            : "{\"version\":0.5,\"target\":\"*\",\"graphs\":[{\"definition\":\"sg00/def.json\",\"name\":\"sg00\"},"
              "{\"definition\":\"sg01/def.json\",\"name\":\"sg01\"}]}");
    for (unsigned c = 0; c < cores; c++)
        add_core(w, s, c);
    struct neff_header h = {
        .pkg_version = 1, .header_size = NEFF_HEADER_SIZE, .version_major = 1, .num_tpb = cores, .lnc_size = cores};
    (void)snprintf(h.name, sizeof h.name, "sample");
    for (unsigned i = 0; i < sizeof h.uuid; i++)
        h.uuid[i] = (uint8_t)(i + 1);
    struct kymo_err err = {0};
    if (neff_writer_write(w, &h, path, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        abort();
    }
    neff_writer_free(w);
}

struct neff *sample_neff(const struct sample *s, unsigned cores)
{
    char path[] = "/tmp/kymo-sample-XXXXXX";
    int fd = mkstemp(path);
    MUST(fd >= 0);
    (void)close(fd);
    sample_write(s, cores, path);
    struct kymo_err err = {0};
    struct neff *neff = NULL;
    if (neff_open(path, 0, &neff, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        abort();
    }
    (void)unlink(path);
    return neff;
}
