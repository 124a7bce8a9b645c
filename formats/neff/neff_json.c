/* neff.json -> kelf -> def.json, info.json, hlo_stats.json (FORMAT.md section 3). Files are found through each other's
 * text. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/neff/neff_path.h"
#include "formats/neff/neff_value.h"

#define KELF_FUNCTION "__kelf"
#define QUEUES_PER_SET_MAX 16
#define VARS_MAX (1u << 20)
#define QUEUES_MAX 65536

static int missing(struct neff_load *l, const char *what, const char *name)
{
    return neff_refuse(l, NEFF_ERROR_MISSING_MEMBER, -EPROTO, "%s \"%s\" is not in the archive", what, name);
}

static bool is_kelf_node(const json_t *node)
{
    const char *own = neff_json_text(node, "func_name");
    const char *attr = neff_json_text(json_object_get(node, "attrs"), "func_name");
    return (own && !strcmp(own, KELF_FUNCTION)) || (attr && !strcmp(attr, KELF_FUNCTION));
}

/* The key of the kelf's name varies; its value is the one that names a member. */
static const struct neff_member *member_named_in(const struct neff *n, const json_t *attrs)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)attrs, key, value)
    {
        const char *text = json_string_value(value);
        if (!text || !strcmp(text, KELF_FUNCTION))
            continue;
        const struct neff_member *m = neff_find_member(n, neff_path_strip(text));
        if (m)
            return m;
    }
    return NULL;
}

static int find_kelf(struct neff_load *l, const struct neff_member **ret)
{
    const struct neff_member *m = neff_find_member(l->n, "neff.json");
    if (!m)
        return missing(l, "the top graph", "neff.json");
    struct neff_json json NEFF_JSON = {0};
    int r = neff_json_parse(l, m, &json);
    if (r < 0)
        return r;
    const json_t *nodes = json_object_get(json.root, "nodes");
    const struct neff_member *found = NULL;
    size_t kelf_nodes = 0;
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        if (!is_kelf_node(node))
            continue;
        kelf_nodes++;
        if (!found)
            found = member_named_in(l->n, json_object_get(node, "attrs"));
        if (!found)
            found = member_named_in(l->n, node);
    }
    if (kelf_nodes > 1)
        neff_add_note(l->n, "neff.json: %zu kelf nodes; the first one with a file counts", kelf_nodes);
    if (!found)
        return neff_refuse(l, NEFF_ERROR_MISSING_MEMBER, -EPROTO, "%s",
                           kelf_nodes ? "neff.json has a kelf node, but no member that it names is in the archive"
                                      : "neff.json has no kelf node");
    *ret = found;
    return 0;
}

/* A name in a JSON file counts from the archive's root or from the file's own folder: both are seen. */
static const struct neff_member *find_member_from(const struct neff *n, const char *base, const char *name)
{
    const struct neff_member *m = neff_find_member(n, neff_path_strip(name));
    char path[NEFF_NAME_MAX + 1];
    if (!m && neff_path_beside(base, name, path, sizeof path))
        m = neff_find_member(n, path);
    return m;
}

static int text_or_null(struct neff_load *l, const json_t *object, const char *key, const char **ret)
{
    const char *text = neff_json_text(object, key);
    *ret = text ? neff_intern(l->n, text) : NULL;
    return text && !*ret ? neff_no_memory(l) : 0;
}

/* Text of a value whatever its type: text as it is, all else as compact JSON. */
static int any_text(struct neff_load *l, const json_t *object, const char *key, const char **ret)
{
    const json_t *v = json_object_get(object, key);
    if (!v || json_is_string(v))
        return text_or_null(l, object, key, ret);
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    *ret = text ? neff_intern(l->n, text) : NULL;
    json_free_t release;
    json_get_alloc_funcs(NULL, &release);
    release(text);
    return *ret ? 0 : neff_no_memory(l);
}

