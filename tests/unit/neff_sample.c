#include "tests/unit/neff_sample.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "arch/layout.h"
#include "arch/opcode.h"
#include "base/alloc.h"
#include "proto/neff_debug.pb-c.h"

typedef Neuroncc__DebugInfo__IrDebugInfo layer_message;
typedef Neuroncc__DebugInfo__InstructionDebugInfo record_message;
typedef Neuroncc__DebugInfo__InstructionDebugInfo__AttributesEntry attribute_message;

struct neff_header neff_sample_header(unsigned pkg_version)
{
    struct neff_header h = {
        .pkg_version = pkg_version,
        .version_major = 2,
        .build_version = "1.2.3%sample/0",
        .num_tpb = 1,
        .name = "sample",
        .requested_tpb_count = 1,
        .feature_bits = 0x28,
        .lnc_size = 1,
    };
    for (unsigned i = 0; i < sizeof h.uuid; i++)
        h.uuid[i] = (uint8_t)(i * 17);
    return h;
}

static int add_text(struct neff_writer *w, const char *name, const char *text, struct kymo_err *err)
{
    return neff_writer_add(w, name, text, strlen(text), err);
}

static int add_program(struct neff_writer *w, struct kymo_err *err)
{
    static const struct {
        const char *name, *text;
    } members[] = {
        {"info.json", "{\"tool_version\":\"1.2.3+abc\"}"},
        {"hlo_stats.json", "{\"model\":{\"hlo_mac_count\":123456}}"},
        {"kelf-a.json",
         "{\"version\":0.5,\"target\":\"cayman\",\"graphs\":[{\"definition\":\"sg00/def.json\",\"name\":\"sg00\"}]}"},
        {"neff.json",
         "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\"},{\"func_name\":\"__kelf\",\"attrs\":{\"func_name\":\"__kelf\","
         "\"kelf\":\"./kelf-a.json\"}}]}"},
        {"sg00/def.json",
         "{\"pe\":\"PE.bin\",\"sp\":\"SP.json\",\"wavegraph\":\"gone.json\",\"dma_queue\":{"
         "\"qTensorIO0\":{\"type\":\"in\",\"owner\":\"pe\",\"semaphore\":7,\"num_queues\":3,\"queue_instances\":["
         "\"qTensorIO0-i0\","
         "{\"name\":\"qTensorIO0-i1\"}]},\"qSyncIO0\":{\"type\":\"out\",\"owner\":\"sp\",\"num_queues\":99}},"
         "\"var\":{\"a\":{\"type\":\"input\",\"var_id\":0,\"size\":64,\"shape\":[2,32],\"dtype\":\"bf16\"},"
         "\"w\":{\"type\":\"file\",\"var_id\":1,\"size\":4,\"file_name\":\"w.npy\"}}}"},
        {"sg00/PE.json", "{\"act_info\":\"act.json\",\"dma\":[\n"
                         "{\"id\":1,\"instance_name\":\"qTensorIO0-i0\",\"function_start\":\"f\",\"desc\":[{\"from\":"
                         "\"a\",\"from_sizes\":[8,2],"
                         "\"from_steps\":[1,8],\"to\":\"w\",\"to_sizes\":[16],\"to_steps\":[1]},{\"from\":\"a\",\"from_"
                         "sizes\":[5]}]},\n"
                         "{\"id\":2,\"queue\":\"qTensorIO0\",\"semaphore\":9,\"desc\":{\"op\":\"transpose\",\"from\":"
                         "\"a\",\"from_dtype\":\"bfloat16\","
                         "\"from_sizes\":[4611686018427387904,4],\"to\":\"w\",\"transpose_shape\":[1,2,3,4],"
                         "\"transpose_element_size\":2}},\n"
                         "{\"id\":3,\"queue\":\"qOther\",\"desc\":{\"op\":\"add\",\"from_arr\":[\"a\",\"w\"],\"to\":"
                         "\"w\",\"to_sizes\":[6]}},\n"
                         "{\"queue\":\"no id\"}]}"},
        {"sg00/SP.json", "{ }"},
        {"sg00/SP.bin", ""},
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        int r = add_text(w, members[i].name, members[i].text, err);
        if (r < 0)
            return r;
    }
    uint8_t code[NEFF_SAMPLE_INSTRUCTIONS][KYMO_INSTR_SIZE];
    static const uint8_t opcodes[NEFF_SAMPLE_INSTRUCTIONS] = {KYMO_OP_PSEUDO_DMA_TRIGGER, KYMO_OP_LDWEIGHTS,
                                                              KYMO_OP_MATMUL, KYMO_OP_HALT};
    for (size_t i = 0; i < NEFF_SAMPLE_INSTRUCTIONS; i++)
        kymo_instr_init(code[i], opcodes[i]);
    return neff_writer_add(w, "sg00/PE.bin", code, sizeof code, err);
}

static int add_packed(struct neff_writer *w, const char *name, const ProtobufCMessage *m, struct kymo_err *err)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes KYMO_FREE = kymo_malloc(n);
    if (!bytes)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    (void)protobuf_c_message_pack(m, bytes);
    return neff_writer_add(w, name, bytes, n, err);
}

static int add_layer(struct neff_writer *w, const char *name, record_message **records, size_t n,
                     Neuroncc__DebugInfo__StackFrameIndex *frames, unsigned engine, struct kymo_err *err)
{
    layer_message layer = NEURONCC__DEBUG_INFO__IR_DEBUG_INFO__INIT;
    layer.instructions = records;
    layer.n_instructions = n;
    layer.stack_frames = frames;
    layer.engine = engine;
    return add_packed(w, name, &layer.base, err);
}

