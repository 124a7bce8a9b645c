/* kymo-sim neff: makes a NEFF of a stated shape. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver-iface/sim/sim_model.h"
#include "driver-iface/sim/sim_subcommands.h"

#define LNC_MAX 2

static const char usage[] =
    "usage: kymo-sim neff --model mlp|attention --arch ARCH --output FILE.neff [OPTIONS]\n"
    "\n"
    "Makes a compiled program of a stated shape, with its debug layers.\n"
    "\n"
    "  --model NAME    mlp: training steps of a multi-layer perceptron; attention: softmax attention, head by head\n"
    "  --arch ARCH     trn1, inf2, trn2, trn3, or an instance type such as trn2.48xlarge\n"
    "  --lnc N         physical cores per logical core, 1 (default) or 2 (trn2, trn3)\n"
    "  --layers N      1 to 64 (mlp 2, attention 4)\n"
    "  --hidden N      multiple of 128 up to 2048 (512)\n"
    "  --batch N       tokens, multiple of 128 up to 512 (mlp 128, attention 256)\n"
    "  --repeat N      multiplies the loops' iterations: longer runs, same file size (1)\n"
    "  --seed N        changes the UUID (0)\n"
    "  --output FILE   where to write\n";

struct request {
    const struct sim_model *model;
    const struct kymo_arch *arch;
    const char *output;
    struct sim_model_options options;
    uint64_t seed;
};

enum {
    OPT_MODEL,
    OPT_ARCH,
    OPT_LNC,
    OPT_LAYERS,
    OPT_HIDDEN,
    OPT_BATCH,
    OPT_REPEAT,
    OPT_SEED,
    OPT_OUTPUT,
    OPT_HELP,
    OPT_MAX
};

static const struct option long_options[] = {
    {"model", required_argument, NULL, OPT_MODEL},
    {"arch", required_argument, NULL, OPT_ARCH},
    {"lnc", required_argument, NULL, OPT_LNC},
    {"layers", required_argument, NULL, OPT_LAYERS},
    {"hidden", required_argument, NULL, OPT_HIDDEN},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"repeat", required_argument, NULL, OPT_REPEAT},
    {"seed", required_argument, NULL, OPT_SEED},
    {"output", required_argument, NULL, OPT_OUTPUT},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static int parse_number(const char *name, const char *text, uint64_t max, uint64_t *ret, struct kymo_err *err)
{
    size_t digits = strspn(text, "0123456789");
    errno = 0;
    unsigned long long v = strtoull(text, NULL, 10);
    if (digits == 0 || text[digits] || errno || v > max)
        return kymo_err_set(err, -EINVAL, "--%s %.40s is not a number from 0 to %llu", name, text,
                            (unsigned long long)max);
    *ret = v;
    return 0;
}

static int parse_numbers(const char *const text[OPT_MAX], struct request *r, struct kymo_err *err)
{
    const struct {
        int option;
        unsigned *value;
    } fields[] = {{OPT_LNC, &r->options.lnc},
                  {OPT_LAYERS, &r->options.layers},
                  {OPT_HIDDEN, &r->options.hidden},
                  {OPT_BATCH, &r->options.batch},
                  {OPT_REPEAT, &r->options.repeat}};
    int e = 0;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && e == 0; i++) {
        uint64_t v;
        if (!text[fields[i].option])
            continue;
        e = parse_number(long_options[fields[i].option].name, text[fields[i].option], UINT32_MAX, &v, err);
        if (e == 0)
            *fields[i].value = (unsigned)v;
    }
    return e == 0 && text[OPT_SEED] ? parse_number("seed", text[OPT_SEED], UINT64_MAX, &r->seed, err) : e;
}

static int parse_request(const char *const text[OPT_MAX], struct request *r, struct kymo_err *err)
{
    if (!text[OPT_MODEL] || !text[OPT_ARCH] || !text[OPT_OUTPUT])
        return kymo_err_set(err, -EINVAL, "--model, --arch and --output are needed");
    r->output = text[OPT_OUTPUT];
    r->model = sim_model_find(text[OPT_MODEL]);
    if (!r->model)
        return kymo_err_set(err, -EINVAL, "no model \"%.40s\"; there are mlp and attention", text[OPT_MODEL]);
    r->arch = kymo_arch_find(text[OPT_ARCH]);
    if (!r->arch)
        return kymo_err_set(err, -EINVAL, "no generation or instance type \"%.40s\"", text[OPT_ARCH]);
    r->options = r->model->defaults;
    int e = parse_numbers(text, r, err);
    if (e == 0)
        e = kymo_arch_check_lnc(r->arch, r->options.lnc, err);
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
    const char *text[OPT_MAX] = {NULL};
    int c;
    while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (c == OPT_HELP) {
            (void)fputs(usage, stdout);
            return 0;
        }
        if (c < 0 || c >= OPT_MAX) {
            (void)fputs(usage, stderr);
            return 2;
        }
        text[c] = optarg;
    }
    struct request r = {0};
    struct kymo_err err = {0};
    if (optind < argc || parse_request(text, &r, &err) < 0) {
        (void)fprintf(stderr, "kymo-sim neff: %s\n", optind < argc ? "no further arguments are known" : err.text);
        return 2;
    }
    if (build_and_write(&r, &err) < 0) {
        (void)fprintf(stderr, "kymo-sim neff: %s\n", err.text);
        return 1;
    }
    return 0;
}
