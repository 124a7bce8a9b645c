/* Manifests from others: what is refused, and the names of profiles. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "proto/manifest_check.h"

static void knows_ids(void **state)
{
    (void)state;
    char long_id[MANIFEST_ID_MAX + 2];
    memset(long_id, 'a', sizeof long_id);
    long_id[MANIFEST_ID_MAX] = '\0';
    assert_true(manifest_is_id("a-1_b.C"));
    assert_true(manifest_is_id(long_id));
    long_id[MANIFEST_ID_MAX] = 'a';
    long_id[MANIFEST_ID_MAX + 1] = '\0';
    const char *const bad[] = {NULL, "", ".", "..", ".x", "a/b", "a b", "\xc3\xa4", long_id};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(manifest_is_id(bad[i]));
}

static void knows_file_names(void **state)
{
    (void)state;
    const char *const good[] = {"a", "a/b/c.ntff", "..a", "a..", "a b", "\xc3\xa4"};
    const char *const bad[] = {NULL, "", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/./b", "a\nb"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(manifest_is_file_name(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(manifest_is_file_name(bad[i]));

    char deep[2 * (MANIFEST_NAME_PARTS_MAX + 1)];
    for (size_t i = 0; i < sizeof deep; i++)
        deep[i] = i % 2 ? '/' : 'd';
    deep[sizeof deep - 1] = 0;
    assert_false(manifest_is_file_name(deep));
    deep[sizeof deep - 3] = 0;
    assert_true(manifest_is_file_name(deep));
}

#define FILES 4

struct sample {
    Kymo__Manifest__Capture m;
    Kymo__Manifest__File files[FILES], *list[FILES];
    uint8_t sha[32];
    ProtobufCBinaryData uuids[FILES];
};

static void sample_init(struct sample *s)
{
    static const char *const names[] = {"a.ntff", "b.ntff", "c/d.ntff", "p.neff"};
    *s = (struct sample){.m = KYMO__MANIFEST__CAPTURE__INIT, .sha = {1, 2, 3, 4, 5, 6, 7, 8}};
    s->m.has_version = 1;
    s->m.version = 1;
    s->m.capture_id = (char *)(size_t) "cap-1";
    s->m.job = (char *)(size_t) "train";
    s->m.host = (char *)(size_t) "h1";
    s->m.n_files = FILES;
    s->m.files = s->list;
    for (unsigned i = 0; i < FILES; i++) {
        kymo__manifest__file__init(&s->files[i]);
        s->files[i].name = (char *)(size_t)names[i];
        s->files[i].has_type = s->files[i].has_size = s->files[i].has_sha256 = s->files[i].has_vnc = 1;
        s->files[i].type = i == 3 ? KYMO__MANIFEST__FILE__KIND__NEFF : KYMO__MANIFEST__FILE__KIND__NTFF;
        s->files[i].size = 10;
        s->files[i].vnc = i;
        s->files[i].sha256 = (ProtobufCBinaryData){.len = 32, .data = s->sha};
        s->list[i] = &s->files[i];
    }
}

static int parse(const struct sample *s, struct kymo_err *err)
{
    Kymo__Manifest__Capture *m = NULL;
    size_t n = kymo__manifest__capture__get_packed_size(&s->m);
    uint8_t *data KYMO_FREE = kymo_malloc(n + 1);
    assert_non_null(data);
    (void)kymo__manifest__capture__pack(&s->m, data);
    int r = manifest_parse(data, n, &m, err);
    manifest_freep(&m);
    return r;
}

static void refuse(const struct sample *s, const char *why)
{
    struct kymo_err err = {0};
    assert_int_equal(parse(s, &err), -EPROTO);
    if (!strstr(err.text, why))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

static void refuses_what_the_rest_could_not_rely_on(void **state)
{
    (void)state;
    struct sample s;
    char long_text[MANIFEST_TEXT_MAX + 2];
    memset(long_text, 'x', sizeof long_text);
    long_text[MANIFEST_TEXT_MAX + 1] = '\0';
    sample_init(&s);
    assert_int_equal(parse(&s, NULL), 0);
    s.m.version = 2;
    refuse(&s, "version 2");
    sample_init(&s);
    s.m.capture_id = (char *)(size_t) "../x";
    refuse(&s, "capture id");
    sample_init(&s);
    s.files[1].name = (char *)(size_t) "a.ntff";
    refuse(&s, "two files are named a.ntff");
    sample_init(&s);
    s.files[1].name = (char *)(size_t) "c/d.ntff/e";
    refuse(&s, "a file and a folder");
    sample_init(&s);
    s.files[2].name = (char *)(size_t) "manifest.pb";
    refuse(&s, "unsafe name");
    sample_init(&s);
    s.files[2].name = (char *)(size_t) "manifest.pb/x";
    refuse(&s, "unsafe name");
    sample_init(&s);
    s.files[2].name = (char *)(size_t) "../../etc/passwd";
    refuse(&s, "unsafe name");
    sample_init(&s);
    s.files[0].has_size = 0;
    refuse(&s, "no size");
    sample_init(&s);
    s.files[0].size = UINT64_MAX;
    refuse(&s, "no size");
    sample_init(&s);
    s.files[0].sha256.len = 31;
    refuse(&s, "no SHA-256");
    sample_init(&s);
    s.m.job = long_text;
    refuse(&s, "longer than");
    sample_init(&s);
    s.m.request = (char *)(size_t) "c-18f/..";
    refuse(&s, "request id");
    s.m.request = (char *)(size_t) "c-18f";
    assert_int_equal(parse(&s, NULL), 0);
    struct kymo_err err = {0};
    assert_int_equal(manifest_parse("", 0, &(Kymo__Manifest__Capture *){NULL}, &err), -EPROTO);
    assert_non_null(strstr(err.text, "no bytes"));
    /* Version 1 and the job "a", a NUL, "b". */
    assert_int_equal(manifest_parse("\x08\x01\x1a\x03\x61\x00\x62", 7, &(Kymo__Manifest__Capture *){NULL}, &err),
                     -EPROTO);
    assert_non_null(strstr(err.text, "holds a NUL"));
    assert_int_equal(manifest_parse("\xff\xff", 2, &(Kymo__Manifest__Capture *){NULL}, NULL), -EPROTO);
}

