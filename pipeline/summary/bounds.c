#include "pipeline/summary/bounds.h"

#include <string.h>

#define I BOUNDS_INSTRUCTIONS
#define D BOUNDS_DMA
#define E BOUNDS_EVENTS
#define S BOUNDS_STATUS
#define C BOUNDS_CC
#define X BOUNDS_CC_EVENTS
#define W BOUNDS_WAITS
#define N BOUNDS_NAMES
#define G BOUNDS_DGE
#define F BOUNDS_NEFF
#define R BOUNDS_FAILED
#define RECORDS (I | D | E | S | C | X | BOUNDS_NOTICES)
#define MOVED (D | N | F) /* bytes by memory or by queue */

/*
 * In the order of the schema. A time or share of total_time errs upwards without the last notice of an execution, which
 * makes total_time too short. A quotient of two figures that both shrink errs either way.
 */
static const struct bounds_column columns[] = {
    {"total_time", S, 0, 0},
    {"neuroncore_cycle_count", S, 0, 0},
    {"model_flops", F | R, 0, 0},
    {"hardware_flops", I | F, 0, 0},
    {"transpose_flops", I | F, 0, 0},
    {"adjusted_hardware_flops", I | F, 0, 0},
    {"adjusted_transpose_flops", I | F, 0, 0},
    {"mm_arithmetic_intensity", 0, 0, I | MOVED},
    {"peak_flops_bandwidth_ratio", 0, 0, 0},
    {"trace_count", RECORDS, 0, 0},
    {"event_count", E | X, 0, 0},
    /* Of an event in doubt both ends are rows of PartialEvent; a packet without a name is a transfer of its own. */
    {"total_row_count", E | X, 0, I | D | C | N | G | F | BOUNDS_NOTICES},
    {"dma_active_cycles", D, 0, 0},
    {"dma_active_time", D, 0, 0},
    {"dma_active_time_percent", D, S, 0},
    {"static_dma_active_time", D | F, 0, 0},
    {"dynamic_dma_active_time_percent", D | F, S, 0},
    {"static_dma_active_time_percent", D | F, S, 0},
    {"dma_transfer_average_bytes", 0, 0, MOVED | G},
    {"dma_packet_time", D, 0, 0},
    /* Packets without DGE notifications are transfers of their own, those whose trigger is not known are of none. */
    {"dma_transfer_time", MOVED, 0, G},
    {"dma_transfer_count", MOVED, 0, G},
    {"dma_transfer_total_bytes", MOVED, 0, 0},
    {"dma_queue_count", F, 0, 0},
    {"inputs_and_weights_size_bytes", F, 0, 0},
    {"inputs_outputs_weights_size_bytes", F, 0, 0},
    {"weight_size_bytes", F, 0, 0},
    {"static_dma_packet_count", D | F, 0, 0},
    {"static_dma_size", D | F, 0, 0},
    {"dynamic_dma_packet_percent", 0, 0, D | F},
    {"static_dma_packet_percent", 0, 0, D | F},
    {"dynamic_dma_size_percent", 0, 0, D | F},
    {"static_dma_size_percent", 0, 0, D | F},
    {"mbu_estimated_percent", MOVED, S, 0},
    {"mbu_min_read_util_percent", F, S, 0},
    {"hbm_write_bytes", MOVED, 0, 0},
    {"hbm_read_bytes", MOVED, 0, 0},
    {"sbuf_write_bytes", I | MOVED, 0, 0},
    {"sbuf_read_bytes", I | MOVED, 0, 0},
    {"spill_save_bytes", MOVED, 0, 0},
    {"spill_reload_bytes", MOVED, 0, 0},
    {"psum_write_bytes", I | F, 0, 0},
    {"psum_read_bytes", I | F, 0, 0},
    {"psum_read_sbuf_write_count", I | F, 0, 0},
    {"psum_read_sbuf_write_bytes", I | F, 0, 0},
    {"input_queue_bytes", MOVED, 0, 0},
    {"output_queue_bytes", MOVED, 0, 0},
    {"weight_queue_bytes", MOVED, 0, 0},
    {"software_dynamic_dma_active_time", D | F, 0, 0},
    {"software_dynamic_dma_active_time_percent", D | F, S, 0},
    {"software_dynamic_dma_packet_count", D | F, 0, 0},
    {"software_dynamic_dma_size", D | F, 0, 0},
    {"software_dynamic_dma_packet_percent", 0, 0, D | F},
    {"software_dynamic_dma_size_percent", 0, 0, D | F},
    {"hardware_dynamic_dma_active_time", D | F, 0, 0},
    {"hardware_dynamic_dma_active_time_percent", D | F, S, 0},
    {"hardware_dynamic_dma_packet_count", D | F, 0, 0},
    {"hardware_dynamic_dma_size", D | F, 0, 0},
    {"hardware_dynamic_dma_packet_percent", 0, 0, D | F},
    {"hardware_dynamic_dma_size_percent", 0, 0, D | F},
    {"tensor_engine_instruction_time", I, 0, 0},
    {"tensor_engine_active_time", I, W, 0},
    {"tensor_engine_active_time_percent", I, W | S, 0},
    {"tensor_engine_instruction_count", I, 0, 0},
    {"matmul_instruction_count", I | F, 0, 0},
    {"mfu_estimated_percent", F | R, S, 0},
    {"mfu_max_achievable_estimated_percent", R, D | N, F},
    {"mfu_hlo_estimated_percent", F | R, S, 0},
    {"mfu_hlo_max_achievable_estimated_percent", R, D | N, F},
    /* Flops less transposes; whether one is a transpose is the compiler's word. */
    {"mfu_inst_estimated_percent", I, S, F},
    {"mfu_inst_max_achievable_estimated_percent", 0, 0, I | MOVED},
    {"hfu_estimated_percent", I | F, S, 0},
    {"vector_engine_instruction_time", I, 0, 0},
    {"vector_engine_active_time", I, W, 0},
    {"vector_engine_active_time_percent", I, W | S, 0},
    {"vector_engine_instruction_count", I, 0, 0},
    {"scalar_engine_instruction_time", I, 0, 0},
    {"scalar_engine_active_time", I, W, 0},
    {"scalar_engine_active_time_percent", I, W | S, 0},
    {"scalar_engine_instruction_count", I, 0, 0},
    {"activate_instruction_time", I | F, 0, 0},
    {"activate_instruction_count", I | F, 0, 0},
    {"sync_engine_instruction_time", I, 0, 0},
    {"sync_engine_active_time", I, W, 0},
    {"sync_engine_active_time_percent", I, W | S, 0},
    {"sync_engine_instruction_count", I, 0, 0},
    {"gpsimd_engine_instruction_time", I, 0, 0},
    {"gpsimd_engine_active_time", I, W, 0},
    {"gpsimd_engine_active_time_percent", I, W | S, 0},
    {"gpsimd_engine_instruction_count", I, 0, 0},
    {"cc_op_time", C, 0, 0},
    {"cc_op_active_time", C, 0, 0},
    {"cc_op_active_time_percent", C, S, 0},
    {"cc_op_count", C, 0, 0},
    {"cc_cores_instruction_time", C, 0, 0},
    {"cc_cores_instruction_active_time", C, W, 0},
    {"cc_cores_instruction_active_time_percent", C, W | S, 0},
    {"cc_cores_instruction_count", C, 0, 0},
    /* An instruction without an opcode is not known to be set-up. */
    {"total_exec_time", I | D, F, 0},
    {"total_active_time", I | D | C, W, 0},
    {"total_active_time_percent", 0, 0, I | D | C | W | F},
    {"useful_read_percent", 0, 0, MOVED},
    {"total_bandwidth_available_bytes", S, 0, 0},
    {"active_flops", 0, W, I | F},
    {"sbuf_reload_ratio", 0, 0, MOVED},
    {"sbuf_save_ratio", 0, 0, MOVED},
    {"nki_coverage_percent", 0, 0, I | F},
    {"lower_bound", 0, 0, 0},
    {"lower_bound_reason", 0, 0, 0},
};