static int load_var(struct neff_load *l, const char *name, const json_t *v, struct neff_var *var)
{
    int64_t size = neff_json_int(v, "size", 0);
    var->size = size > 0 ? (uint64_t)size : 0;
    var->var_id = neff_json_int(v, "var_id", -1);
    var->name = neff_intern(l->n, name);
    if (!var->name)
        return neff_no_memory(l);
    int r = text_or_null(l, v, "type", &var->type);
    if (r == 0)
        r = text_or_null(l, v, "file_name", &var->file_name);
    if (r == 0)
        r = any_text(l, v, "shape", &var->shape);
    if (r == 0)
        r = any_text(l, v, "format", &var->format);
    return r == 0 ? any_text(l, v, json_object_get(v, "dtype") ? "dtype" : "data_type", &var->dtype) : r;
}

static int load_vars(struct neff_load *l, const json_t *def, struct neff_subgraph *sg)
{
    const json_t *vars = json_object_get(def, "var");
    size_t n = json_object_size(vars);
    if (n > VARS_MAX)
        return neff_refuse(l, NEFF_ERROR_LIMIT, -E2BIG, "member \"%s\": %zu variables", sg->definition, n);
    struct neff_var *list = NEFF_ARENA_ARRAY(&l->n->arena, struct neff_var, n);
    if (!list)
        return neff_no_memory(l);
    const char *key;
    json_t *v;
    size_t i = 0;
    json_object_foreach((json_t *)(uintptr_t)vars, key, v)
    {
        int r = load_var(l, key, v, &list[i++]);
        if (r < 0)
            return r;
    }
    sg->vars = list;
    sg->var_count = n;
    return 0;
}

/* An instance is its name, or an object that has one. */
static const char *instance_name(const json_t *v)
{
    return json_is_string(v) ? json_string_value(v) : neff_json_text(v, "name");
}

static int load_instances(struct neff_load *l, const json_t *list, struct neff_queue *q)
{
    size_t n = json_array_size(list);
    const char **names = NEFF_ARENA_ARRAY(&l->n->arena, const char *, n);
    if (!names)
        return neff_no_memory(l);
    for (size_t i = 0; i < n; i++) {
        const char *text = instance_name(json_array_get(list, i));
        if (!text)
            continue;
        names[q->instance_count] = neff_intern(l->n, text);
        if (!names[q->instance_count++])
            return neff_no_memory(l);
    }
    q->instances = names;
    return 0;
}

static int load_queue(struct neff_load *l, const char *name, const json_t *v, struct neff_queue *q)
{
    int64_t count = neff_json_int(v, "num_queues", 1), semaphore = neff_json_int(v, "semaphore", -1);
    if (count < 1 || count > QUEUES_PER_SET_MAX) {
        neff_add_note(l->n, "queue %s: num_queues %lld is outside 1..%d; taken as 1", name, (long long)count,
                      QUEUES_PER_SET_MAX);
        count = 1;
    }
    q->num_queues = (unsigned)count;
    q->semaphore = semaphore >= 0 && semaphore < 65536 ? (int)semaphore : -1;
    q->name = neff_intern(l->n, name);
    if (!q->name)
        return neff_no_memory(l);
    int r = text_or_null(l, v, "type", &q->type);
    if (r == 0)
        r = text_or_null(l, v, "owner", &q->owner);
    return r == 0 ? load_instances(l, json_object_get(v, "queue_instances"), q) : r;
}

static int load_queues(struct neff_load *l, const json_t *def, struct neff_subgraph *sg)
{
    const json_t *queues = json_object_get(def, "dma_queue");
    size_t n = json_object_size(queues);
    if (n > QUEUES_MAX)
        return neff_refuse(l, NEFF_ERROR_LIMIT, -E2BIG, "member \"%s\": %zu queue sets", sg->definition, n);
    struct neff_queue *list = NEFF_ARENA_ARRAY(&l->n->arena, struct neff_queue, n);
    if (!list)
        return neff_no_memory(l);
    const char *key;
    json_t *v;
    size_t i = 0;
    json_object_foreach((json_t *)(uintptr_t)queues, key, v)
    {
        int r = load_queue(l, key, v, &list[i++]);
        if (r < 0)
            return r;
    }
    sg->queues = list;
    sg->queue_count = n;
    return 0;
}

