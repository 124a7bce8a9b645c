#include "pipeline/instructions/source_tables.h"

#include <stdio.h>

#include "formats/parquet/parquet_writer.h"

/* Sums of what stands before a NEFF. */
struct base {
    uint32_t files, functions, locations, frames;
};

static bool is_first(const struct input *in, size_t node)
{
    for (size_t i = 0; i < node; i++)
        if (in->nodes[i].neff == in->nodes[node].neff)
            return false;
    return in->nodes[node].neff != NULL;
}

static struct base base_of(const struct input *in, const struct neff *neff)
{
    struct base b = {0};
    for (size_t i = 0; i < in->node_count && in->nodes[i].neff != neff; i++) {
        if (!is_first(in, i))
            continue;
        const struct neff_frames *f = neff_get_frames(in->nodes[i].neff);
        b.files += f->file_count;
        b.functions += f->function_count;
        b.locations += f->location_count;
        b.frames += f->frame_count;
    }
    return b;
}

uint32_t source_tables_frame_base(const struct input *in, const struct neff *neff)
{
    return base_of(in, neff).frames;
}

static void put_id(struct parquet_row *row, unsigned column, uint32_t id)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%u", id);
    parquet_row_string(row, column, text);
}

/* Moved behind those of the NEFFs before; what an index refers to without having it stays the empty value. */
static void put_reference(struct parquet_row *row, unsigned column, uint32_t id, uint32_t base)
{
    if (id)
        parquet_row_int(row, column, (int64_t)base + id);
}

static int add_names(struct parquet_row *row, const char *const *names, uint32_t n, uint32_t base, struct kymo_err *err)
{
    int r = 0;
    /* Both tables of names have the number first and the name second. */
    for (uint32_t i = 0; i < n && r == 0; i++) {
        put_id(row, 0, base + i + 1);
        parquet_row_string(row, 1, names[i]);
        r = parquet_row_end(row, err);
    }
    return r;
}

_Static_assert(KYMO_STACK_FRAME_FILE_NAME_ID == 0 && KYMO_STACK_FRAME_FILE_NAME_NAME == 1 &&
                   KYMO_STACK_FRAME_FUNCTION_NAME_ID == 0 && KYMO_STACK_FRAME_FUNCTION_NAME_NAME == 1,
               "columns of the tables of names");

static int add_files(struct parquet_row *row, const struct input *in, size_t node, struct kymo_err *err)
{
    const struct neff *neff = in->nodes[node].neff;
    const struct neff_frames *f = neff_get_frames(neff);
    return add_names(row, f->files, f->file_count, base_of(in, neff).files, err);
}

static int add_functions(struct parquet_row *row, const struct input *in, size_t node, struct kymo_err *err)
{
    const struct neff *neff = in->nodes[node].neff;
    const struct neff_frames *f = neff_get_frames(neff);
    return add_names(row, f->functions, f->function_count, base_of(in, neff).functions, err);
}

static int add_locations(struct parquet_row *row, const struct input *in, size_t node, struct kymo_err *err)
{
    const struct neff_frames *f = neff_get_frames(in->nodes[node].neff);
    struct base base = base_of(in, in->nodes[node].neff);
    int r = 0;
    for (uint32_t i = 0; i < f->location_count && r == 0; i++) {
        const struct neff_location *at = &f->locations[i];
        put_id(row, KYMO_STACK_FRAME_FILE_LOCATION__ID, base.locations + i + 1);
        put_reference(row, KYMO_STACK_FRAME_FILE_LOCATION_FILE_NAME_ID, at->file, base.files);
        put_reference(row, KYMO_STACK_FRAME_FILE_LOCATION_FUNCTION_NAME_ID, at->function, base.functions);
        parquet_row_int(row, KYMO_STACK_FRAME_FILE_LOCATION_LINE_NUMBER, at->line);
        r = parquet_row_end(row, err);
    }
    return r;
}

