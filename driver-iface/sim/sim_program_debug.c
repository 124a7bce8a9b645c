/*
 * The debug layers of one subgraph (facts: neff.md 4): framework, hlo, penguin, backend and asm, with a stack frame
 * index, in sgNN/debug_info. Written by hand in the protobuf wire format, whose few shapes need no generated code here.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "driver-iface/sim/sim_program_internal.h"
#include "formats/neff/neff_writer.h"

#define FILE_BYTES_MAX (1u << 30)
#define MESSAGE_BYTES_MAX (64u << 20)
#define DEPS_MAX 100 /* per instruction, as the compiler does */
#define VARINT 0
#define BYTES 2

/* Several appends in a row: the first failure is kept. */
struct wire {
    struct kymo_buf buf;
    int error;
};

static void put_bytes(struct wire *w, const void *data, size_t n)
{
    if (w->error == 0)
        w->error = kymo_buf_append(&w->buf, data, n);
}

static void put_varint(struct wire *w, uint64_t v)
{
    uint8_t out[10];
    size_t n = 0;
    do {
        out[n++] = (uint8_t)((v & 0x7F) | (v > 0x7F ? 0x80 : 0));
        v >>= 7;
    } while (v);
    put_bytes(w, out, n);
}

static void put_number(struct wire *w, unsigned field, uint64_t v)
{
    put_varint(w, field << 3 | VARINT);
    put_varint(w, v);
}

static void put_block(struct wire *w, unsigned field, const void *data, size_t n)
{
    put_varint(w, field << 3 | BYTES);
    put_varint(w, n);
    put_bytes(w, data, n);
}

static void put_text(struct wire *w, unsigned field, const char *text)
{
    put_block(w, field, text, strlen(text));
}

static void put_attribute(struct wire *w, struct wire *scratch, const char *key, const char *value)
{
    kymo_buf_reset(&scratch->buf);
    put_text(scratch, 1, key);
    put_text(scratch, 2, value);
    put_block(w, 7, scratch->buf.data, scratch->buf.len);
}

/* One file under construction, and room for the message and the parts of a message. */
struct debug_file {
    struct wire file, message, part;
};

static void file_init(struct debug_file *f)
{
    *f = (struct debug_file){.file = {.error = 0}};
    kymo_buf_init(&f->file.buf, FILE_BYTES_MAX);
    kymo_buf_init(&f->message.buf, MESSAGE_BYTES_MAX);
    kymo_buf_init(&f->part.buf, MESSAGE_BYTES_MAX);
}

static void file_done(struct debug_file *f)
{
    kymo_buf_done(&f->file.buf);
    kymo_buf_done(&f->message.buf);
    kymo_buf_done(&f->part.buf);
}

static void end_message(struct debug_file *f, unsigned field)
{
    put_block(&f->file, field, f->message.buf.data, f->message.buf.len);
    kymo_buf_reset(&f->message.buf);
}

/* Ends the file: engine is a number of the debug layers, 0 for those above the engines. */
static int file_end(const struct sim_program *p, struct debug_file *f, const char *stem, enum kymo_engine engine,
                    struct neff_writer *w, struct kymo_err *err)
{
    char name[128];
    if (engine == KYMO_ENGINE_INVALID) {
        (void)snprintf(name, sizeof name, "sg%02u/debug_info/%s.dbg", p->sg, stem);
    } else {
        (void)snprintf(name, sizeof name, "sg%02u/debug_info/%s.%s.dbg", p->sg, stem, kymo_engine_neff(engine));
        put_number(&f->file, 4, kymo_engine_debug(engine));
    }
    int r = f->file.error ? f->file.error : f->message.error ? f->message.error : f->part.error;
    if (r < 0)
        r = kymo_err_set(err, r, "%s: the debug layer does not fit into memory", name);
    if (r == 0)
        r = neff_writer_add(w, name, f->file.buf.data, f->file.buf.len, err);
    file_done(f);
    return r;
}

static uint64_t bir_id(const struct sim_program *p, uint32_t index)
{
    return (uint64_t)p->sg << 48 | index;
}

static uint64_t upper_id(uint32_t index)
{
    return (uint64_t)index + 1;
}

static void put_packed(struct debug_file *f, unsigned field)
{
    if (f->part.buf.len)
        put_block(&f->message, field, f->part.buf.data, f->part.buf.len);
    kymo_buf_reset(&f->part.buf);
}

static void put_dependencies(const struct sim_program *p, struct debug_file *f, const struct bir *b)
{
    uint32_t n = b->dep_count < DEPS_MAX ? b->dep_count : DEPS_MAX;
    for (uint32_t i = 0; i < n; i++)
        put_varint(&f->part, bir_id(p, p->deps[b->dep_first + i].bir));
    put_packed(f, 4);
    for (uint32_t i = 0; i < n; i++)
        put_varint(&f->part, (uint64_t)p->deps[b->dep_first + i].kind);
    put_packed(f, 9);
    if (b->previous == NODE_NONE)
        return;
    put_varint(&f->part, bir_id(p, b->previous));
    put_packed(f, 5);
    put_varint(&f->part, DEP_ORDERED);
    put_packed(f, 10);
}

static void put_source(struct debug_file *f, const struct upper *u)
{
    char line[16];
    (void)snprintf(line, sizeof line, "%d", u->line);
    put_attribute(&f->message, &f->part, "file", u->file);
    put_attribute(&f->message, &f->part, "line", line);
    kymo_buf_reset(&f->part.buf);
}