/* Files of the engines stand under the engines' own keys, in upper or lower case. */
static int load_engines(struct neff_load *l, const json_t *def, struct neff_subgraph *sg)
{
    struct neff_engine *list = NEFF_ARENA_ARRAY(&l->n->arena, struct neff_engine, KYMO_ENGINE_MAX);
    const char *files[KYMO_ENGINE_MAX] = {0};
    if (!list)
        return neff_no_memory(l);
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)def, key, v)
    {
        enum kymo_engine e = kymo_engine_find(key);
        if (e != KYMO_ENGINE_INVALID && json_is_string(v) && !files[e])
            files[e] = json_string_value(v);
    }
    size_t n = 0;
    for (int e = 0; e < KYMO_ENGINE_MAX; e++) {
        if (!files[e])
            continue;
        list[n].engine = (enum kymo_engine)e;
        int r = neff_engine_load(l, sg, files[e], &list[n]);
        if (r < 0)
            return r;
        n += list[n].bin_name || list[n].json_name;
    }
    if (n == 0)
        neff_add_note(l->n, "%s: names no engine", sg->definition);
    sg->engines = list;
    sg->engine_count = n;
    return 0;
}

static int note_absent(struct neff_load *l, const json_t *def, const struct neff_subgraph *sg)
{
    static const char *const keys[] = {"wavegraph", "simulation_output", "ucode_lib", "debug_info"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *name = neff_json_text(def, keys[i]);
        if (name && *name && !find_member_from(l->n, sg->definition, name))
            neff_add_note(l->n, "%s: names %s %s, which is absent", sg->definition, keys[i], name);
    }
    for (size_t i = 0; i < sg->var_count; i++) {
        const char *name = sg->vars[i].file_name;
        if (name && !find_member_from(l->n, sg->definition, name))
            neff_add_note(l->n, "%s: variable %s has the file %s, which is absent", sg->definition, sg->vars[i].name,
                          name);
    }
    return 0;
}

static int load_definition(struct neff_load *l, struct neff_subgraph *sg)
{
    const struct neff_member *m = neff_find_member(l->n, sg->definition);
    struct neff_json def NEFF_JSON = {0};
    int r = neff_json_parse(l, m, &def);
    if (r == 0)
        r = load_queues(l, def.root, sg);
    if (r == 0)
        r = load_vars(l, def.root, sg);
    if (r == 0)
        r = load_engines(l, def.root, sg);
    if (r == 0)
        r = neff_groups_load(l, def.root, sg);
    return r == 0 ? note_absent(l, def.root, sg) : r;
}

/* sg01 is physical core 1, in whatever order the kelf lists them; names of another shape count by place. */
static unsigned pcore_of(const char *name, size_t place)
{
    unsigned number;
    int end = 0;
    if (sscanf(name, "sg%2u%n", &number, &end) == 1 && name[end] == '\0' && number < NEFF_SUBGRAPHS_MAX)
        return number;
    return (unsigned)place;
}

static int load_subgraph(struct neff_load *l, const char *kelf, const json_t *graph, size_t place,
                         struct neff_subgraph *sg)
{
    const char *definition = neff_json_text(graph, "definition"), *name = neff_json_text(graph, "name");
    if (!definition)
        return neff_refuse(l, NEFF_ERROR_BAD_JSON, -EPROTO, "member \"%s\": graph %zu has no definition", kelf, place);
    const struct neff_member *m = find_member_from(l->n, kelf, definition);
    if (!m)
        return missing(l, "the definition", definition);
    sg->definition = m->name;
    sg->name = neff_intern(l->n, name ? name : "");
    if (!sg->name)
        return neff_no_memory(l);
    sg->pcore_idx = pcore_of(sg->name, place);
    return load_definition(l, sg);
}

static int by_pcore(const void *a, const void *b)
{
    const struct neff_subgraph *x = a, *y = b;
    if (x->pcore_idx != y->pcore_idx)
        return x->pcore_idx < y->pcore_idx ? -1 : 1;
    return strcmp(x->definition, y->definition);
}

static void order_subgraphs(struct neff *n)
{
    qsort(n->subgraphs, n->subgraph_count, sizeof *n->subgraphs, by_pcore);
    for (size_t i = 1; i < n->subgraph_count; i++)
        if (n->subgraphs[i].pcore_idx == n->subgraphs[i - 1].pcore_idx)
            neff_add_note(n, "%s: two subgraphs claim physical core %u", n->kelf, n->subgraphs[i].pcore_idx);
}

