#include "base/hash.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"

static void check_sha256(const char *text, const char *expected)
{
    uint8_t digest[KYMO_SHA256_SIZE];
    char hex[2 * KYMO_SHA256_SIZE + 1];
    assert_int_equal(kymo_hash_sha256(text, strlen(text), digest), 0);
    kymo_hash_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, expected);
}

static void check_md5(const char *text, const char *expected)
{
    uint8_t digest[KYMO_MD5_SIZE];
    char hex[2 * KYMO_MD5_SIZE + 1];
    assert_int_equal(kymo_hash_md5(text, strlen(text), digest), 0);
    kymo_hash_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, expected);
}

static void test_known_values(void **state)
{
    (void)state;
    check_sha256("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sha256("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_md5("", "d41d8cd98f00b204e9800998ecf8427e");
    check_md5("abc", "900150983cd24fb0d6963f7d28e17f72");
}

static void test_file(void **state)
{
    (void)state;
    char path[] = "/tmp/kymo-test-hash-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    /* Longer than one step of the reader and no multiple of it. */
    const size_t n = ((size_t)600 << 10) + 7;
    uint8_t *data = kymo_malloc(n);
    assert_non_null(data);
    for (size_t i = 0; i < n; i++)
        data[i] = (uint8_t)(i * 31 >> 3);
    assert_int_equal(kymo_file_pwrite_all(fd, data, n, 0, path, NULL), 0);
    kymo_file_close(fd);
    uint8_t whole[KYMO_SHA256_SIZE];
    uint8_t streamed[KYMO_SHA256_SIZE];
    assert_int_equal(kymo_hash_sha256(data, n, whole), 0);
    assert_int_equal(kymo_hash_sha256_file(path, streamed, NULL), 0);
    assert_memory_equal(whole, streamed, sizeof whole);
    (void)unlink(path);
    kymo_free(data);

    struct kymo_err err = {0};
    assert_int_equal(kymo_hash_sha256_file(path, streamed, &err), -ENOENT);
    assert_non_null(strstr(err.text, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
