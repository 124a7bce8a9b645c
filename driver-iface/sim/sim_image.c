/* Building of device images: subgraphs to physical cores, runtime semaphores, addresses. */
#include "driver-iface/sim/sim_image.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "driver-iface/sim/sim_op.h"

/* Where images and doorbells lie in the device's address space (G). Images keep off round numbers on purpose: an
 * absolute pc must not look like a relative one. */
#define IMAGE_OFFSET 0x2B7C40ull
#define IMAGE_ALIGN 0x1000ull
#define MODEL_STRIDE 0x10000000ull
#define DOORBELL_BASE 0x2C00000000ull
#define DOORBELL_CORE 0x1000000ull
#define DOORBELL_QUEUE 0x1000ull

uint64_t sim_image_doorbell(unsigned nc, size_t q)
{
    return DOORBELL_BASE + nc * DOORBELL_CORE + q * DOORBELL_QUEUE;
}

static void mark_sync(uint8_t used[256], const struct kymo_sync *s)
{
    if (s->wait_mode != KYMO_WAIT_NONE)
        used[s->wait_idx] = 1;
    if (s->update_mode != KYMO_UPD_NONE)
        used[s->update_idx] = 1;
}

static void mark_record(const struct kymo_arch *arch, uint8_t used[256], const uint8_t *rec)
{
    struct kymo_sync s = kymo_instr_sync(rec);
    mark_sync(used, &s);
    if (kymo_instr_sync2(rec, &s))
        mark_sync(used, &s);
    uint64_t v;
    bool direct = rec[0] == KYMO_OP_DMA_DIRECT2D || rec[0] == KYMO_OP_PSEUDO_DMA_DIRECT2D;
    if (direct && kymo_layout_get(arch, rec, KYMO_F_DMA_SEM, &v))
        used[v & 255] = 1;
    bool barrier = rec[0] == KYMO_OP_PSEUDO_CORE_BARRIER || rec[0] == KYMO_OP_PSEUDO_TRIGGER_COLLECTIVE;
    if (barrier && kymo_layout_get(arch, rec, KYMO_F_DMA_SEM, &v))
        used[v & 255] = 1;
}

static int pick_semaphores(const struct kymo_arch *arch, struct sim_core_image *ci, struct kymo_err *err)
{
    uint8_t used[256] = {0};
    const struct neff_subgraph *sg = ci->subgraph;
    for (size_t e = 0; e < sg->engine_count; e++)
        for (size_t i = 0; i < sg->engines[e].count; i++)
            mark_record(arch, used, sg->engines[e].code + i * KYMO_INSTR_SIZE);
    for (size_t q = 0; q < ci->queue_count; q++)
        for (size_t b = 0; b < ci->queues[q].block_count; b++)
            if (ci->queues[q].blocks[b].semaphore >= 0)
                used[ci->queues[q].blocks[b].semaphore] = 1;
    unsigned found = 0;
    for (unsigned s = 256; s-- > 0 && found < 2;)
        if (!used[s]) {
            *(found ? &ci->end_semaphore : &ci->start_semaphore) = (uint8_t)s;
            found++;
        }
    return found == 2 ? 0 : kymo_err_set(err, -ENOSPC, "%s uses all semaphores, the runtime needs two", sg->name);
}

/* Engines that take part: those of the subgraph, and Sync, which announces start and end. */
static unsigned engines_of(const struct neff_subgraph *sg)
{
    unsigned mask = 1u << KYMO_ENGINE_SYNC;
    for (size_t e = 0; e < sg->engine_count; e++)
        if (sg->engines[e].count)
            mask |= 1u << sg->engines[e].engine;
    return mask;
}

static const struct neff_engine *find_engine(const struct neff_subgraph *sg, enum kymo_engine engine)
{
    for (size_t e = 0; e < sg->engine_count; e++)
        if (sg->engines[e].engine == engine)
            return &sg->engines[e];
    return NULL;
}