static int load_kelf(struct neff_load *l, const struct neff_member *m)
{
    struct neff_json json NEFF_JSON = {0};
    int r = neff_json_parse(l, m, &json);
    if (r == 0)
        r = text_or_null(l, json.root, "target", &l->n->target);
    if (r < 0)
        return r;
    l->n->kelf = m->name;
    const json_t *graphs = json_object_get(json.root, "graphs");
    size_t n = json_array_size(graphs);
    if (n == 0)
        return neff_refuse(l, NEFF_ERROR_BAD_JSON, -EPROTO, "member \"%s\": it lists no graphs", m->name);
    if (n > NEFF_SUBGRAPHS_MAX)
        return neff_refuse(l, NEFF_ERROR_LIMIT, -E2BIG, "member \"%s\": %zu graphs", m->name, n);
    l->n->subgraphs = NEFF_ARENA_ARRAY(&l->n->arena, struct neff_subgraph, n);
    if (!l->n->subgraphs)
        return neff_no_memory(l);
    for (size_t i = 0; i < n && r == 0; i++)
        r = load_subgraph(l, m->name, json_array_get(graphs, i), i, &l->n->subgraphs[i]);
    if (r < 0)
        return r;
    l->n->subgraph_count = n;
    order_subgraphs(l->n);
    return 0;
}

/* Members that only add to the picture: a broken one is a note. */
static int parse_optional(struct neff_load *l, const struct neff_member *m, struct neff_json *j)
{
    struct neff_load quiet = {.n = l->n};
    int r = neff_json_parse(&quiet, m, j);
    if (r == -ENOMEM)
        return neff_no_memory(l);
    if (r < 0) {
        neff_add_note(l->n, "%s: does not parse; left out", m->name);
        j->root = NULL;
    }
    return 0;
}

static int load_info(struct neff_load *l)
{
    const struct neff_member *m = neff_find_member(l->n, "info.json");
    if (!m) {
        neff_add_note(l->n, "info.json is absent: the compiler's version is not known");
        return 0;
    }
    struct neff_json json NEFF_JSON = {0};
    int r = parse_optional(l, m, &json);
    return r == 0 && json.root ? text_or_null(l, json.root, "tool_version", &l->n->compiler_version) : r;
}

/* Which keys hold the count is not public (G): any spelling of these, compared by letters alone. */
static bool is_mac_key(const char *key)
{
    static const char *const known[] = {"maccount", "hlomaccount", "totalmaccount", "nummacs",
                                        "macs",     "hlomacs",     "totalmacs"};
    char plain[32];
    size_t n = 0;
    for (; *key; key++) {
        if (!isalnum((unsigned char)*key))
            continue;
        if (n + 1 == sizeof plain)
            return false;
        plain[n++] = (char)tolower((unsigned char)*key);
    }
    plain[n] = '\0';
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(plain, known[i]))
            return true;
    return false;
}

static int64_t mac_count_in(const json_t *object, int depth)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        if (is_mac_key(key) && json_is_number(v) && json_number_value(v) >= 0 && json_number_value(v) < 0x1p63)
            return json_is_integer(v) ? json_integer_value(v) : (int64_t)json_real_value(v);
        int64_t inner = depth > 0 && json_is_object(v) ? mac_count_in(v, depth - 1) : -1;
        if (inner >= 0)
            return inner;
    }
    return -1;
}

static int load_hlo_stats(struct neff_load *l)
{
    for (size_t i = 0; i < l->n->member_count && l->n->mac_count < 0; i++) {
        const struct neff_member *m = &l->n->members[i];
        const char *slash = strrchr(m->name, '/');
        if (strcmp(slash ? slash + 1 : m->name, "hlo_stats.json") != 0)
            continue;
        struct neff_json json NEFF_JSON = {0};
        int r = parse_optional(l, m, &json);
        if (r < 0)
            return r;
        l->n->mac_count = mac_count_in(json.root, 1);
        if (json.root && l->n->mac_count < 0)
            neff_add_note(l->n, "%s: no key of it is known to be the MAC count", m->name);
    }
    return 0;
}

int neff_json_load(struct neff_load *l)
{
    const struct neff_member *kelf = NULL;
    int r = find_kelf(l, &kelf);
    if (kelf)
        r = load_kelf(l, kelf);
    if (r == 0)
        r = load_info(l);
    return r == 0 ? load_hlo_stats(l) : r;
}