static record_message record_of(uint64_t id, char *name, uint64_t *parent)
{
    record_message r = NEURONCC__DEBUG_INFO__INSTRUCTION_DEBUG_INFO__INIT;
    r.id = id;
    if (name)
        r.name = name;
    r.parent_ids = parent;
    r.n_parent_ids = parent != NULL;
    return r;
}

/* Four asm records: of BIR 10, of nothing, of BIR 11 and of BIR 99, which no backend record describes. */
static int add_asm(struct neff_writer *w, const char *name, unsigned engine, struct kymo_err *err)
{
    static uint64_t bir[] = {10, 11, 99};
    record_message r[] = {record_of(1, NULL, &bir[0]), record_of(2, NULL, NULL), record_of(3, NULL, &bir[1]),
                          record_of(4, NULL, &bir[2])};
    record_message *list[] = {&r[0], &r[1], &r[2], &r[3]};
    return add_layer(w, name, list, 4, NULL, engine, err);
}

/* BIR 10: source from attributes, edges; BIR 11: source from a stack frame. */
static int add_backend(struct neff_writer *w, const char *first, const char *second,
                       Neuroncc__DebugInfo__StackFrameIndex *own, struct kymo_err *err)
{
    static uint64_t penguin = 20, flow[] = {5, 6}, order[] = {7};
    static Neuroncc__DebugInfo__DependenceKind flow_kinds[] = {NEURONCC__DEBUG_INFO__DEPENDENCE_KIND__DEP_FLOW};
    attribute_message file = NEURONCC__DEBUG_INFO__INSTRUCTION_DEBUG_INFO__ATTRIBUTES_ENTRY__INIT, line = file;
    file.key = (char *)"file";
    file.value = (char *)"model.py";
    line.key = (char *)"line";
    line.value = (char *)"42";
    attribute_message *attributes[] = {&file, &line};
    record_message a = record_of(10, (char *)"I-10", &penguin), b = record_of(11, (char *)"I-11", NULL);
    a.kind = NEURONCC__DEBUG_INFO__INSTRUCTION_KIND__KIND_REGULAR;
    a.attributes = attributes;
    a.n_attributes = 2;
    a.dataflow_predecessors = flow;
    a.n_dataflow_predecessors = 2;
    a.dataflow_kinds = flow_kinds;
    a.n_dataflow_kinds = 1;
    a.scheduling_predecessors = order;
    a.n_scheduling_predecessors = 1;
    b.kind = NEURONCC__DEBUG_INFO__INSTRUCTION_KIND__KIND_SPILL;
    b.stack_frame_id = 1;
    record_message *lists[] = {&a, &b};
    int r = add_layer(w, first, &lists[1], 1, own, 1, err);
    return r == 0 ? add_layer(w, second, &lists[0], 1, NULL, 1, err) : r;
}

static int add_upper(struct neff_writer *w, const char *const names[3], struct kymo_err *err)
{
    static uint64_t hlo = 30, framework = 40;
    record_message p = record_of(20, (char *)"sg0000:20", &hlo), h = record_of(30, (char *)"dot.1", &framework),
                   f = record_of(40, (char *)"Model/Layer[0]", NULL);
    record_message *list[] = {&p, &h, &f};
    int r = 0;
    for (size_t i = 0; i < 3 && r == 0; i++)
        r = add_layer(w, names[i], &list[i], 1, NULL, 0, err);
    return r;
}

static int add_debug(struct neff_writer *w, enum neff_sample_debug debug, struct kymo_err *err)
{
    static const char *const flat[] = {"sg00/debug_info_penguin.dbg", "sg00/debug_info_hlo.dbg",
                                       "sg00/debug_info_pttf.dbg"};
    static const char *const folder[] = {"debug_info/penguin.dbg", "debug_info/hlo.dbg", "debug_info/framework.dbg"};
    Neuroncc__DebugInfo__StackFrameLocation location = NEURONCC__DEBUG_INFO__STACK_FRAME_LOCATION__INIT;
    Neuroncc__DebugInfo__StackFrame frame = NEURONCC__DEBUG_INFO__STACK_FRAME__INIT;
    Neuroncc__DebugInfo__StackFrameIndex index = NEURONCC__DEBUG_INFO__STACK_FRAME_INDEX__INIT;
    char *files[] = {(char *)"kernel.py"};
    Neuroncc__DebugInfo__StackFrameLocation *locations[] = {&location};
    Neuroncc__DebugInfo__StackFrame *frames[] = {&frame};
    location.file_id = 1;
    location.line = 7;
    frame.location_id = 1;
    index.file_names = files;
    index.locations = locations;
    index.frames = frames;
    index.n_file_names = index.n_locations = index.n_frames = 1;
    bool is_flat = debug == NEFF_SAMPLE_FLAT;
    int r = add_asm(w, is_flat ? "sg00/debug_info_asm.pe.dbg" : "debug_info/asm.dbg", is_flat ? 0 : 1, err);
    if (r == 0)
        r = is_flat ? add_backend(w, "sg00/debug_info_backend.pe.1.dbg", "sg00/debug_info_backend.pe.dbg", &index, err)
                    : add_backend(w, "debug_info/backend.PE.dbg", "debug_info/backend.PE.2.dbg", NULL, err);
    if (r == 0)
        r = add_upper(w, is_flat ? flat : folder, err);
    return r == 0 && !is_flat ? add_packed(w, "debug_info/stack_frame_index.dbg", &index.base, err) : r;
}

int neff_sample_fill(struct neff_writer *w, enum neff_sample_debug debug, struct kymo_err *err)
{
    int r = add_program(w, err);
    return r == 0 && debug != NEFF_SAMPLE_NONE ? add_debug(w, debug, err) : r;
}
