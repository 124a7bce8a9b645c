/* NKI kernels, stack frames and attributes of a NEFF, whole and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "formats/neff/neff.h"
#include "tests/unit/neff_sample.h"

static char path[64];

static const char *const index_text = "{\"kernels\":[{\"name\":\"k\",\"file\":\"k.json\"}]}";
static const char *const kernel_text =
    "{\"stack_frames\":[{\"id\":7,\"function\":\"m.outer\",\"file\":\"/k.py\",\"line\":17},"
    "{\"id\":9,\"function\":\"m.inner\",\"parent\":7,\"file\":\"/k.py\",\"line\":30}],"
    "\"iteration_variables\":[{\"id\":2,\"name\":\"j\",\"value\":3,\"parent\":1},{\"id\":1,\"name\":\"i\",\"value\":-4}"
    "],"
    "\"regions\":[{\"id\":1,\"name\":\"load\",\"parent\":2},{\"id\":2,\"name\":\"all\"}],"
    "\"instructions\":[{\"name\":\"I-10:20\",\"stack_frame\":9,\"iteration_variable\":2,\"region\":1,\"file\":\"/"
    "k.py\","
    "\"line\":31},{\"name\":\"other:1\"},{\"line\":5}]}";

static struct neff *open_with(enum neff_sample_debug debug, const char *folder, const char *index, const char *kernel)
{
    struct kymo_err err = {0};
    struct neff_header h = neff_sample_header(2);
    struct neff_writer *w KYMO_CLEANUP(neff_writer_freep) = neff_writer_new();
    char name[64];
    assert_int_equal(neff_sample_fill(w, debug, &err), 0);
    (void)snprintf(name, sizeof name, "%skernel_debug_info.json", folder);
    assert_int_equal(neff_writer_add(w, name, index, strlen(index), &err), 0);
    (void)snprintf(name, sizeof name, "%sk.json", folder);
    if (kernel)
        assert_int_equal(neff_writer_add(w, name, kernel, strlen(kernel), &err), 0);
    assert_int_equal(neff_writer_write(w, &h, path, &err), 0);
    struct neff *n = NULL;
    assert_int_equal(neff_open(path, 0, &n, &err), 0);
    return n;
}

static int has_note(const struct neff *n, const char *part)
{
    for (size_t i = 0; i < neff_note_count(n); i++)
        if (strstr(neff_note(n, i), part))
            return 1;
    return 0;
}

static void check_kernel(const struct neff *n)
{
    const struct neff_subgraph *sg = neff_subgraph(n, 0);
    const struct neff_kernels *k = neff_kernels_of(n, sg);
    assert_non_null(k);
    assert_int_equal(k->instruction_count, 2); /* the third has no name */
    const struct neff_debug *d = neff_debug_of(n, sg, KYMO_ENGINE_TENSOR, 0);
    assert_string_equal(d->kernel_name, "I-10:20");
    assert_string_equal(d->kernel->file, "/k.py");
    assert_int_equal(d->kernel->line, 31);
    const struct neff_kernel_scope *frame = &k->frames[d->kernel->frame - 1];
    assert_string_equal(frame->name, "m.inner");
    assert_int_equal(frame->depth, 2);
    assert_string_equal(k->frames[frame->parent - 1].name, "m.outer");
    const struct neff_kernel_scope *variable = &k->variables[d->kernel->variable - 1];
    assert_string_equal(variable->name, "j");
    assert_int_equal(variable->value, 3);
    assert_int_equal(k->variables[variable->parent - 1].value, -4); /* a parent that stands behind its child */
    const struct neff_kernel_scope *region = &k->regions[d->kernel->region - 1];
    assert_string_equal(region->name, "load");
    assert_string_equal(k->regions[region->parent - 1].name, "all");
    assert_null(neff_debug_of(n, sg, KYMO_ENGINE_TENSOR, 2)->kernel_name); /* without a penguin parent: no key */
}

