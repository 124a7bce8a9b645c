/* kymo-sim neff: makes a NEFF of a stated shape. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/options.h"
#include "driver-iface/sim/sim_model.h"
#include "driver-iface/sim/sim_subcommands.h"

#define LNC_MAX 2

struct request {
    const struct sim_model *model;
    const struct kymo_arch *arch;
    const char *output;
    struct sim_model_options options;
    uint64_t seed;
    const char *truth; /* NULL: not wanted */
};

struct args {
    const char *model, *arch, *output, *truth;
    bool nki;
    uint64_t lnc, layers, hidden, batch, repeat, ranks, seed;
};

static const struct kymo_option rows[] = {
    {.name = "model",
     .type = KYMO_OPTION_TEXT,
     .arg = "mlp|attention|allreduce",
     .required = true,
     .offset = offsetof(struct args, model),
     .help = "training steps of a multi-layer perceptron; softmax attention, head by head; or data-parallel "
             "training steps with collectives over --ranks ranks"},
    {.name = "arch",
     .type = KYMO_OPTION_TEXT,
     .arg = "ARCH",
     .required = true,
     .offset = offsetof(struct args, arch),
     .help = "trn1, inf2, trn2, trn3, or an instance type such as trn2.48xlarge"},
    {.name = "output",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     .required = true,
     .offset = offsetof(struct args, output),
     .help = "where to write"},
    {.name = "lnc",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = LNC_MAX,
     .offset = offsetof(struct args, lnc),
     .help = "physical cores per logical core (2: trn2, trn3)"},
    {.name = "layers",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .max = UINT32_MAX,
     .offset = offsetof(struct args, layers),
     .help = "1 to 64 (mlp 2, attention 4)"},
    {.name = "hidden",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .max = UINT32_MAX,
     .offset = offsetof(struct args, hidden),
     .help = "multiple of 128 up to 2048 (512)"},
    {.name = "batch",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .max = UINT32_MAX,
     .offset = offsetof(struct args, batch),
     .help = "tokens, multiple of 128 up to 512 (mlp 128, attention 256)"},
    {.name = "repeat",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .max = UINT32_MAX,
     .offset = offsetof(struct args, repeat),
     .help = "multiplies the loops' iterations: longer runs, same file size (1)"},
    {.name = "ranks",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .max = SIM_MODEL_RANKS_MAX,
     .offset = offsetof(struct args, ranks),
     .help = "allreduce: ranks that run the program together, from 2 (4)"},
    {.name = "nki",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, nki),
     .help = "attention: make scores to context an NKI kernel, with its frames, loops and regions"},
    {.name = "truth",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     .offset = offsetof(struct args, truth),
     .help = "where to write what each instruction comes from (TRUTH.md)"},
    {.name = "seed",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "0",
     .offset = offsetof(struct args, seed),
     .help = "changes the UUID"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo-sim neff",
    .about = "Makes a compiled program of a stated shape, with its debug layers.\n"
             "Exit code: 0 done, 1 failed, 2 wrong usage.",
    .rows = rows,
};

/* 0 stands for the model's own default. */
static void take(unsigned *field, uint64_t v)
{
    if (v)
        *field = (unsigned)v;
}

static int make_request(const struct args *args, struct request *r, struct kymo_err *err)
{
    r->output = args->output;
    r->seed = args->seed;
    r->truth = args->truth;
    r->model = sim_model_find(args->model);
    if (!r->model)
        return kymo_err_set(err, -EINVAL, "no model \"%.40s\"; there are mlp, attention and allreduce", args->model);
    r->arch = kymo_arch_find(args->arch);
    if (!r->arch)
        return kymo_err_set(err, -EINVAL, "no generation or instance type \"%.40s\"", args->arch);
    r->options = r->model->defaults;
    take(&r->options.lnc, args->lnc);
    take(&r->options.layers, args->layers);
    take(&r->options.hidden, args->hidden);
    take(&r->options.batch, args->batch);
    take(&r->options.repeat, args->repeat);
    if (args->ranks && !r->model->defaults.ranks)
        return kymo_err_set(err, -EINVAL, "--ranks: %s has no collectives", r->model->name);
    if (args->ranks == 1)
        return kymo_err_set(err, -EINVAL, "--ranks 1: collectives need 2 ranks or more");
    take(&r->options.ranks, args->ranks);
    r->options.nki = args->nki;
    if (args->nki && r->model != &sim_model_attention)
        return kymo_err_set(err, -EINVAL, "--nki: %s has no NKI kernel; attention has", r->model->name);
    int e = kymo_arch_check_lnc(r->arch, r->options.lnc, err);
    return e == 0 ? sim_model_check(&r->options, err) : e;
}

static int build_and_write(const struct request *r, struct kymo_err *err)
{
    struct sim_program *programs[LNC_MAX] = {NULL};
    struct sim_program_stats stats[LNC_MAX] = {{0}};
    uint64_t macs = 0;
    int e = 0;
    for (unsigned c = 0; c < r->options.lnc && e == 0; c++) {
        struct sim_model_options o = r->options;
        o.core = c;
        programs[c] = sim_program_new(r->arch, c);
        if (!programs[c]) {
            e = kymo_err_set(err, -ENOMEM, "out of memory");
            break;
        }
        r->model->build(programs[c], &o);
        e = sim_program_finish(programs[c], &stats[c], err);
        macs += stats[c].macs;
    }
    const struct sim_neff_info info = {.name = r->model->name, .seed = r->seed, .lnc = r->options.lnc};
    if (e == 0)
        e = sim_program_write(programs, &info, macs, r->output, err);
    if (e == 0 && r->truth)
        e = sim_program_write_truth(programs, r->options.lnc, r->truth, err);
    for (unsigned c = 0; c < r->options.lnc; c++) {
        programs[c] = sim_program_free(programs[c]);
        if (e == 0)
            printf("sg%02u: %llu instructions, %llu executed with %llu transfers\n", c,
                   (unsigned long long)stats[c].static_instructions, (unsigned long long)stats[c].executed_instructions,
                   (unsigned long long)stats[c].transfers);
    }
    return e;
}

int sim_cmd_neff_main(int argc, char **argv)
{
    struct args args;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    struct request r = {0};
    struct kymo_err err = {0};
    if (make_request(&args, &r, &err) < 0) {
        (void)fprintf(stderr, "kymo-sim neff: %s\n", err.text);
        return 2;
    }
    if (kymo_file_check_target(r.output, NULL, 0, &err) < 0 || build_and_write(&r, &err) < 0) {
        (void)fprintf(stderr, "kymo-sim neff: %s\n", err.text);
        return 1;
    }
    return 0;
}
