/* The queue: what the ends of processors mean, that one costs its profile alone, publishing, and what a crash leaves.
 */
#include <errno.h>
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/store.h"
#include "collector/work_queue.h"
#include "tests/unit/capture_sample.h"
#include "tests/unit/killing_vfs.h"

#define NTFF KYMO__MANIFEST__FILE__KIND__NTFF
#define NEFF KYMO__MANIFEST__FILE__KIND__NEFF
#define PREFIX "train-host-1-r3-cap-nc"

static char root[64], program[96];

/*
 * Stands in for kymo-process: the profile's bytes are a shell script. $out is where its tables go; it is told of its
 * NEFFs in $neffs.
 */
static const char stand_in[] =
    "#!/bin/sh\n"
    "while [ $# -gt 0 ]; do case $1 in\n"
    "--ntff) ntff=$2; shift 2;; --output) out=$2; shift 2;; --neff) neffs=\"$neffs $2\"; shift 2;;\n"
    "--sandbox) shift;; *) shift 2;; esac; done\n"
    ". \"$ntff\"\n";
/* The least that is a Parquet file: a footer with a version and one element of a schema. */
#define PARQUET "PAR1\\025\\002\\031\\034\\004\\000\\000\\000PAR1"
#define TABLE "mkdir -p $out; printf '" PARQUET "' >$out/T.parquet; "
#define DONE "echo '{\"event\":\"done\",\"records\":5}' >&3"
#define SAY(code, reason)                                                                                              \
    "echo '{\"event\":\"failed\",\"code\":" code ",\"reason\":\"" reason "\",\"offset\":7}' >&3; exit 1"

static int set_up(void **state)
{
    (void)state;
    capture_sample_fail(-1, 0, 0);
    (void)snprintf(root, sizeof root, "/tmp/kymo-work-queue.XXXXXX");
    if (!mkdtemp(root))
        return -1;
    (void)snprintf(program, sizeof program, "%s/process", root);
    return kymo_file_write_atomic(program, stand_in, sizeof stand_in - 1, NULL) < 0 || chmod(program, 0755) < 0;
}

static int tear_down(void **state)
{
    (void)state;
    kymo_file_set_ops(NULL);
    return kymo_file_remove_tree(root, NULL);
}