static int add_frames(struct parquet_row *row, const struct input *in, size_t node, struct kymo_err *err)
{
    const struct neff_frames *f = neff_get_frames(in->nodes[node].neff);
    struct base base = base_of(in, in->nodes[node].neff);
    int r = 0;
    for (uint32_t i = 0; i < f->frame_count && r == 0; i++) {
        put_id(row, KYMO_STACK_FRAME_ID, base.frames + i + 1);
        put_reference(row, KYMO_STACK_FRAME_FILE_LOCATION_ID, f->frames[i].location, base.locations);
        put_id(row, KYMO_STACK_FRAME_PARENT_FRAME_ID, f->frames[i].parent ? base.frames + f->frames[i].parent : 0);
        r = parquet_row_end(row, err);
    }
    return r;
}

/* Kernels: by NEFF and subgraph. pcore -1: of all cores, which share them. */
struct kernel_set {
    const struct neff_kernels *kernels;
    int pcore;
    uint32_t frames, variables; /* before it */
};

typedef int (*add_set)(struct parquet_row *row, const struct kernel_set *set, struct kymo_err *err);

static bool is_shared(const struct neff *neff, size_t subgraph, bool *ret_seen)
{
    const struct neff_kernels *k = neff_kernels_of(neff, neff_subgraph(neff, subgraph));
    bool shared = false;
    *ret_seen = false;
    for (size_t i = 0; i < neff_subgraph_count(neff); i++) {
        bool same = i != subgraph && neff_kernels_of(neff, neff_subgraph(neff, i)) == k;
        shared |= same;
        *ret_seen |= same && i < subgraph;
    }
    return shared;
}

static int add_kernels(struct parquet_row *row, const struct input *in, add_set add, struct kymo_err *err)
{
    struct kernel_set set = {0};
    int r = 0;
    for (size_t node = 0; node < in->node_count && r == 0; node++) {
        const struct neff *neff = in->nodes[node].neff;
        if (!is_first(in, node))
            continue;
        for (size_t i = 0; i < neff_subgraph_count(neff) && r == 0; i++) {
            const struct neff_subgraph *sg = neff_subgraph(neff, i);
            bool seen, shared = is_shared(neff, i, &seen);
            set.kernels = neff_kernels_of(neff, sg);
            if (!set.kernels || seen)
                continue;
            set.pcore = shared ? -1 : (int)sg->pcore_idx;
            r = add(row, &set, err);
            set.frames += set.kernels->frame_count;
            set.variables += set.kernels->variable_count;
        }
    }
    return r;
}

static void put_line(struct parquet_row *row, unsigned file_column, const char *file, unsigned line_column, int line)
{
    parquet_row_string(row, file_column, file);
    if (line)
        parquet_row_int(row, line_column, line);
}

static void put_pcore(struct parquet_row *row, unsigned column, const struct kernel_set *set)
{
    if (set->pcore >= 0)
        parquet_row_int(row, column, set->pcore);
}

static int add_kernel_frames(struct parquet_row *row, const struct kernel_set *set, struct kymo_err *err)
{
    int r = 0;
    for (uint32_t i = 0; i < set->kernels->frame_count && r == 0; i++) {
        const struct neff_kernel_scope *f = &set->kernels->frames[i];
        parquet_row_int(row, KYMO_KERNEL_STACK_FRAMES_STACK_FRAME_ID, (int64_t)set->frames + i + 1);
        parquet_row_string(row, KYMO_KERNEL_STACK_FRAMES_FULLY_QUALIFIED_FUNCTION_NAME, f->name);
        put_reference(row, KYMO_KERNEL_STACK_FRAMES_PARENT_STACK_FRAME_ID, f->parent, set->frames);
        put_pcore(row, KYMO_KERNEL_STACK_FRAMES_PCORE_IDX, set);
        put_line(row, KYMO_KERNEL_STACK_FRAMES_FILE_PATH, f->file, KYMO_KERNEL_STACK_FRAMES_LINE_NUMBER, f->line);
        r = parquet_row_end(row, err);
    }
    return r;
}

