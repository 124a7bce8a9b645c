#include "formats/neff/neff_debug_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define PREFIX "debug_info"
#define EXTENSION "dbg"
#define SUFFIX "." EXTENSION
#define TOKEN_MAX 64

static const struct {
    const char *name;
    enum neff_layer layer;
} layer_names[] = {
    {"stack_frame_index", NEFF_LAYER_STACK},
    {"framework", NEFF_LAYER_FRAMEWORK},
    {"pttf", NEFF_LAYER_FRAMEWORK}, /* G: the only layer left for it */
    {"hlo", NEFF_LAYER_HLO},
    {"penguin", NEFF_LAYER_PENGUIN},
    {"backend", NEFF_LAYER_BACKEND},
    {"asm", NEFF_LAYER_ASM},
};

static bool layer_of(const char *token, enum neff_layer *ret)
{
    for (size_t i = 0; i < sizeof layer_names / sizeof *layer_names; i++)
        if (!strcmp(layer_names[i].name, token)) {
            *ret = layer_names[i].layer;
            return true;
        }
    return false;
}

static bool next_token(const char **p, char out[TOKEN_MAX])
{
    size_t n = strcspn(*p, ".");
    if (n == 0 || n >= TOKEN_MAX)
        return false;
    memcpy(out, *p, n);
    out[n] = '\0';
    *p += n + ((*p)[n] == '.');
    return true;
}

/* debug_info_backend.pe.1.dbg and debug_info/backend.pe.dbg: layer, then engine and part, both of which may lack. */
static bool classify(const struct neff_member *m, struct neff_debug_file *f)
{
    const char *slash = strrchr(m->name, '/'), *stem = slash ? slash + 1 : m->name;
    size_t n = strlen(stem);
    bool prefixed = !strncmp(stem, PREFIX "_", sizeof PREFIX);
    if (n < sizeof SUFFIX || strcmp(stem + n - (sizeof SUFFIX - 1), SUFFIX) != 0 ||
        (!prefixed && !strstr(m->name, PREFIX "/")))
        return false;
    if (prefixed)
        stem += sizeof PREFIX;
    char token[TOKEN_MAX];
    *f = (struct neff_debug_file){.member = m, .engine = KYMO_ENGINE_INVALID};
    if (!next_token(&stem, token) || !layer_of(token, &f->layer))
        return false;
    while (next_token(&stem, token) && strcmp(token, EXTENSION) != 0) {
        enum kymo_engine e = kymo_engine_find(token);
        if (e != KYMO_ENGINE_INVALID)
            f->engine = e;
        else
            f->part = (unsigned)strtoul(token, NULL, 10);
    }
    return true;
}

static bool lies_in_folder_of(const struct neff_member *m, const struct neff_subgraph *sg)
{
    const char *slash = strrchr(sg->definition, '/');
    return slash && !strncmp(m->name, sg->definition, (size_t)(slash - sg->definition) + 1);
}

static bool lies_in_any_folder(const struct neff *n, const struct neff_member *m)
{
    for (size_t i = 0; i < n->subgraph_count; i++)
        if (lies_in_folder_of(m, &n->subgraphs[i]))
            return true;
    return false;
}

static int by_layer(const void *a, const void *b)
{
    const struct neff_debug_file *x = a, *y = b;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    if (x->engine != y->engine)
        return x->engine < y->engine ? -1 : 1;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return strcmp(x->member->name, y->member->name);
}

int neff_debug_files(struct neff_load *l, const struct neff_subgraph *sg, struct neff_debug_file **ret, size_t *ret_n)
{
    const struct neff *n = l->n;
    struct neff_debug_file f;
    void *list = NULL;
    size_t count = 0, cap = 0;
    for (size_t i = 0; i < n->member_count; i++) {
        if (!classify(&n->members[i], &f))
            continue;
        f.shared = !lies_in_any_folder(n, f.member);
        if (!f.shared && !lies_in_folder_of(f.member, sg))
            continue;
        if (kymo_grow(&list, &cap, count + 1, NEFF_MEMBERS_MAX, sizeof f) < 0) {
            kymo_free(list);
            return neff_no_memory(l);
        }
        ((struct neff_debug_file *)list)[count++] = f;
    }
    if (count)
        qsort(list, count, sizeof f, by_layer);
    *ret = list;
    *ret_n = count;
    return 0;
}