static int build_core(struct sim_image *im, unsigned pcore, uint64_t *address, struct kymo_err *err)
{
    struct sim_core_image *ci = &im->cores[pcore];
    int r = sim_queue_layout(im->arch, ci, err);
    if (r >= 0)
        r = sim_image_place_vars(im->arch, pcore, ci, err);
    if (r >= 0)
        r = sim_image_find_collectives(im->arch, im->lnc, ci, err);
    if (r >= 0)
        r = pick_semaphores(im->arch, ci, err);
    unsigned mask = engines_of(ci->subgraph);
    for (unsigned e = 0; r >= 0 && e < KYMO_ENGINE_MAX; e++) {
        struct sim_engine_image *ei = &ci->engines[e];
        ei->engine = (enum kymo_engine)e;
        if (!(mask >> e & 1))
            continue;
        r = sim_translate(im->arch, ci, pcore, find_engine(ci->subgraph, ei->engine), mask, ei, err);
        ei->start_address = *address;
        uint64_t bytes = (uint64_t)ei->count * KYMO_INSTR_SIZE;
        *address += (bytes + IMAGE_ALIGN - 1) / IMAGE_ALIGN * IMAGE_ALIGN;
        im->image_bytes += bytes;
    }
    if (r < 0)
        kymo_err_prefix(err, "%s, %s", neff_path(im->neff), ci->subgraph->name);
    return r;
}

/* Trn1 and Inf2 run the same programs. */
static int check_target(const struct kymo_arch *arch, const struct neff *neff, struct kymo_err *err)
{
    const char *target = neff_target(neff);
    const struct kymo_arch *wanted = kymo_arch_of_target(target);
    if (!wanted || !strcmp(wanted->nc_version, arch->nc_version))
        return 0;
    return kymo_err_set(err, -EINVAL, "%s: made for %s (target %s), the instance is %s", neff_path(neff), wanted->name,
                        target, arch->name);
}

/* Their records name them by one number: one core's. */
static int check_collectives(const struct sim_image *im, const struct neff *neff, struct kymo_err *err)
{
    if (im->cores[0].cc_op_count && im->cores[1].cc_op_count)
        return kymo_err_set(err, -ENOTSUP, "%s: both cores trigger collectives", neff_path(neff));
    return 0;
}

static int find_subgraphs(struct sim_image *im, struct neff *neff, struct kymo_err *err)
{
    for (unsigned p = 0; p < im->lnc; p++) {
        im->cores[p].subgraph = neff_subgraph_of_pcore(neff, p);
        if (!im->cores[p].subgraph)
            return kymo_err_set(err, -EINVAL, "%s: no subgraph for physical core %u, LNC=%u asked for", neff_path(neff),
                                p, im->lnc);
    }
    if (neff_subgraph_count(neff) > im->lnc)
        return kymo_err_set(err, -EINVAL, "%s: %zu subgraphs, but LNC=%u", neff_path(neff), neff_subgraph_count(neff),
                            im->lnc);
    return 0;
}

int sim_image_build(const struct kymo_arch *arch, unsigned lnc, struct neff *neff, uint64_t model_id,
                    struct sim_image **ret, struct kymo_err *err)
{
    int r = kymo_arch_check_lnc(arch, lnc, err);
    if (r == 0)
        r = check_target(arch, neff, err);
    if (r < 0)
        return r;
    struct sim_image *im KYMO_CLEANUP(sim_image_freep) = KYMO_NEW(struct sim_image);
    if (!im)
        return kymo_err_set(err, -ENOMEM, "no memory for an image");
    im->arch = arch;
    im->lnc = lnc;
    im->model_id = model_id;
    atomic_init(&im->refs, 1);
    r = find_subgraphs(im, neff, err);
    if (r < 0)
        return r;
    im->neff = neff;
    uint64_t address = arch->hbm_base + IMAGE_OFFSET + model_id % 64 * MODEL_STRIDE;
    for (unsigned p = 0; r >= 0 && p < lnc; p++)
        r = build_core(im, p, &address, err);
    if (r >= 0)
        r = check_collectives(im, neff, err);
    if (r < 0) {
        im->neff = NULL; /* still the caller's */
        return r;
    }
    *ret = KYMO_TAKE(im);
    return 0;
}

struct sim_image *sim_image_ref(struct sim_image *im)
{
    atomic_fetch_add_explicit(&im->refs, 1, memory_order_relaxed);
    return im;
}

struct sim_image *sim_image_free(struct sim_image *im)
{
    if (!im || atomic_fetch_sub_explicit(&im->refs, 1, memory_order_acq_rel) != 1)
        return NULL;
    for (unsigned p = 0; p < 2; p++) {
        for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
            struct sim_engine_image *ei = &im->cores[p].engines[e];
            kymo_free(ei->code);
            kymo_free(ei->compiler_pc);
            kymo_free(ei->ops);
            kymo_free(ei->patches);
        }
        kymo_free(im->cores[p].cc_ops);
        kymo_free(im->cores[p].vars);
        sim_queue_free(&im->cores[p]);
    }
    neff_free(im->neff);
    kymo_free(im);
    return NULL;
}

void sim_image_freep(struct sim_image **im)
{
    *im = sim_image_free(*im);
}
