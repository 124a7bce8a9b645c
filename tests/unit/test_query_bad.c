/* The list of tables that cannot be read. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collector/query/query_bad.h"

static void test_list(void **state)
{
    (void)state;
    struct query_bad bad = {0};
    assert_null(query_bad_why(NULL, "CcOp", 4));
    assert_null(query_bad_why(&bad, "CcOp", 4));
    assert_null(query_bad_take(&bad, "CcOp"));
    assert_int_equal(query_bad_add(&bad, "CcOpX", 4, "first", NULL), 0);
    assert_int_equal(query_bad_add(&bad, "Flow", 4, "second", NULL), 0);
    assert_int_equal(query_bad_add(&bad, "Summary", 7, "third", NULL), 0);
    assert_string_equal(query_bad_why(&bad, "ccop", 4), "first");
    assert_null(query_bad_why(&bad, "CcOpX", 5));
    assert_null(query_bad_why(&bad, "CcO", 3));
    char *why = query_bad_take(&bad, "FLOW");
    assert_string_equal(why, "second");
    kymo_free(why);
    assert_int_equal(bad.n, 2);
    assert_null(query_bad_why(&bad, "Flow", 4));
    assert_string_equal(query_bad_why(&bad, "Summary", 7), "third");
    query_bad_done(&bad);
    assert_int_equal(bad.n, 0);
}

/* A list is what it was, or has the table; nothing is lost. */
static void test_without_memory(void **state)
{
    (void)state;
    struct query_bad bad = {0};
    for (long n = 0; n < 3; n++) {
        struct kymo_err err = {0};
        kymo_alloc_fail_after(n);
        assert_int_equal(query_bad_add(&bad, "CcOp", 4, "why", &err), -ENOMEM);
        kymo_alloc_fail_after(-1);
        assert_non_null(err.text[0] ? err.text : NULL);
        assert_int_equal(bad.n, 0);
        query_bad_done(&bad);
    }
    assert_int_equal(query_bad_add(&bad, "CcOp", 4, "why", NULL), 0);
    assert_int_equal(bad.n, 1);
    query_bad_done(&bad);
}

static void test_line(void **state)
{
    (void)state;
    struct kymo_err why = {.code = -EINVAL,
                           .text = "IO Error: \"/proc/self/fd/12/CcOp.parquet\" is short\nLINE 1: SELECT"};
    query_bad_say("CcOp.parquet", &why);
    assert_int_equal(why.code, -EBADMSG);
    assert_string_equal(why.text, "CcOp.parquet: cannot be read: IO Error: \"CcOp.parquet\" is short");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