const struct bounds_column *bounds_find(const char *name)
{
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (!strcmp(columns[i].name, name))
            return &columns[i];
    return NULL;
}

enum bounds_mark bounds_mark(const struct bounds_column *c, unsigned missing)
{
    if (missing & (c->high | c->either))
        return BOUNDS_UNCERTAIN;
    return missing & c->low ? BOUNDS_LOWER : BOUNDS_EXACT;
}

unsigned bounds_causes(const struct bounds_column *c, unsigned missing)
{
    return missing & (c->low | c->high | c->either);
}

const char *bounds_text(enum bounds_input input)
{
    switch (input) {
    case BOUNDS_INSTRUCTIONS:
        return "instruction records were or may be lost, or instructions have one end only";
    case BOUNDS_DMA:
        return "DMA records were or may be lost, or packets have one end only";
    case BOUNDS_EVENTS:
        return "semaphore records were or may be lost";
    case BOUNDS_STATUS:
        return "notices of executions were or may be lost";
    case BOUNDS_CC:
        return "records of collectives were or may be lost, or collectives have one end only";
    case BOUNDS_CC_EVENTS:
        return "semaphore records of CC-cores were or may be lost";
    case BOUNDS_NOTICES:
        return "records of throttling, errors or host-device DMA were or may be lost";
    case BOUNDS_WAITS:
        return "no record tells when long semaphore waits were met";
    case BOUNDS_NAMES:
        return "the transfers of some DMA packets are not known";
    case BOUNDS_DGE:
        return "DGE notifications are missing: packets without them are transfers of their own";
    case BOUNDS_NEFF:
        return "a NEFF or an instruction image is missing";
    case BOUNDS_FAILED:
        return "executions failed, of which nobody knows how much of the model they did";
    default:
        return "";
    }
}

