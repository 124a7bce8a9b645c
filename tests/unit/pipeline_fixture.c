#include "tests/unit/pipeline_fixture.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "driver-iface/sim/sim_model.h"
#include "driver-iface/sim/sim_subcommands.h"

static void make_neff(const struct kymo_arch *arch, uint64_t seed, const char *path)
{
    struct kymo_err err = {0};
    const struct sim_model *model = sim_model_find("mlp");
    struct sim_model_options options = model->defaults;
    options.lnc = 1;
    options.layers = 1;
    struct sim_program *p = sim_program_new(arch, 0);
    assert_non_null(p);
    model->build(p, &options);
    struct sim_program_stats stats;
    if (sim_program_finish(p, &stats, &err) < 0)
        fail_msg("%s", err.text);
    struct sim_neff_info info = {.name = "mlp", .seed = seed, .lnc = 1};
    if (sim_program_write(&p, &info, stats.macs, path, &err) < 0)
        fail_msg("%s", err.text);
    sim_program_free(p);
}

void fixture_open(struct fixture *f, const char *arch, const char *instance)
{
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/kymo-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->neff, sizeof f->neff, "%s/program.neff", f->dir);
    (void)snprintf(f->other, sizeof f->other, "%s/other.neff", f->dir);
    (void)snprintf(f->ntff, sizeof f->ntff, "%s/profile.ntff", f->dir);
    (void)snprintf(f->out, sizeof f->out, "%s/out", f->dir);
    make_neff(kymo_arch_find(arch), 1, f->neff);
    make_neff(kymo_arch_find(arch), 2, f->other);
    const char *argv[] = {"ntff",   "--neff", f->neff, "--output", f->ntff, "--instance",
                          instance, "--lnc",  "1",     "--dge",    "1",     NULL};
    assert_int_equal(sim_cmd_ntff_main(11, (char **)(size_t)argv), 0);
}

void fixture_close(struct fixture *f)
{
    assert_int_equal(kymo_file_remove_tree(f->dir, NULL), 0);
}

uint8_t *fixture_read(const char *path, size_t *ret_n)
{
    uint8_t *data;
    struct kymo_err err = {0};
    if (kymo_file_read_all(path, 1u << 30, &data, ret_n, &err) < 0)
        fail_msg("%s", err.text);
    return data;
}

void fixture_put(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

size_t fixture_count(const char *dir)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    (void)closedir(d);
    return n;
}

int fixture_warned(const struct warnings *w, const char *part)
{
    for (size_t i = 0; i < warnings_count(w); i++)
        if (strstr(warnings_text(w, i), part))
            return 1;
    return 0;
}
