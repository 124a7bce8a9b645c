/* What users keep: each his own, within limits, whatever the keys and values are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>
#include <sqlite3.h>

#include "collector/viewer_db.h"

static char folder[] = "/tmp/test_viewer_db.XXXXXX";
static char path[64];
static struct viewer_db *db;

static int set_up(void **state)
{
    struct kymo_err err = {0};
    (void)state;
    (void)snprintf(path, sizeof path, "%s/viewer.db", folder);
    (void)unlink(path);
    if (viewer_db_open(path, &db, &err) < 0)
        fail_msg("%s", err.text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    db = viewer_db_free(db);
    return unlink(path);
}

/* *ret: changed_ns. */
static int put(const char *user, enum viewer_kind kind, const char *key, const char *value, int64_t seen, int64_t *ret)
{
    struct kymo_err err = {0};
    json_t *v = json_loads(value, JSON_DECODE_ANY, NULL), *item = NULL;
    int r = viewer_db_put(db, user, kind, key, v, seen, &item, &err);
    if (r == 0) {
        assert_string_equal(json_string_value(json_object_get(item, "key")), key);
        assert_true(json_equal(json_object_get(item, "value"), v));
        if (ret)
            *ret = json_integer_value(json_object_get(item, "changed_ns"));
    }
    json_decref(v);
    json_decref(item);
    return r;
}

static size_t count(const char *user, enum viewer_kind kind)
{
    struct kymo_err err = {0};
    json_t *list = NULL;
    assert_int_equal(viewer_db_list(db, user, kind, &list, &err), 0);
    size_t n = json_array_size(list);
    json_decref(list);
    return n;
}

static void test_items(void **state)
{
    struct kymo_err err = {0};
    json_t *item = NULL;
    static const char marks[] = "[{\"id\":1,\"name\":\"a\",\"ts\":-5,\"versus\":null},{\"id\":2,\"name\":\"b\",\"ts\":"
                                "9007199254740991,\"versus\":1}]";
    (void)state;
    assert_int_equal(put("ann", VIEWER_annotations, "p", marks, -1, NULL), 0);
    assert_int_equal(put("bob", VIEWER_annotations, "p", "[]", -1, NULL), 0);
    assert_int_equal(
        put("ann", VIEWER_layouts, "p", "[{\"id\":\"a\",\"type\":\"t\",\"x\":0,\"y\":0,\"w\":1,\"h\":1}]", -1, NULL),
        0);
    assert_int_equal(put("ann", VIEWER_folders, "night runs", "[\"p\",\"q\"]", -1, NULL), 0);
    assert_int_equal(put("ann", VIEWER_favourites, "p", "true", -1, NULL), 0);
    assert_int_equal(count("ann", VIEWER_annotations), 1);
    assert_int_equal(count("ann", VIEWER_tags), 0);
    assert_int_equal(count("nobody", VIEWER_annotations), 0);
    assert_int_equal(viewer_db_get(db, "bob", VIEWER_layouts, "p", &item, &err), -ENOENT);
    assert_int_equal(viewer_db_delete(db, "bob", VIEWER_favourites, "p", &err), 0);
    assert_int_equal(viewer_db_delete(db, "ann", VIEWER_favourites, "p", &err), 1);
    assert_int_equal(viewer_db_delete(db, "ann", VIEWER_favourites, "p", &err), 0);
    /* What is kept is kept. */
    db = viewer_db_free(db);
    assert_int_equal(viewer_db_open(path, &db, &err), 0);
    assert_int_equal(viewer_db_get(db, "ann", VIEWER_annotations, "p", &item, &err), 0);
    assert_int_equal(json_array_size(json_object_get(item, "value")), 2);
    json_decref(item);
}

/* A browser reads a number as a double, and prints the fewest digits that mean this double. */
static void test_times_of_browsers(void **state)
{
    int64_t changed = 0, last = 0;
    (void)state;
    for (int i = 0; i < 200; i++) {
        char text[40];
        assert_int_equal(put("ann", VIEWER_folders, "f", "[]", last, &changed), 0);
        assert_true(changed > last && changed % 1000 == 0);
        for (int digits = 1; digits <= 17; digits++) {
            (void)snprintf(text, sizeof text, "%.*e", digits, (double)changed);
            if (strtod(text, NULL) == (double)changed)
                break;
        }
        last = (int64_t)strtold(text, NULL);
        assert_int_equal(last, changed);
    }
    assert_int_equal(put("ann", VIEWER_folders, "f", "[]", last - 1000, &changed), -EEXIST);
}

static void test_seen(void **state)
{
    int64_t first, second, third;
    (void)state;
    assert_int_equal(put("ann", VIEWER_annotations, "p", "[]", 17, NULL), -EEXIST);
    assert_int_equal(put("ann", VIEWER_annotations, "p", "[]", 0, &first), 0);
    assert_int_equal(put("ann", VIEWER_annotations, "p", "[]", 0, NULL), -EEXIST);
    assert_int_equal(put("ann", VIEWER_annotations, "p", "[]", first, &second), 0);
    assert_true(second > first);
    assert_int_equal(put("ann", VIEWER_annotations, "p", "[]", first, NULL), -EEXIST);
    assert_int_equal(put("ann", VIEWER_annotations, "p", "[]", -1, &third), 0);
    assert_true(third > second);
}

