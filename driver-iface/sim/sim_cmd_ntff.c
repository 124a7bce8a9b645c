/* kymo-sim ntff: runs NEFFs on a simulated device in this process and writes the profile, quickly and at any size. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "arch/arch.h"
#include "arch/ring.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/options.h"
#include "driver-iface/sim/sim_buffers.h"
#include "driver-iface/sim/sim_ntff.h"
#include "driver-iface/sim/sim_subcommands.h"
#include "driver-iface/sim/sim_truth.h"
#include "formats/neff/neff.h"

#define NEFFS_MAX 16
#define EXECUTIONS_MAX 10000000u
#define UNLIMITED_BYTES (1ull << 40)
#define START_PS 12345678901234ull
#define START_UNIX_NS 1767225600000000000ull /* fixed, so that equal commands make equal files */
#define HOST_COPY_MAX (1u << 20)
#define RANKS_MAX 64

struct options {
    struct kymo_option_list neffs, buffers, throttles, notices; /* buffers: RING=MB */
    const char *instance, *driver, *output, *truth;
    const char *slow_rank;
    uint64_t lnc, vnc, executions, events, seed, dge, rank;
    bool drift, unlimited, fail, no_counters;
};

struct run {
    const struct options *o;
    const struct kymo_instance *instance;
    const struct kymo_arch *arch;
    unsigned lnc, first_pcore, nd_idx, h2d_reasons;
    struct kymo_ring_sizes sizes;
    struct sim_notices notices;
    struct kymo_ring_plan plan[KYMO_RING_PLAN_MAX];
    size_t plan_count;
    struct sim_image *images[NEFFS_MAX];
    size_t image_count;
    struct sim_core *core;
    struct sim_core *peers[RANKS_MAX]; /* the other ranks', untraced; NULL: none yet */
    unsigned slow_rank;
    double slow_factor; /* 0: none is slow */
    struct sim_spill *spill;
    struct sim_truth *truth;
    struct sim_ntff_execution *executions;
    size_t execution_count, execution_cap;
};

static const struct kymo_option rows[] = {
    {.name = "neff",
     .type = KYMO_OPTION_LIST,
     .arg = "FILE",
     .required = true,
     .offset = offsetof(struct options, neffs),
     .help = "program; several are executed in turn (a session profile)"},
    {.name = "output",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     .required = true,
     .offset = offsetof(struct options, output),
     .help = "profile to write (NTFF)"},
    {.name = "truth",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .offset = offsetof(struct options, truth),
     .help = "also write DIR/<name of the output without .ntff>/"},
    {.name = "instance",
     .type = KYMO_OPTION_TEXT,
     .arg = "TYPE",
     .def = "trn2.48xlarge",
     .offset = offsetof(struct options, instance),
     .help = "instance type"},
    {.name = "lnc",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .max = 2,
     .offset = offsetof(struct options, lnc),
     .help = "physical cores per logical core; 0: the instance type's default"},
    {.name = "vnc",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .max = 4095,
     .offset = offsetof(struct options, vnc),
     .help = "logical core on the instance"},
    {.name = "executions",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = EXECUTIONS_MAX,
     .offset = offsetof(struct options, executions),
     .help = "how often to execute"},
    {.name = "events",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .max = UINT64_MAX / 2,
     .offset = offsetof(struct options, events),
     .help = "instead: execute until at least N records were made"},
    {.name = "dge",
     .type = KYMO_OPTION_U64,
     .arg = "0|1",
     .def = "0",
     .max = 1,
     .offset = offsetof(struct options, dge),
     .help = "DGE notifications"},
    {.name = "buffer",
     .type = KYMO_OPTION_LIST,
     .arg = "RING=MB",
     .offset = offsetof(struct options, buffers),
     .help = "size of a kind of ring: INSTRUCTION, EVENT, DMA, H2D_DMA, ..."},
    {.name = "unlimited",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct options, unlimited),
     .help = "rings never fill"},
    {.name = "no-counters",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct options, no_counters),
     .help = "leave the rings' counters out of the file, as a runtime without them would"},
    {.name = "driver",
     .type = KYMO_OPTION_TEXT,
     .arg = "VERSION",
     .def = "2.31.0",
     .offset = offsetof(struct options, driver),
     .help = "driver version"},
    {.name = "drift",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct options, drift),
     .help = "Trn1, Inf2: clocks run off"},
    SIM_NOTICES_ROWS(struct options, throttles, notices),
    {.name = "fail",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct options, fail),
     .help = "the last execution fails; with --events one more does"},
    {.name = "rank",
     .type = KYMO_OPTION_U64,
     .arg = "R",
     .max = RANKS_MAX - 1,
     .offset = offsetof(struct options, rank),
     .help = "which of the ranks to trace, for a program with collectives; the others are executed as well"},
    {.name = "slow-rank",
     .type = KYMO_OPTION_TEXT,
     .arg = "R:FACTOR",
     .offset = offsetof(struct options, slow_rank),
     .help = "rank R computes FACTOR times as long"},
    {.name = "seed",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "1",
     .offset = offsetof(struct options, seed),
     .help = "seed of the models"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo-sim ntff",
    .about = "Executes programs on a simulated device and writes the profile, without a runtime in between.\n"
             "Exit code: 0 done, 1 failed, 2 wrong usage.",
    .rows = rows,
};

