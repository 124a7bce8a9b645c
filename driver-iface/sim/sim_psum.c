/* Which instructions meet in a PSUM bank, in the order in which they begin to run (the three rules of the seed page).
 */
#include "driver-iface/sim/sim_internal.h"

static void use_bank(struct sim_pcore *p, unsigned bank, const struct sim_op *op, uint32_t row, uint32_t new_group)
{
    struct sim_psum_bank *b = &p->psum[bank];
    bool write = op->psum_write >> bank & 1;
    uint32_t group = 0;
    if (write && (op->acc == SIM_ACC_BEGIN || !b->group))
        b->group = new_group; /* adding to what nobody is known to have begun counts as a group too */
    if (write && op->acc != SIM_ACC_NONE)
        group = b->group;
    else if (write)
        b->group = 0; /* overwritten by another engine: what follows continues nothing that a matmul began */
    bool continues = op->acc == SIM_ACC_CONTINUE && group && group == b->last_group;
    if (b->row != SIM_TRUTH_NONE && (write || b->wrote) && !continues)
        sim_truth_edge(p->capture->truth, SIM_EDGE_PSUM, b->row, row, 1u << bank);
    b->row = row;
    b->wrote = write;
    b->last_group = group;
}

void sim_psum_use(struct sim_pcore *p, const struct sim_op *op, uint32_t row)
{
    uint32_t new_group = op->acc != SIM_ACC_NONE ? ++p->psum_groups : 0;
    unsigned banks = op->psum_read | op->psum_write;
    for (unsigned bank = 0; bank < SIM_PSUM_BANKS; bank++)
        if (banks >> bank & 1)
            use_bank(p, bank, op, row, new_group);
}