static int add_kernel_variables(struct parquet_row *row, const struct kernel_set *set, struct kymo_err *err)
{
    int r = 0;
    for (uint32_t i = 0; i < set->kernels->variable_count && r == 0; i++) {
        const struct neff_kernel_scope *v = &set->kernels->variables[i];
        parquet_row_int(row, KYMO_KERNEL_ITERATION_VARIABLES_ITERATION_VARIABLE_ID, (int64_t)set->variables + i + 1);
        parquet_row_string(row, KYMO_KERNEL_ITERATION_VARIABLES_VARIABLE_NAME, v->name);
        parquet_row_int(row, KYMO_KERNEL_ITERATION_VARIABLES_VARIABLE_VALUE, v->value);
        put_reference(row, KYMO_KERNEL_ITERATION_VARIABLES_PARENT_ITERATION_VARIABLE_ID, v->parent, set->variables);
        put_pcore(row, KYMO_KERNEL_ITERATION_VARIABLES_PCORE_IDX, set);
        put_line(row, KYMO_KERNEL_ITERATION_VARIABLES_FILE_PATH, v->file, KYMO_KERNEL_ITERATION_VARIABLES_LINE_NUMBER,
                 v->line);
        r = parquet_row_end(row, err);
    }
    return r;
}

static void put_scope(struct parquet_row *row, unsigned id_column, unsigned depth_column,
                      const struct neff_kernel_scope *list, uint32_t id, uint32_t base)
{
    put_reference(row, id_column, id, base);
    if (id)
        parquet_row_int(row, depth_column, list[id - 1].depth);
}

static int add_kernel_instructions(struct parquet_row *row, const struct kernel_set *set, struct kymo_err *err)
{
    const struct neff_kernels *k = set->kernels;
    int r = 0;
    for (uint32_t i = 0; i < k->instruction_count && r == 0; i++) {
        const struct neff_kernel_instruction *in = &k->instructions[i];
        parquet_row_string(row, KYMO_KERNEL_INSTRUCTIONS_KERNEL_INSTRUCTION_NAME, in->name);
        put_scope(row, KYMO_KERNEL_INSTRUCTIONS_STACK_FRAME_ID, KYMO_KERNEL_INSTRUCTIONS_STACK_FRAME_DEPTH, k->frames,
                  in->frame, set->frames);
        put_scope(row, KYMO_KERNEL_INSTRUCTIONS_ITERATION_VARIABLES_ID,
                  KYMO_KERNEL_INSTRUCTIONS_ITERATION_VARIABLE_DEPTH, k->variables, in->variable, set->variables);
        put_pcore(row, KYMO_KERNEL_INSTRUCTIONS_PCORE_IDX, set);
        put_line(row, KYMO_KERNEL_INSTRUCTIONS_FILE_PATH, in->file, KYMO_KERNEL_INSTRUCTIONS_LINE_NUMBER, in->line);
        r = parquet_row_end(row, err);
    }
    return r;
}

static const struct {
    enum kymo_table_id id;
    int (*add_node)(struct parquet_row *row, const struct input *in, size_t node, struct kymo_err *err);
    add_set add_set;
} tables[] = {
    {KYMO_T_STACK_FRAME, add_frames, NULL},
    {KYMO_T_STACK_FRAME_FILE_LOCATION, add_locations, NULL},
    {KYMO_T_STACK_FRAME_FILE_NAME, add_files, NULL},
    {KYMO_T_STACK_FRAME_FUNCTION_NAME, add_functions, NULL},
    {KYMO_T_KERNEL_INSTRUCTIONS, NULL, add_kernel_instructions},
    {KYMO_T_KERNEL_STACK_FRAMES, NULL, add_kernel_frames},
    {KYMO_T_KERNEL_ITERATION_VARIABLES, NULL, add_kernel_variables},
};

int source_tables_write(const struct input *in, const char *dir, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && r == 0; i++) {
        struct parquet_row *row;
        r = parquet_row_open(dir, kymo_schema_table(tables[i].id), NULL, &row, err);
        if (r < 0)
            break;
        if (tables[i].add_set)
            r = add_kernels(row, in, tables[i].add_set, err);
        for (size_t node = 0; tables[i].add_node && node < in->node_count && r == 0; node++)
            if (is_first(in, node))
                r = tables[i].add_node(row, in, node, err);
        if (r < 0)
            parquet_row_discard(row);
        else
            r = parquet_row_finish(row, err);
    }
    return r;
}