static int plan_rings(struct run *r, struct kymo_err *err)
{
    unsigned engine;
    r->h2d_reasons = kymo_h2d_reasons(r->arch, r->first_pcore, r->lnc, r->o->driver, &r->sizes, &engine);
    r->plan_count = kymo_ring_plan(r->arch, r->first_pcore, r->lnc, r->o->driver, &r->sizes, r->plan);
    uint64_t limits[KYMO_RING_PLAN_MAX];
    for (size_t i = 0; i < r->plan_count; i++) {
        if (r->o->unlimited)
            r->plan[i].bytes = UNLIMITED_BYTES;
        limits[i] = r->plan[i].bytes / KYMO_RECORD_SIZE;
    }
    return sim_spill_new(r->o->output, limits, r->plan_count, &r->spill, err);
}

static int load_images(struct run *r, struct kymo_err *err)
{
    for (size_t i = 0; i < r->o->neffs.n; i++) {
        struct neff *neff = NULL;
        int rc = neff_open(r->o->neffs.items[i], NEFF_NO_DEBUG, &neff, err);
        if (rc >= 0)
            rc = sim_image_build(r->arch, r->lnc, neff, i + 1, &r->images[i], err);
        if (rc < 0) {
            neff_free(neff);
            return rc;
        }
        r->image_count++;
    }
    return 0;
}

/* Bytes of the model's inputs or outputs on all its cores, within a bound. */
static uint64_t io_bytes(const struct sim_image *im, const char *type)
{
    uint64_t n = 0;
    for (unsigned p = 0; p < im->lnc; p++)
        for (size_t v = 0; v < im->cores[p].subgraph->var_count; v++)
            if (im->cores[p].subgraph->vars[v].type && !strcmp(im->cores[p].subgraph->vars[v].type, type))
                n += im->cores[p].subgraph->vars[v].size;
    return n < HOST_COPY_MAX ? n : HOST_COPY_MAX;
}

static struct sim_config config_of(const struct run *r)
{
    return (struct sim_config){.arch = r->arch,
                               .lnc = r->lnc,
                               .seed = r->o->seed,
                               .dge_notifications = r->o->dge != 0,
                               .drift = r->o->drift,
                               .notices = r->notices,
                               .start_ps = START_PS};
}

/* Each rank has a device of its own; only the traced one is where the options say. */
static int peer_of(struct run *r, unsigned rank, struct kymo_err *err)
{
    struct sim_config config = config_of(r);
    return r->peers[rank] ? 0 : sim_core_new(&config, &r->peers[rank], err);
}

static int execute_all_ranks(struct run *r, struct sim_image *im, unsigned world, bool fail,
                             struct sim_exec_result *ret, struct kymo_err *err)
{
    struct sim_exec_result results[RANKS_MAX] = {{0}};
    struct sim_joint_rank ranks[RANKS_MAX] = {{0}};
    int rc = 0;
    for (unsigned k = 0; rc >= 0 && k < world; k++) {
        bool own = k == r->o->rank;
        if (!own)
            rc = peer_of(r, k, err);
        if (rc >= 0 && !own)
            rc = sim_core_host_copy(r->peers[k], 0, true, io_bytes(im, "input"), err);
        ranks[k] = (struct sim_joint_rank){.core = own ? r->core : r->peers[k],
                                           .first_pcore = own ? r->first_pcore : 0,
                                           .image = im,
                                           .fail = own && fail,
                                           .slow_factor = r->slow_factor != 0 && k == r->slow_rank ? r->slow_factor : 1,
                                           .result = &results[k],
                                           .err = err};
    }
    if (rc >= 0)
        rc = sim_core_execute_joint(ranks, world, err);
    for (unsigned k = 0; rc >= 0 && k < world; k++) {
        rc = ranks[k].error;
        if (rc >= 0 && k != r->o->rank)
            rc = sim_core_host_copy(r->peers[k], 0, false, io_bytes(im, "output"), err);
    }
    *ret = results[r->o->rank];
    return rc;
}