static int add_backend(const struct sim_program *p, enum kymo_engine e, struct neff_writer *w, struct kymo_err *err)
{
    struct debug_file f;
    file_init(&f);
    put_text(&f.file, 1, "backend");
    for (uint32_t i = 0; i < p->bir_count; i++) {
        const struct bir *b = &p->birs[i];
        if (b->engine != e)
            continue;
        char name[64];
        /* Instructions of NKI kernels are called otherwise (the explorer's documentation, A). */
        if (b->kernel.line)
            (void)snprintf(name, sizeof name, "inst.%u", i);
        else
            (void)snprintf(name, sizeof name, "I-%u_sg%04u", i, p->sg);
        put_number(&f.message, 1, bir_id(p, i));
        put_text(&f.message, 2, name);
        if (b->penguin != NODE_NONE) {
            put_varint(&f.part, upper_id(b->penguin));
            put_packed(&f, 3);
        }
        put_dependencies(p, &f, b);
        put_number(&f.message, 6, (uint64_t)b->kind);
        if (b->penguin != NODE_NONE)
            put_source(&f, &p->uppers[b->penguin]);
        if (b->queue != NODE_NONE)
            put_attribute(&f.message, &f.part, "dma_queue", p->queues[b->queue].name);
        kymo_buf_reset(&f.part.buf);
        if (b->penguin != NODE_NONE)
            put_number(&f.message, 8, upper_id(b->penguin));
        end_message(&f, 3);
    }
    return file_end(p, &f, "debug_info_backend", e, w, err);
}

/* One record per instruction, in order; the builder's own control instructions have no parent. */
static int add_asm(const struct sim_program *p, enum kymo_engine e, struct neff_writer *w, struct kymo_err *err)
{
    struct debug_file f;
    file_init(&f);
    put_text(&f.file, 1, "asm");
    for (size_t i = 0; i < p->streams[e].count; i++) {
        uint32_t bir = p->streams[e].bir[i];
        put_number(&f.message, 1, i);
        if (bir != NODE_NONE) {
            put_varint(&f.part, bir_id(p, bir));
            put_packed(&f, 3);
        }
        end_message(&f, 3);
    }
    return file_end(p, &f, "debug_info_asm", e, w, err);
}

static int add_upper_layer(const struct sim_program *p, enum upper_layer layer, struct neff_writer *w,
                           struct kymo_err *err)
{
    static const char *const stems[] = {"debug_info_framework", "debug_info_hlo", "debug_info_penguin"};
    struct debug_file f;
    file_init(&f);
    put_text(&f.file, 1, stems[layer]);
    for (uint32_t i = 0; i < p->upper_count; i++) {
        const struct upper *u = &p->uppers[i];
        if (u->layer != layer)
            continue;
        put_number(&f.message, 1, upper_id(i));
        put_text(&f.message, 2, u->name);
        if (u->parent != NODE_NONE) {
            put_varint(&f.part, upper_id(u->parent));
            put_packed(&f, 3);
        }
        put_source(&f, u);
        if (*u->attr_key)
            put_attribute(&f.message, &f.part, u->attr_key, u->attr_value);
        kymo_buf_reset(&f.part.buf);
        put_number(&f.message, 8, upper_id(i));
        end_message(&f, 3);
    }
    return file_end(p, &f, stems[layer], KYMO_ENGINE_INVALID, w, err);
}

/* Frame k (from 1) is that of upper node k - 1; its parent frame is that of the node above. */
static int add_stack(const struct sim_program *p, struct neff_writer *w, struct kymo_err *err)
{
    struct debug_file f;
    file_init(&f);
    for (uint32_t i = 0; i < p->upper_count; i++)
        put_text(&f.message, 1, p->uppers[i].file);
    for (uint32_t i = 0; i < p->upper_count; i++)
        put_text(&f.message, 2, p->uppers[i].name);
    for (uint32_t i = 0; i < p->upper_count; i++) {
        kymo_buf_reset(&f.part.buf);
        put_number(&f.part, 1, upper_id(i));
        put_number(&f.part, 2, upper_id(i));
        put_number(&f.part, 3, (uint64_t)p->uppers[i].line);
        put_block(&f.message, 3, f.part.buf.data, f.part.buf.len);
    }
    for (uint32_t i = 0; i < p->upper_count; i++) {
        kymo_buf_reset(&f.part.buf);
        put_number(&f.part, 1, upper_id(i));
        put_number(&f.part, 2, p->uppers[i].parent == NODE_NONE ? 0 : upper_id(p->uppers[i].parent));
        put_block(&f.message, 4, f.part.buf.data, f.part.buf.len);
    }
    put_block(&f.file, 6, f.message.buf.data, f.message.buf.len);
    return file_end(p, &f, "stack_frame_index", KYMO_ENGINE_INVALID, w, err);
}

int sim_program_add_debug(const struct sim_program *p, struct neff_writer *w, struct kymo_err *err)
{
    int r = 0;
    for (unsigned e = 0; e < KYMO_ENGINE_MAX && r == 0; e++) {
        r = add_backend(p, (enum kymo_engine)e, w, err);
        if (r == 0)
            r = add_asm(p, (enum kymo_engine)e, w, err);
    }
    for (int layer = 0; layer < UPPER_LAYERS && r == 0; layer++)
        r = add_upper_layer(p, (enum upper_layer)layer, w, err);
    return r == 0 ? add_stack(p, w, err) : r;
}
