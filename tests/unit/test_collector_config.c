/* Settings: the page that documents them says what the table says, and wrong ones are refused with a reason. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/collector_config.h"

#define PAGE "collector/CONFIG.md"

static void page_and_table_agree(void **state)
{
    (void)state;
    uint8_t *data KYMO_FREE = NULL;
    size_t n, rows = 0, found = 0;
    assert_int_equal(kymo_file_read_all(PAGE, 1 << 20, &data, &n, NULL), 0);
    for (const struct kymo_option *row = collector_ini.options->rows; row->name; row++, rows++) {
        char line[512];
        (void)snprintf(line, sizeof line, "\n| `%s` | %s | %s | %s |\n", row->name, row->def ? row->def : "",
                       collector_reloads(row->name) ? "yes" : "", row->help);
        if (!strstr((const char *)data, line))
            fail_msg("%s lacks the line:%s", PAGE, line);
    }
    for (const char *p = (const char *)data; (p = strstr(p, "\n| `")); p++)
        found++;
    assert_int_equal(found, rows);
}

static int load(struct collector_settings **ret, struct kymo_err *err, ...)
{
    char *argv[16] = {(char *)(size_t) "kymo-collector"};
    int argc = 1;
    va_list args;
    va_start(args, err);
    while ((argv[argc] = va_arg(args, char *)))
        argc++;
    va_end(args);
    return collector_settings_load(argc, argv, ret, err);
}

#define LOAD(...) load(&s, &err, __VA_ARGS__, (char *)NULL)

static void assert_refused(int code, const struct kymo_err *err, const char *text)
{
    assert_int_equal(code, -EINVAL);
    if (!strstr(err->text, text))
        fail_msg("\"%s\" does not say \"%s\"", err->text, text);
}

static void refuses_what_contradicts(void **state)
{
    (void)state;
    struct collector_settings *s = NULL;
    struct kymo_err err = {0};
    assert_refused(LOAD("--jobs", "2"), &err, "data-path is needed");
    assert_refused(LOAD("--data-path", "d", "--jobs", "0"), &err, "jobs");
    assert_refused(LOAD("--data-path", "d", "--tls-cert", "c", "--tls-key", "k"), &err, "tls-ca is missing");
    assert_refused(LOAD("--data-path", "d", "--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a", "--plain"), &err,
                   "plain contradicts");
    assert_refused(LOAD("--data-path", "d", "--http-cert", "c"), &err, "http-cert and http-key");
    assert_refused(LOAD("--data-path", "d", "--processor", "sh {nothing}"), &err, "nothing");
    char file[] = "/tmp/kymo-config-XXXXXX";
    static const char *const texts[][2] = {{"jobs = 2\nlisten = here\n", ":2: listen: "},
                                           {"http = 3001\n", ":1: http: "},
                                           {"processor = sh {ntff\n", ":1: processor: "}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        (void)snprintf(file, sizeof file, "/tmp/kymo-config-XXXXXX");
        int fd = mkstemp(file);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, texts[i][0], strlen(texts[i][0])), strlen(texts[i][0]));
        assert_int_equal(close(fd), 0);
        assert_refused(LOAD("--config", file), &err, texts[i][1]);
        assert_int_equal(unlink(file), 0);
    }
    assert_null(s);
}

static void note_key(void *ctx, const char *key)
{
    char *keys = ctx;
    (void)snprintf(keys + strlen(keys), 200 - strlen(keys), "%s ", key);
}

static void tells_what_changes(void **state)
{
    (void)state;
    struct collector_settings *a, *b, *s = NULL;
    struct kymo_err err = {0};
    char keys[200] = "";
    char file[] = "/tmp/kymo-config-XXXXXX";
    static const char text[] = "data-path = d\nlisten = 127.0.0.1:1\njobs = 3\nprocessor = sh -o {output} {ntff}\n"
                               "http-name = a.example\n";
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    assert_int_equal(close(fd), 0);
    assert_int_equal(LOAD("--data-path", "d"), KYMO_OPTIONS_PARSED);
    a = s;
    assert_int_equal(LOAD("--config", file, "--window", "8M"), KYMO_OPTIONS_PARSED);
    b = s;
    collector_settings_compare(a, b, note_key, keys);
    /* Those of the work queue take effect at once. */
    assert_string_equal(keys, "config listen http-name window ");
    struct work_queue_config w = collector_settings_work(b, "/bin/true", NULL);
    assert_int_equal(w.children, 3);
    assert_string_equal(w.external->command, "sh -o {output} {ntff}");
    assert_null(collector_settings_work(a, "/bin/true", NULL).external);
    keys[0] = '\0';
    collector_settings_compare(a, a, note_key, keys);
    assert_string_equal(keys, "");
    collector_settings_free(a);
    collector_settings_free(b);
    assert_int_equal(unlink(file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_and_table_agree),
        cmocka_unit_test(refuses_what_contradicts),
        cmocka_unit_test(tells_what_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
