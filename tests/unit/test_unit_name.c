/* Units, containers and pods of processes: control groups as the usual managers name them, and hostile ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/unit_name.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define UID "01234567-89ab-cdef-0123-456789abcdef"
#define UID_ "01234567_89ab_cdef_0123_456789abcdef"

static void test_paths(void **state)
{
    (void)state;
    static const struct {
        const char *path, *container, *pod;
    } cases[] = {
        {"", "", ""},
        {"/", "", ""},
        {"/system.slice/train.service", "", ""},
        {"/system.slice/docker-" ID ".scope", ID, ""},
        {"/docker/" ID, ID, ""},
        {"/ecs/0a1b2c/" ID, ID, ""},
        {"/machine.slice/libpod-" ID ".scope/container", ID, ""},
        {"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope", ID, ""},
        {"/kubepods/burstable/pod" UID "/" ID, ID, UID},
        {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope",
         ID, UID},
        {"/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope", ID, UID},
        {"/system.slice/kubepods-besteffort-pod" UID_ ".slice:cri-containerd:" ID, ID, UID},
        /* The outermost one: what lies within a container is named by it. */
        {"/docker/" ID "/system.slice/docker-" OTHER ".scope/kubepods/pod" UID, ID, ""},
        {"/docker/" ID "0", "", ""},
        {"/docker/x" ID, "", ""},
        {"/podman/pod01234567-89ab-cdef-0123-456789abcde/x", "", ""},
        {"/pod01234567-89ab-cdef-0123x456789abcdef", "", ""},
        {"pod", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct unit_name found = {.unit = "kept", .container = "stale", .pod = "stale"};
        unit_name_read_path(cases[i].path, &found);
        assert_string_equal(found.container, cases[i].container);
        assert_string_equal(found.pod, cases[i].pod);
        assert_string_equal(found.unit, "kept");
    }
}

static void test_long_path(void **state)
{
    (void)state;
    static char path[UNIT_NAME_PATH_MAX + 100];
    memset(path, '/', sizeof path - 1);
    memcpy(path + UNIT_NAME_PATH_MAX - 80, ID, sizeof ID - 1);
    struct unit_name found = {0};
    unit_name_read_path(path, &found);
    assert_string_equal(found.container, "");
}

static void test_processes(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    struct unit_name found;
    assert_int_equal(unit_name_of_pid(getpid(), &found, &err), 0);
    assert_true(strlen(found.unit) <= UNIT_NAME_MAX);
    memset(&found, 'x', sizeof found);
    assert_int_equal(unit_name_of_pid(0, &found, &err), -ESRCH);
    assert_int_equal(unit_name_of_pid(-1, &found, &err), -ESRCH);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(unit_name_of_pid(child, &found, &err), -ESRCH);
    assert_non_null(strstr(err.text, "gone"));
    assert_int_equal(found.unit[0], 'x');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_long_path),
        cmocka_unit_test(test_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
