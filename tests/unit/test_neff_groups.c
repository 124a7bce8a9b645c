/* What def.json says of collectives: layouts of replica groups in both shapes, and what is no such thing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "formats/neff/neff_writer.h"

static void add(struct neff_writer *w, const char *name, const char *text)
{
    struct kymo_err err = {0};
    assert_int_equal(neff_writer_add(w, name, text, strlen(text), &err), 0);
}

static struct neff *open_def(const char *def)
{
    struct neff_writer *w = neff_writer_new();
    struct neff_header header = {.pkg_version = 2, .header_size = NEFF_HEADER_SIZE, .version_major = 2, .lnc_size = 1};
    struct kymo_err err = {0};
    struct neff *n = NULL;
    char path[] = "/tmp/kymo-groups-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    add(w, "neff.json", "{\"nodes\":[{\"func_name\":\"__kelf\",\"attrs\":{\"kelf\":\"kelf-0.json\"}}]}");
    add(w, "kelf-0.json", "{\"target\":\"cayman\",\"graphs\":[{\"name\":\"sg00\",\"definition\":\"sg00/def.json\"}]}");
    add(w, "sg00/def.json", def);
    if (neff_writer_write(w, &header, path, &err) < 0 || neff_open(path, 0, &n, &err) < 0)
        fail_msg("%s", err.text);
    neff_writer_free(w);
    (void)unlink(path);
    assert_int_equal(neff_subgraph_count(n), 1);
    return n;
}

static void expect_ranks(const struct neff_replica_set *set, size_t count, const uint32_t *ranks)
{
    assert_int_equal(set->count, count);
    assert_memory_equal(set->ranks, ranks, count * sizeof *ranks);
}

static void test_several_layouts(void **state)
{
    (void)state;
    struct neff *n = open_def("{\"world-size\":4,\"cc_stream\":[{\"id\":0},{\"id\":1}],"
                              "\"replica_groups\":[[[0,1,2,3]],[[0,2],[1,3]]]}");
    const struct neff_subgraph *sg = neff_subgraph(n, 0);
    assert_int_equal(sg->world_size, 4);
    assert_int_equal(sg->stream_count, 2);
    assert_int_equal(sg->replica_layout_count, 2);
    assert_int_equal(sg->replica_layouts[0].count, 1);
    expect_ranks(&sg->replica_layouts[0].sets[0], 4, (const uint32_t[]){0, 1, 2, 3});
    assert_int_equal(sg->replica_layouts[1].count, 2);
    expect_ranks(&sg->replica_layouts[1].sets[1], 2, (const uint32_t[]){1, 3});
    neff_free(n);
}

static void test_one_layout_alone(void **state)
{
    (void)state;
    struct neff *n = open_def("{\"world-size\":2,\"replica_groups\":[[0],[1]]}");
    const struct neff_subgraph *sg = neff_subgraph(n, 0);
    assert_int_equal(sg->replica_layout_count, 1);
    assert_int_equal(sg->replica_layouts[0].count, 2);
    expect_ranks(&sg->replica_layouts[0].sets[1], 1, (const uint32_t[]){1});
    assert_int_equal(sg->stream_count, 0);
    neff_free(n);
}

static void test_nothing_said(void **state)
{
    (void)state;
    struct neff *n = open_def("{}");
    assert_int_equal(neff_subgraph(n, 0)->world_size, 0);
    assert_int_equal(neff_subgraph(n, 0)->replica_layout_count, 0);
    neff_free(n);
}

static bool has_note(const struct neff *n, const char *words)
{
    for (size_t i = 0; i < neff_note_count(n); i++)
        if (strstr(neff_note(n, i), words))
            return true;
    return false;
}

static void test_other_shapes_are_noted(void **state)
{
    (void)state;
    static const char *const shapes[] = {
        "7",         "[7]",       "[[[0,-1]]]",    "[[[0,4096]]]", "[[[0,\"x\"]]]", "[[0,[1]]]",
        "[[[0]],3]", "[[[0.5]]]", "{\"a\":[[0]]}", "[[[[0]]]]",    "[[0],null]",    "[[[0],{}]]",
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char def[128];
        (void)snprintf(def, sizeof def, "{\"world-size\":4,\"replica_groups\":%s}", shapes[i]);
        struct neff *n = open_def(def);
        assert_int_equal(neff_subgraph(n, 0)->replica_layout_count, 0);
        if (!has_note(n, "replica_groups"))
            fail_msg("%s is not noted", shapes[i]);
        neff_free(n);
    }
    struct neff *n = open_def("{\"world-size\":1000000}");
    assert_int_equal(neff_subgraph(n, 0)->world_size, 0);
    assert_true(has_note(n, "world-size"));
    neff_free(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_layouts),
        cmocka_unit_test(test_one_layout_alone),
        cmocka_unit_test(test_nothing_said),
        cmocka_unit_test(test_other_shapes_are_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
