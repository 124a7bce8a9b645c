/* Where statements begin and end in a text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collector/query/query_text.h"

static void test_find(void **state)
{
    static const struct {
        const char *sql, *wanted;
        bool more;
    } rows[] = {
        {"SELECT 1", "SELECT 1", false},
        {" ;; -- a ; b\n /* ; /* nested ; */ ; */ SELECT 1 ;; -- end", "SELECT 1", false},
        {"SELECT 1; SELECT 2", "SELECT 1", true},
        {"SELECT ';', \"a;b\", 'it''s;', E'\\';', $$;$$, $x$ $$;$y$ $x$ ;",
         "SELECT ';', \"a;b\", 'it''s;', E'\\';', $$;$$, $x$ $$;$y$ $x$", false},
        {"SELECT '\\'; SELECT 2", "SELECT '\\'", true},
        {"SELECT namee'x;y'; z", "SELECT namee'x;y'", true},
        {"SELECT $1; SELECT a$b$c", "SELECT $1", true},
        {"SELECT a$b$c; SELECT d$b$e", "SELECT a$b$c", true},
        {"SELECT 1 -- why; not\n + 2 /* ; */ ;", "SELECT 1 -- why; not\n + 2", false},
        {"SELECT 'open ; ", "SELECT 'open ; ", false},
        {"SELECT \"open ; ", "SELECT \"open ; ", false},
        {"SELECT $a$ open ; ", "SELECT $a$ open ; ", false},
        {"SELECT 1 /* open ; ", "SELECT 1", false},
        {"SELECT 4 - 2 / 1; ", "SELECT 4 - 2 / 1", false},
        {"", "", false},
        {" ; -- nothing", "", false},
        {"E", "E", false},
        {"$", "$", false},
        {"/", "/", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct query_text t = query_text_find(rows[i].sql);
        assert_int_equal(t.n, strlen(rows[i].wanted));
        assert_memory_equal(t.at, rows[i].wanted, t.n);
        assert_int_equal(t.more, rows[i].more);
    }
}

static void test_words(void **state)
{
    const struct query_text t = query_text_find("; /* x */ Pragma a, 'pivot', \"pivot\", -- pivot\n un_pivot; PIVOT");
    const struct query_text with = query_text_find("SELECT * FROM (pivot x ON y)"), none = query_text_find(";");
    (void)state;
    assert_true(query_text_begins(&t, "PRAGMA"));
    assert_false(query_text_begins(&t, "PRAG"));
    assert_false(query_text_begins(&t, "PRAGMAS"));
    assert_false(query_text_has(&t, "PIVOT"));
    assert_true(query_text_has(&with, "PIVOT"));
    assert_false(query_text_begins(&none, "PRAGMA"));
    assert_false(query_text_has(&none, "PRAGMA"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_find), cmocka_unit_test(test_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