static void test_values(void **state)
{
    static const struct {
        enum viewer_kind kind;
        const char *value;
    } bad[] = {
        {VIEWER_annotations, "{}"},
        {VIEWER_annotations, "null"},
        {VIEWER_annotations, "[1]"},
        {VIEWER_annotations, "[{\"id\":1,\"name\":\"a\",\"ts\":1}]"},
        {VIEWER_annotations, "[{\"id\":1,\"name\":\"a\",\"ts\":1.5,\"versus\":null}]"},
        {VIEWER_annotations, "[{\"id\":1,\"name\":\"a\",\"ts\":9007199254740992,\"versus\":null}]"},
        {VIEWER_annotations, "[{\"id\":1,\"name\":7,\"ts\":1,\"versus\":null}]"},
        {VIEWER_annotations, "[{\"id\":1,\"name\":\"a\",\"ts\":1,\"versus\":\"x\"}]"},
        {VIEWER_annotations, "[{\"id\":1,\"name\":\"a\",\"ts\":1,\"versus\":null,\"more\":1}]"},
        {VIEWER_layouts, "[[]]"},
        {VIEWER_layouts, "[{\"id\":null,\"type\":\"t\",\"x\":0,\"y\":0,\"w\":1,\"h\":1}]"},
        {VIEWER_favourites, "false"},
        {VIEWER_recents, "[]"},
        {VIEWER_folders, "true"},
        {VIEWER_folders, "[\"\"]"},
        {VIEWER_folders, "[\"a\\u0000b\"]"},
        {VIEWER_tags, "[{}]"},
        {VIEWER_tags, "[\"a\\nb\"]"},
    };
    char longest[VIEWER_DB_KEY_MAX + 2];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(put("ann", bad[i].kind, "k", bad[i].value, -1, NULL), -EINVAL);
    memset(longest, 'k', sizeof longest);
    longest[VIEWER_DB_KEY_MAX + 1] = '\0';
    assert_int_equal(put("ann", VIEWER_favourites, longest, "true", -1, NULL), -EINVAL);
    longest[VIEWER_DB_KEY_MAX] = '\0';
    assert_int_equal(put("ann", VIEWER_favourites, longest, "true", -1, NULL), 0);
    assert_int_equal(put("ann", VIEWER_favourites, "", "true", -1, NULL), -EINVAL);
    assert_int_equal(put("ann", VIEWER_favourites, "a\tb", "true", -1, NULL), -EINVAL);
}

static void test_hostile(void **state)
{
    static const char *const keys[] = {"'; DROP TABLE items; --", "\" OR 1=1", "%",
                                       "../../etc/passwd",        "<script>",  "ключ"};
    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        assert_int_equal(put(keys[i], VIEWER_tags, keys[i], "[\"'; DROP TABLE items; --\"]", -1, NULL), 0);
        assert_int_equal(count(keys[i], VIEWER_tags), 1);
    }
}

static void test_limits(void **state)
{
    struct kymo_err err = {0};
    char key[32];
    json_t *list = NULL;
    (void)state;
    for (int i = 0; i < 120; i++) {
        (void)snprintf(key, sizeof key, "layout %d", i);
        assert_int_equal(put("ann", VIEWER_layouts, key, "[]", -1, NULL), i < 100 ? 0 : -ENOSPC);
        assert_int_equal(put("ann", VIEWER_recents, key, "true", -1, NULL), 0);
    }
    assert_int_equal(put("ann", VIEWER_layouts, "layout 7", "[]", -1, NULL), 0);
    /* Of recents the newest stay, the newest first. */
    assert_int_equal(viewer_db_list(db, "ann", VIEWER_recents, &list, &err), 0);
    assert_int_equal(json_array_size(list), 50);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "key")), "layout 119");
    json_decref(list);
}

static void test_room(void **state)
{
    struct kymo_err err = {0};
    json_t *names = json_array(), *item = NULL;
    char text[256];
    int r = 0;
    size_t n = 0;
    (void)state;
    for (int i = 0; i < 250; i++) {
        (void)snprintf(text, sizeof text, "%0200d", i);
        assert_int_equal(json_array_append_new(names, json_string(text)), 0);
    }
    for (; n < 200 && r == 0; n++) {
        (void)snprintf(text, sizeof text, "folder %zu", n);
        r = viewer_db_put(db, "ann", VIEWER_folders, text, names, -1, &item, &err);
        if (r == 0)
            json_decref(item);
    }
    assert_int_equal(r, -ENOSPC);
    assert_int_equal(n - 1, VIEWER_DB_USER_MAX / 50762);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(text, sizeof text, "%0200d", i);
        assert_int_equal(json_array_append_new(names, json_string(text)), 0);
    }
    assert_int_equal(viewer_db_put(db, "bob", VIEWER_folders, "f", names, -1, &item, &err), -E2BIG);
    json_decref(names);
}

static void test_files(void **state)
{
    struct kymo_err err = {0};
    struct viewer_db *other = NULL;
    sqlite3 *raw = NULL;
    (void)state;
    db = viewer_db_free(db);
    assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
    assert_int_equal(sqlite3_exec(raw, "PRAGMA user_version=9", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(raw), SQLITE_OK);
    assert_int_equal(viewer_db_open(path, &other, &err), -ENOTSUP);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs("this is a text of some length and no database at all, so that it is refused", f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(viewer_db_open(path, &other, &err), -EBADMSG);
    assert_int_equal(viewer_db_open("/nowhere/at/all/viewer.db", &other, &err), -ENOENT);
    assert_null(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_items, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_times_of_browsers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hostile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files, set_up, tear_down),
    };
    if (!mkdtemp(folder))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)rmdir(folder);
    return failed;
}