static int execute_image(struct run *r, struct sim_image *im, bool fail, struct sim_exec_result *ret,
                         struct kymo_err *err)
{
    unsigned world = sim_image_world(im);
    if (world == 1) {
        bool slow = r->slow_factor != 0 && r->slow_rank == r->o->rank;
        sim_core_set_slow(r->core, slow ? r->slow_factor : 1);
        return sim_core_execute(r->core, r->first_pcore, im, fail, ret, err);
    }
    if (world > RANKS_MAX || r->o->rank >= world)
        return kymo_err_set(err, -EINVAL,
                            "the program is for %u ranks: --rank %" PRIu64 " is none of them, or more than %d", world,
                            r->o->rank, RANKS_MAX);
    return execute_all_ranks(r, im, world, fail, ret, err);
}

static int execute_one(struct run *r, bool last, struct kymo_err *err)
{
    unsigned at = (unsigned)(r->execution_count % r->image_count);
    struct sim_image *im = r->images[at];
    int rc = kymo_grow((void **)&r->executions, &r->execution_cap, r->execution_count + 1, EXECUTIONS_MAX,
                       sizeof *r->executions);
    if (rc < 0)
        return kymo_err_set(err, rc, "too many executions: %zu", r->execution_count);
    struct sim_ntff_execution *x = &r->executions[r->execution_count];
    x->image = at;
    rc = sim_core_host_copy(r->core, r->first_pcore, true, io_bytes(im, "input"), err);
    if (rc >= 0)
        rc = execute_image(r, im, last && r->o->fail, &x->result, err);
    if (rc >= 0)
        rc = sim_core_host_copy(r->core, r->first_pcore, false, io_bytes(im, "output"), err);
    if (rc < 0)
        return rc;
    x->result.start_ps = sim_core_raw(r->core, r->first_pcore, x->result.start_ps);
    x->result.end_ps = sim_core_raw(r->core, r->first_pcore, x->result.end_ps);
    r->execution_count++;
    return sim_spill_check(r->spill, err);
}

static int execute_all(struct run *r, struct kymo_err *err)
{
    const struct options *o = r->o;
    uint64_t want = o->executions ? o->executions : 1;
    int rc = 0;
    if (!o->events) {
        for (uint64_t i = 0; rc >= 0 && i < want; i++)
            rc = execute_one(r, i + 1 == want, err);
        return rc;
    }
    while (rc >= 0 && sim_core_emitted(r->core, r->first_pcore) < o->events)
        rc = execute_one(r, false, err);
    return rc >= 0 && o->fail ? execute_one(r, true, err) : rc;
}

static int make_core(struct run *r, struct kymo_err *err)
{
    const struct options *o = r->o;
    struct sim_config config = config_of(r);
    int rc = sim_core_new(&config, &r->core, err);
    if (rc < 0)
        return rc;
    if (o->truth) {
        r->truth = sim_truth_new(o->events <= SIM_TRUTH_DETAIL_MAX);
        if (!r->truth)
            return kymo_err_set(err, -ENOMEM, "no memory for the truth");
    }
    return sim_core_arm(r->core, r->first_pcore, r->plan, r->plan_count, sim_spill_sink(r->spill), r->truth, err);
}

static int write_profile(struct run *r, struct kymo_err *err)
{
    struct sim_ntff_capture cap = {.core = r->core,
                                   .spill = r->spill,
                                   .images = r->images,
                                   .image_count = r->image_count,
                                   .plan = r->plan,
                                   .plan_count = r->plan_count,
                                   .executions = r->executions,
                                   .execution_count = r->execution_count,
                                   .sizes = &r->sizes,
                                   .instance = r->instance->type,
                                   .driver = r->o->driver,
                                   .nd_idx = r->nd_idx,
                                   .first_pcore = r->first_pcore,
                                   .vnc = (unsigned)r->o->vnc,
                                   .lnc = r->lnc,
                                   .rank = (unsigned)r->o->rank,
                                   .h2d_reasons = r->h2d_reasons,
                                   .dge_notifications = r->o->dge != 0,
                                   .no_counters = r->o->no_counters,
                                   .start_ps = START_PS,
                                   .start_unix_ns = START_UNIX_NS};
    return sim_ntff_write(&cap, r->o->output, err);
}

static int write_truth(struct run *r, struct kymo_err *err)
{
    if (!r->truth)
        return 0;
    const char *slash = strrchr(r->o->output, '/'), *name = slash ? slash + 1 : r->o->output;
    size_t n = strlen(name);
    if (n > 5 && !strcmp(name + n - 5, ".ntff"))
        n -= 5;
    char *dir KYMO_FREE = kymo_asprintf("%s/%.*s", r->o->truth, (int)n, name);
    if (!dir)
        return kymo_err_set(err, -ENOMEM, "no memory for a path");
    struct sim_truth_meta meta = {.ntff = name,
                                  .path = r->o->output,
                                  .instance = r->instance->type,
                                  .mode = r->image_count > 1 ? "session" : "model",
                                  .driver = r->o->driver,
                                  .nd_idx = r->nd_idx,
                                  .vnc = (unsigned)r->o->vnc,
                                  .h2d_reasons = r->h2d_reasons};
    return sim_core_write_truth(r->core, r->first_pcore, &meta, dir, err);
}