static struct store *open_store(void)
{
    struct store *s;
    struct kymo_err err = {0};
    char path[96];
    (void)snprintf(path, sizeof path, "%s/data", root);
    if (store_open(path, 0, &s, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

/* A capture whose NTFFs are these scripts. */
static void put(struct store *s, const char *const *scripts, size_t n)
{
    struct sample_file files[8] = {{"p.neff", NEFF, "neff", 4, 0}};
    char names[8][16];
    struct raw_capture *c;
    size_t size;
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(names[i], sizeof names[i], "%zu.ntff", i);
        files[i + 1] = (struct sample_file){names[i], NTFF, scripts[i], strlen(scripts[i]), (uint32_t)i};
    }
    uint8_t *manifest KYMO_FREE = capture_sample_manifest("cap", files, n + 1, &size);
    assert_int_equal(raw_store_begin(s->raw, manifest, size, &c, NULL), RAW_RECEIVE);
    for (size_t i = 0; i <= n; i++) {
        assert_int_equal(raw_capture_write(c, i, 0, files[i].data, files[i].size, NULL), 0);
        assert_int_equal(raw_capture_finish_file(c, i, NULL), 0);
    }
    assert_int_equal(store_commit(s, c, NULL), 0);
    raw_capture_free(c);
}

static struct work_queue_config config_of(const struct store *s)
{
    return (struct work_queue_config){
        .data_path = s->data_path,
        .catalog = s->catalog,
        .raw = s->raw,
        .process_program = program,
        .limits = {.wall_ms = 20000},
        .children = 2,
        .retry_ms = 3600000,
    };
}

static void work(const struct work_queue_config *config)
{
    struct work_queue *q;
    struct kymo_err err = {0};
    int r;
    if (work_queue_open(config, &q, &err) < 0)
        fail_msg("%s", err.text);
    while ((r = work_queue_turn(q, &err)) > 0) {
        assert_true(r <= (int)config->children);
        work_queue_wait(q, 1000);
    }
    if (r < 0)
        fail_msg("%s", err.text);
    work_queue_free(q);
}

static struct catalog_profile profile(struct store *s, unsigned core)
{
    struct catalog_profile p;
    char name[64];
    (void)snprintf(name, sizeof name, PREFIX "%u", core);
    assert_int_equal(catalog_find(s->catalog, name, &p, NULL), 0);
    return p;
}

static void assert_failed(struct store *s, unsigned core, const char *why, int64_t offset)
{
    struct catalog_profile p = profile(s, core);
    assert_int_equal(p.state, CATALOG_FAILED);
    if (!strstr(p.reason, why))
        fail_msg("\"%s\" does not say \"%s\"", p.reason, why);
    assert_int_equal(p.file_offset, offset);
}

static int published(unsigned core, const char *table)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/data/profiles/global/" PREFIX "%u@latest/%s", root, core, table);
    return access(path, F_OK) == 0;
}

static void a_crash_costs_one_profile(void **state)
{
    (void)state;
    static const char *const scripts[] = {TABLE DONE,     TABLE "kill -SEGV $$",    TABLE DONE "; exit 1",
                                          TABLE "exit 0", SAY("-5", "broken here"), "kill -SYS $$",
                                          TABLE DONE};
    struct store *s = open_store();
    put(s, scripts, 7);
    struct work_queue_config c = config_of(s);
    work(&c);
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(published(i, "T.parquet"), i == 0 || i == 6);
    struct catalog_profile p = profile(s, 0);
    assert_int_equal(p.state, CATALOG_READY);
    assert_true(p.records == 5 && p.tables == 1 && p.bytes == 16);
    assert_string_equal(p.schema_version, "7.4.0");
    assert_int_equal(profile(s, 6).state, CATALOG_READY);
    assert_failed(s, 1, "signal 11", -1);
    assert_failed(s, 2, "exit code 1", -1);
    assert_failed(s, 3, "without a result", -1);
    assert_failed(s, 4, "broken here", 7);
    assert_failed(s, 5, "sandbox forbids", -1);
    store_free(s);
}

static void limits_time(void **state)
{
    (void)state;
    static const char *const scripts[] = {TABLE "sleep 60"};
    struct store *s = open_store();
    put(s, scripts, 1);
    struct work_queue_config c = config_of(s);
    c.limits.wall_ms = 100;
    work(&c);
    assert_failed(s, 0, "longer than its limit of 100 ms", -1);
    assert_false(published(0, ""));
    store_free(s);
}

static void waits_for_room(void **state)
{
    (void)state;
    static const char *const scripts[] = {
        "[ -e ${0%/*}/room ] || { " SAY("-28", "no room for tables") "; }; " TABLE DONE};
    char room[96];
    struct store *s = open_store();
    put(s, scripts, 1);
    struct work_queue_config c = config_of(s);
    work(&c);
    struct catalog_profile p = profile(s, 0);
    assert_int_equal(p.state, CATALOG_QUEUED);
    assert_string_equal(p.reason, "no room for tables");
    work(&c);
    assert_int_equal(profile(s, 0).attempts, 1);
    (void)snprintf(room, sizeof room, "%s/room", root);
    assert_int_equal(kymo_file_write_atomic(room, "", 0, NULL), 0);
    /* A restart tries again at once. */
    assert_int_equal(catalog_recover(s->catalog, NULL), 0);
    work(&c);
    assert_int_equal(profile(s, 0).state, CATALOG_READY);
    store_free(s);
}

static void finds_the_neffs(void **state)
{
    (void)state;
    static const char *const scripts[] = {
        "set -- $neffs; [ $# = 1 ] && [ \"$(cat $1)\" = neff ] || exit 9; " TABLE DONE};
    struct store *s = open_store();
    put(s, scripts, 1);
    struct work_queue_config c = config_of(s);
    work(&c);
    assert_int_equal(profile(s, 0).state, CATALOG_READY);
    store_free(s);
}

static void hands_over_what_it_cannot_decode(void **state)
{
    (void)state;
    static const char *const scripts[] = {SAY("-71", "unknown format"), TABLE DONE, SAY("-5", "disk error")};
    struct external x = {.command = "sh -c \"printf '" PARQUET "' >{output}/X.parquet\"", .schema_version = "9"};
    struct store *s = open_store();
    put(s, scripts, 3);
    struct work_queue_config c = config_of(s);
    c.external = &x;
    work(&c);
    struct catalog_profile p = profile(s, 0);
    assert_int_equal(p.state, CATALOG_READY);
    assert_string_equal(p.processor, "sh");
    assert_string_equal(p.schema_version, "9");
    assert_true(published(0, "X.parquet"));
    assert_true(!strncmp(profile(s, 1).processor, "kymo ", 5));
    assert_failed(s, 2, "disk error", 7);
    /* Made again: the old tables go with the exchange. */
    x.command = "sh -c \"printf '" PARQUET "' >{output}/Y.parquet\"";
    assert_int_equal(catalog_queue(s->catalog, PREFIX "0", NULL), 0);
    work(&c);
    assert_true(published(0, "Y.parquet") && !published(0, "X.parquet"));
    /* A failure leaves them. */
    x.command = "sh -c \"printf 'PAR1....' >{output}/Z.parquet\"";
    assert_int_equal(catalog_queue(s->catalog, PREFIX "0", NULL), 0);
    work(&c);
    assert_failed(s, 0, "Z.parquet", -1);
    assert_failed(s, 0, "tables made before", -1);
    x.command = "sh -c \"printf 'PAR1xxxxPAR1' >{output}/Z.parquet\"";
    assert_int_equal(catalog_queue(s->catalog, PREFIX "0", NULL), 0);
    work(&c);
    assert_failed(s, 0, "Z.parquet: offset 4", -1);
    x.command = "sh -c \"printf 'PAR1xxxx\\004\\000\\000\\000PAR1' >{output}/Z.parquet\"";
    assert_int_equal(catalog_queue(s->catalog, PREFIX "0", NULL), 0);
    work(&c);
    assert_failed(s, 0, "no Parquet footer", -1);
    x.command = "sh -c \"printf '" PARQUET "' >{output}/.Z.parquet\"";
    assert_int_equal(catalog_queue(s->catalog, PREFIX "0", NULL), 0);
    work(&c);
    assert_failed(s, 0, "no table was made", -1);
    x.command = "sh -c \"echo no licence >&2; exit 5\"";
    assert_int_equal(catalog_queue(s->catalog, PREFIX "0", NULL), 0);
    work(&c);
    assert_failed(s, 0, "no licence (sh, exit code 5)", -1);
    assert_true(published(0, "Y.parquet") && !published(0, "Z.parquet"));
    store_free(s);
}

static bool rows_of_fleet(void)
{
    char pattern[128];
    glob_t found;
    (void)snprintf(pattern, sizeof pattern, "%s/data/fleet/*/*/*/*.parquet", root);
    int r = glob(pattern, 0, NULL, &found);
    globfree(&found);
    return r == 0;
}

/* Makes rows of the fleet when somebody lets it. */
static const char gather[] = "#!/bin/sh\n"
                             "while [ $# -gt 0 ]; do case $1 in --output) out=$2; shift 2;; *) shift;; esac; done\n"
                             "while [ ! -e ${0%/*}/go ]; do sleep 0.02; done\n" TABLE DONE "\n";

/* A profile is made again, and deleted, while rows for the fleet are made of its former tables: no row is left. */
static void leaves_no_rows_of_what_is_removed(void **state)
{
    (void)state;
    static const char *const scripts[] = {TABLE DONE};
    char path[96], go[96], *left KYMO_FREE = NULL;
    struct work_queue *q;
    struct store *s = open_store();
    struct kymo_err err = {0};
    put(s, scripts, 1);
    struct work_queue_config c = config_of(s);
    (void)snprintf(path, sizeof path, "%s/gather", root);
    (void)snprintf(go, sizeof go, "%s/go", root);
    assert_int_equal(kymo_file_write_atomic(path, gather, sizeof gather - 1, NULL), 0);
    assert_int_equal(chmod(path, 0755), 0);
    c.gather_program = path;
    c.cluster = "c";
    c.gather_settle_ms = c.gather_limit_ms = 3600000;
    assert_int_equal(work_queue_open(&c, &q, NULL), 0);
    while (strcmp(profile(s, 0).fleet, "working") != 0) {
        assert_true(work_queue_turn(q, NULL) > 0);
        work_queue_wait(q, 100);
    }
    assert_int_equal(store_remove(s, q, PREFIX "0", "local", &left, NULL), -EBUSY);
    assert_int_equal(catalog_queue(s->catalog, PREFIX "0", NULL), 0);
    while (strcmp(profile(s, 0).fleet, "waiting") != 0 || profile(s, 0).state != CATALOG_READY) {
        assert_true(work_queue_turn(q, NULL) > 0);
        work_queue_wait(q, 100);
    }
    assert_true(work_queue_has(q, PREFIX "0"));
    assert_int_equal(store_remove(s, q, PREFIX "0", "local", &left, &err), -EBUSY);
    assert_non_null(strstr(err.text, "again in a moment"));
    assert_int_equal(kymo_file_write_atomic(go, "", 0, NULL), 0);
    while (work_queue_turn(q, NULL) > 0)
        work_queue_wait(q, 100);
    assert_true(rows_of_fleet());
    assert_int_equal(store_remove(s, q, PREFIX "0", "local", &left, NULL), 0);
    assert_string_equal(strrchr(left, '/'), "/removed-capture-cap");
    /* A file of 600 MiB, another that has a second name, and a folder: a step at a time. */
    char *big KYMO_FREE = kymo_asprintf("%s/big", left), *linked KYMO_FREE = kymo_asprintf("%s/linked", left);
    char *folder KYMO_FREE = kymo_asprintf("%s/f/g", left);
    struct stat st;
    assert_int_equal(kymo_file_write_atomic(big, "x", 1, NULL), 0);
    assert_int_equal(truncate(big, 600 << 20), 0);
    assert_int_equal(link(path, linked), 0);
    assert_int_equal(kymo_file_mkdirs(folder, NULL), 0);
    int steps = 1;
    for (off_t size = 600 << 20; store_clear(left, 0, NULL) == 1; steps++) {
        assert_true(steps < 100);
        st.st_size = 0;
        (void)stat(big, &st);
        assert_true(st.st_size == size || st.st_size >= size - (off_t)STORE_CLEAR_STEP);
        size = st.st_size;
    }
    assert_true(steps >= 6);
    assert_true(access(left, F_OK) < 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, sizeof gather - 1);
    assert_int_equal(work_queue_turn(q, NULL), 0);
    assert_false(rows_of_fleet());
    work_queue_free(q);
    store_free(s);
}

static void publishes_files_alone(void **state)
{
    (void)state;
    static const char mixed[] =
        TABLE "ln -s /etc/passwd $out/L.parquet; mkdir $out/d; : >$out/d/f; echo x >$out/n.txt; " DONE;
    static const char empty[] = "mkdir $out; " DONE;
    static const char *const scripts[] = {mixed, empty, DONE};
    struct store *s = open_store();
    put(s, scripts, 3);
    struct work_queue_config c = config_of(s);
    work(&c);
    assert_int_equal(profile(s, 0).state, CATALOG_READY);
    assert_true(published(0, "T.parquet") && !published(0, "L.parquet") && !published(0, "d") &&
                !published(0, "n.txt"));
    assert_failed(s, 1, "no table was made", -1);
    assert_failed(s, 2, "no directory of tables", -1);
    store_free(s);
}

static void refuses_a_second_writer(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    struct store *s = open_store(), *other;
    assert_int_equal(store_open(s->data_path, 0, &other, &err), -EBUSY);
    assert_non_null(strstr(err.text, "works on this store"));
    store_free(s);
}

/* From the capture in the raw store to its tables; ends early when something fails. */
static int whole_way(const char *data, struct kymo_err *err)
{
    static const struct sample_file file = {"0.ntff", NTFF, TABLE DONE, sizeof TABLE DONE - 1, 0};
    struct store *s = NULL;
    struct raw_capture *c = NULL;
    struct work_queue *q = NULL;
    size_t size;
    uint8_t *manifest KYMO_FREE = capture_sample_manifest("cap", &file, 1, &size);
    int r = store_open(data, 0, &s, err);
    if (r < 0)
        return r;
    r = raw_store_begin(s->raw, manifest, size, &c, err);
    if (r == RAW_RECEIVE) {
        r = raw_capture_write(c, 0, raw_capture_offset(c, 0), (const char *)file.data + raw_capture_offset(c, 0),
                              file.size - raw_capture_offset(c, 0), err);
        if (r == 0)
            r = raw_capture_finish_file(c, 0, err);
        if (r == 0)
            r = store_commit(s, c, err);
    }
    struct work_queue_config config = config_of(s);
    r = r < 0 ? r : work_queue_open(&config, &q, err);
    while (r >= 0 && (r = work_queue_turn(q, err)) > 0)
        work_queue_wait(q, 1000);
    work_queue_free(q);
    raw_capture_free(c);
    store_free(s);
    return r;
}

static void assert_ready(const char *data)
{
    struct store *s;
    struct kymo_err err = {0};
    if (whole_way(data, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(store_open(data, 0, &s, NULL), 0);
    struct catalog_profile p = profile(s, 0);
    assert_int_equal(p.state, CATALOG_READY);
    assert_int_equal(p.tables, 1);
    char *place KYMO_FREE = work_queue_place(data, p.name);
    char *table KYMO_FREE = kymo_asprintf("%s/T.parquet", place);
    assert_int_equal(access(table, F_OK), 0);
    store_free(s);
}

/* At each change of the file system, from the first directory to the last removal, or at some writes of the catalogue
 * (test_catalog has all of them). */
static void kill_everywhere(void (*arm)(long nth), long step, const char *mark, int code)
{
    for (long nth = 0;; nth += step) {
        char data[128];
        (void)snprintf(data, sizeof data, "%s/%s%ld", root, mark, nth);
        pid_t pid = fork();
        if (pid == 0) {
            arm(nth);
            _exit(whole_way(data, NULL) >= 0 ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_ready(data);
        if (WEXITSTATUS(status) != code) {
            assert_int_equal(WEXITSTATUS(status), 0);
            return;
        }
    }
}

static void arm_files(long nth)
{
    capture_sample_fail(nth, 0, 1);
}

static void arm_catalogue(long nth)
{
    killing_vfs_arm(nth, false);
}

static void survives_being_killed_anywhere(void **state)
{
    (void)state;
    kill_everywhere(arm_files, 1, "k", 77);
    kill_everywhere(arm_catalogue, 5, "c", KILLING_VFS_CODE);
}

static void survives_a_full_disk_anywhere(void **state)
{
    (void)state;
    for (long nth = 0;; nth += 2) {
        char data[128];
        (void)snprintf(data, sizeof data, "%s/f%ld", root, nth);
        capture_sample_fail(nth, ENOSPC, 1000);
        (void)!whole_way(data, NULL);
        long calls = capture_sample_calls();
        capture_sample_fail(-1, 0, 0);
        assert_ready(data);
        if (calls <= nth)
            return;
    }
}

int main(void)
{
    killing_vfs_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_crash_costs_one_profile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(limits_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(waits_for_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(finds_the_neffs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hands_over_what_it_cannot_decode, set_up, tear_down),
        cmocka_unit_test_setup_teardown(leaves_no_rows_of_what_is_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(publishes_files_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_a_second_writer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(survives_being_killed_anywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(survives_a_full_disk_anywhere, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