static void assert_name(const struct sample *s, size_t i, const char *expected)
{
    char name[MANIFEST_PROFILE_NAME_MAX + 1];
    manifest_file_profile_name(&s->m, i, name);
    assert_string_equal(name, expected);
}

static void names_profiles(void **state)
{
    (void)state;
    struct sample s;
    uint8_t uuid[2][16] = {{0xaa, 1}, {0xbb, 2}};
    sample_init(&s);
    assert_name(&s, 0, "train-h1-r0-cap-1-nc0");
    s.m.has_rank = 1;
    s.m.rank = 17;
    s.m.job = (char *)(size_t) "my job/7";
    assert_name(&s, 1, "my_job_7-h1-r17-cap-1-nc1");
    s.files[1].vnc = 0;
    assert_name(&s, 0, "my_job_7-h1-r17-cap-1-nc0-f0");
    for (unsigned i = 0; i < 2; i++) {
        s.uuids[i] = (ProtobufCBinaryData){.len = 16, .data = uuid[i]};
        s.files[i].neff_uuid = &s.uuids[i];
        s.files[i].n_neff_uuid = 1;
    }
    assert_name(&s, 0, "my_job_7-h1-r17-cap-1-nc0-aa01000000000000");
    assert_name(&s, 1, "my_job_7-h1-r17-cap-1-nc0-bb02000000000000");
    uuid[1][0] = 0xaa;
    uuid[1][1] = 1;
    assert_name(&s, 1, "my_job_7-h1-r17-cap-1-nc0-aa01000000000000-f1");
    /* An empty profile gets no name that another has to give way to. */
    s.files[0].size = 0;
    assert_name(&s, 1, "my_job_7-h1-r17-cap-1-nc0");
    /* A system trace is of no core, and of one session among several by its place. */
    s.files[1].type = KYMO__MANIFEST__FILE__KIND__NTRACE;
    assert_true(manifest_file_is_profile(&s.files[1]));
    assert_name(&s, 1, "my_job_7-h1-r17-cap-1-system");
    s.files[0].size = 1;
    s.files[0].type = KYMO__MANIFEST__FILE__KIND__NTRACE;
    assert_name(&s, 1, "my_job_7-h1-r17-cap-1-system-f1");
    s.files[0].type = KYMO__MANIFEST__FILE__KIND__CPU_UTIL;
    assert_false(manifest_file_is_profile(&s.files[0]));
}

static void never_cuts_what_tells_profiles_apart(void **state)
{
    (void)state;
    char job[400], name[MANIFEST_PROFILE_NAME_MAX + 1];
    memset(job, 'j', sizeof job);
    job[sizeof job - 1] = '\0';
    struct manifest_profile p = {
        .job = job, .host = job, .id = "cap", .rank = 12, .vnc = 345, .neff = "0123456789abcdef"};
    manifest_profile_name(&p, name);
    assert_int_equal(strlen(name), MANIFEST_PROFILE_NAME_MAX);
    assert_non_null(strstr(name, "-r12-cap-nc345-0123456789abcdef"));
    manifest_profile_name(&(struct manifest_profile){0}, name);
    assert_string_equal(name, "job-host-r0-capture-nc0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_ids),
        cmocka_unit_test(knows_file_names),
        cmocka_unit_test(refuses_what_the_rest_could_not_rely_on),
        cmocka_unit_test(names_profiles),
        cmocka_unit_test(never_cuts_what_tells_profiles_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