static int resolve(struct run *r, struct kymo_err *err)
{
    const struct options *o = r->o;
    r->instance = kymo_instance_find(o->instance);
    if (!r->instance)
        return kymo_err_set(err, -EINVAL, "no instance type \"%s\"", o->instance);
    r->arch = kymo_arch_get(r->instance->gen);
    r->lnc = o->lnc ? (unsigned)o->lnc : r->instance->default_lnc;
    int rc = kymo_arch_check_lnc(r->arch, r->lnc, err);
    if (rc < 0)
        return rc;
    unsigned pcore = (unsigned)o->vnc * r->lnc;
    r->nd_idx = pcore / r->arch->pcores_per_device;
    r->first_pcore = pcore % r->arch->pcores_per_device;
    if (r->nd_idx >= r->instance->devices)
        return kymo_err_set(err, -EINVAL, "%s has no logical core %" PRIu64 " with LNC=%u", r->instance->type, o->vnc,
                            r->lnc);
    return 0;
}

static int parse_slow(struct run *r, struct kymo_err *err)
{
    unsigned rank = 0;
    double factor = 0;
    int end = 0;
    const char *text = r->o->slow_rank;
    if (!text)
        return 0;
    if (sscanf(text, "%3u:%lf%n", &rank, &factor, &end) != 2 || text[end] || rank >= RANKS_MAX ||
        !(factor >= 0.01 && factor <= 100))
        return kymo_err_set(err, -EINVAL, "--slow-rank %.32s: not RANK:FACTOR, ranks below %d, 0.01 to 100 times", text,
                            RANKS_MAX);
    r->slow_rank = rank;
    r->slow_factor = factor;
    return 0;
}

/* All that the command line alone shows to be wrong. */
static int check_options(struct run *r, struct kymo_err *err)
{
    if (r->o->neffs.n > NEFFS_MAX)
        return kymo_err_set(err, -E2BIG, "more than %d times --neff", NEFFS_MAX);
    if (!kymo_version_valid(r->o->driver))
        return kymo_err_set(err, -EINVAL, "--driver %.64s: no version such as 2.31.0", r->o->driver);
    int rc = sim_buffers_parse(&r->o->buffers, &r->sizes, err);
    if (rc >= 0)
        rc = sim_notices_parse(&r->o->throttles, &r->o->notices, &r->notices, err);
    if (rc >= 0)
        rc = parse_slow(r, err);
    return rc < 0 ? rc : resolve(r, err);
}

static int run_all(struct run *r, struct kymo_err *err)
{
    int rc = kymo_file_check_target(r->o->output, r->o->neffs.items, r->o->neffs.n, err);
    if (rc >= 0)
        rc = load_images(r, err);
    if (rc >= 0)
        rc = plan_rings(r, err);
    if (rc >= 0)
        rc = make_core(r, err);
    if (rc >= 0)
        rc = execute_all(r, err);
    if (rc >= 0)
        rc = write_profile(r, err);
    return rc < 0 ? rc : write_truth(r, err);
}

static void print_counts(const struct run *r)
{
    uint64_t emitted = 0, dropped = 0;
    for (size_t i = 0; i < r->plan_count; i++) {
        uint64_t e, d;
        sim_core_counters(r->core, r->first_pcore, i, &e, &d);
        emitted += e;
        dropped += d;
    }
    printf("%s: %zu executions, %" PRIu64 " records, %" PRIu64 " of them dropped\n", r->o->output, r->execution_count,
           emitted, dropped);
}

static void release(struct run *r)
{
    sim_core_free(r->core);
    for (unsigned k = 0; k < RANKS_MAX; k++)
        sim_core_free(r->peers[k]);
    sim_truth_free(r->truth);
    sim_spill_free(r->spill);
    for (size_t i = 0; i < r->image_count; i++)
        sim_image_free(r->images[i]);
    kymo_free(r->executions);
}

int sim_cmd_ntff_main(int argc, char **argv)
{
    struct options o;
    int code = kymo_options_main(&spec, argc, argv, &o);
    if (code >= 0)
        return code;
    struct run r = {.o = &o};
    struct kymo_err err = {0};
    int wrong = check_options(&r, &err), rc = wrong < 0 ? wrong : run_all(&r, &err);
    if (rc < 0)
        (void)fprintf(stderr, "kymo-sim ntff: %s%s\n", err.text, wrong < 0 ? "; see kymo-sim ntff --help" : "");
    else
        print_counts(&r);
    release(&r);
    return wrong < 0 ? 2 : rc < 0;
}