static void test_kernel(void **state)
{
    (void)state;
    static const char *const folders[] = {"sg00/", ""};
    for (size_t i = 0; i < 2; i++) {
        struct neff *n = open_with(NEFF_SAMPLE_FLAT, folders[i], index_text, kernel_text);
        check_kernel(n);
        n = neff_free(n);
    }
}

/* What is broken is told with member, byte and cause, and costs only itself. */
static void test_damaged_kernel(void **state)
{
    (void)state;
    static const struct {
        const char *index, *kernel, *note;
        int instructions; /* -1: no kernels */
    } cases[] = {
        {"{\"kernels\":", NULL, "kernel_debug_info.json\": byte", 0},
        {"[]", NULL, "it is no object", 0},
        {"{\"kernels\":[{\"name\":\"k\"}]}", NULL, "kernel 0 is not in the archive", 0},
        {"{\"kernels\":[{\"file\":\"gone.json\"},{\"file\":\"k.json\"}]}", "{\"instructions\":[{\"name\":\"a\"}]}",
         "kernel 0 is not in the archive", 1},
        {"{\"kernels\":[{\"file\":\"k.json\"}]}", "{\"instructions\":[{\"name\":\"a\"}", "k.json\": byte", 0},
        {"{\"kernels\":[{\"file\":\"k.json\"}]}", "{\"regions\":[{\"name\":\"a\"}]}",
         "entry 0 of \"regions\" has no id", 0},
        {"{\"kernels\":[{\"file\":\"k.json\"}]}",
         "{\"stack_frames\":[{\"id\":1,\"parent\":2},{\"id\":2,\"parent\":1}],\"instructions\":[{\"name\":\"a\","
         "\"stack_frame\":2}]}",
         "in a circle", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct neff *n = open_with(NEFF_SAMPLE_FLAT, "sg00/", cases[i].index, cases[i].kernel);
        assert_true(has_note(n, cases[i].note));
        const struct neff_kernels *k = neff_kernels_of(n, neff_subgraph(n, 0));
        assert_int_equal(k->instruction_count, cases[i].instructions);
        assert_non_null(neff_debug_of(n, neff_subgraph(n, 0), KYMO_ENGINE_TENSOR, 0));
        n = neff_free(n);
    }
}

static void test_layers(void **state)
{
    (void)state;
    static const enum neff_sample_debug layouts[] = {NEFF_SAMPLE_FLAT, NEFF_SAMPLE_FOLDER};
    for (size_t i = 0; i < 2; i++) {
        struct neff *n = open_with(layouts[i], "sg00/", index_text, NULL);
        const struct neff_debug *d = neff_debug_of(n, neff_subgraph(n, 0), KYMO_ENGINE_TENSOR, 0);
        assert_int_equal(d->penguin->id, 20);
        assert_ptr_equal(d->penguin->parent, d->hlo);
        assert_ptr_equal(d->hlo->parent, d->framework);
        assert_string_equal(d->framework->name, "Model/Layer[0]");
        assert_null(d->framework->parent);
        assert_int_equal(d->frame_count, 0);
        d = neff_debug_of(n, neff_subgraph(n, 0), KYMO_ENGINE_TENSOR, 2);
        const struct neff_frames *f = neff_get_frames(n);
        assert_int_equal(f->frame_count, 1);
        assert_int_equal(d->frame_count, 1);
        assert_int_equal(d->frames[0], 1);
        const struct neff_location *at = &f->locations[f->frames[0].location - 1];
        assert_string_equal(f->files[at->file - 1], "kernel.py");
        assert_int_equal(at->line, 7);
        assert_int_equal(at->function, 0); /* the index names none */
        n = neff_free(n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel),
        cmocka_unit_test(test_damaged_kernel),
        cmocka_unit_test(test_layers),
    };
    (void)snprintf(path, sizeof path, "/tmp/test_neff_kernel-%d.neff", (int)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    return failed;
}