struct word {
    const char *text;
    unsigned inputs;
};

/* Labels of rings go on with a number or a core. */
unsigned bounds_of_ring(const char *label)
{
    static const struct word rings[] = {{"INSTRUCTION", I},
                                        {"DMA-E", D},
                                        {"EVENT", E},
                                        {"INFER_STATUS", S},
                                        {"H2D_DMA", BOUNDS_NOTICES},
                                        {"CC_CORE_INSTRUCTION", C},
                                        {"CC_CORE_EVENT", X},
                                        {"CC_CORE_ERROR", BOUNDS_NOTICES},
                                        {"ERROR", BOUNDS_NOTICES},
                                        {"THROTTLE", BOUNDS_NOTICES}};
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++)
        if (!strncmp(label, rings[i].text, strlen(rings[i].text)))
            return rings[i].inputs;
    return 0;
}

static unsigned find_word(const struct word *words, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(text, words[i].text))
            return words[i].inputs;
    return 0;
}

unsigned bounds_of_partial(const char *kind)
{
    static const struct word kinds[] = {
        {"instruction", I}, {"dma_packet", D}, {"host_dma", BOUNDS_NOTICES}, {"collective", C}, {"cc_instruction", C}};
    return find_word(kinds, sizeof kinds / sizeof *kinds, kind);
}

unsigned bounds_of_warning(const char *category)
{
    static const struct word categories[] = {
        {"Upper bounds", W}, {"DGE notifications", N | G}, {"DMA transfers", N},   {"Missing NEFF", F},
        {"Wrong NEFF", F},   {"Missing image", F},         {"Failed execution", R}};
    return find_word(categories, sizeof categories / sizeof *categories, category);
}
