#include "collector/work_job.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/runner_child.h"
#include "collector/work_gather.h"
#include "formats/schema/schema.h"

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory for a profile's work");
}

static bool has_sha(const Kymo__Manifest__File *ntff, const ProtobufCBinaryData *sha)
{
    for (size_t i = 0; i < ntff->n_neff_sha256; i++)
        if (ntff->neff_sha256[i].len == sha->len && !memcmp(ntff->neff_sha256[i].data, sha->data, sha->len))
            return true;
    return false;
}

static int add_neff(struct work_job *j, char *path, struct kymo_err *err)
{
    if (!path)
        return no_memory(err);
    if (j->neff_count == WORK_JOB_NEFFS_MAX || access(path, F_OK) < 0)
        kymo_free(path);
    else
        j->neffs[j->neff_count++] = path;
    return 0;
}

/* Those that the profile names, which another capture may have brought; else all of this capture, and kymo-process
 * finds the right ones. */
static int add_neffs(struct work_job *j, const struct work_queue_config *c, const Kymo__Manifest__Capture *m,
                     const Kymo__Manifest__File *ntff, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < ntff->n_neff_sha256; i++)
        if (ntff->neff_sha256[i].len == 32)
            r = add_neff(j, raw_store_neff_path(c->raw, ntff->neff_sha256[i].data), err);
    bool named = j->neff_count > 0;
    for (size_t i = 0; r == 0 && !named && i < m->n_files; i++)
        if (m->files[i]->type == KYMO__MANIFEST__FILE__KIND__NEFF && !has_sha(ntff, &m->files[i]->sha256))
            r = add_neff(j, raw_store_neff_path(c->raw, m->files[i]->sha256.data), err);
    return r;
}

/* What names of one session's files begin with: a folder, or what a spool has made of it. */
static size_t prefix_of(const char *events)
{
    static const char end[] = "ntrace.pb";
    size_t n = strlen(events), k = sizeof end - 1;
    return n >= k && !strcmp(events + n - k, end) ? n - k : 0;
}

/* The device profiles of the same session, by the names that the catalogue gives them. */
static int add_devices(struct work_job *j, const struct work_queue_config *c, const Kymo__Manifest__Capture *m,
                       const Kymo__Manifest__File *events, struct kymo_err *err)
{
    size_t prefix = prefix_of(events->name);
    j->system = true;
    for (size_t i = 0; i < m->n_files && j->device_count < WORK_JOB_NEFFS_MAX; i++) {
        const Kymo__Manifest__File *f = m->files[i];
        char name[MANIFEST_PROFILE_NAME_MAX + 1];
        if (!manifest_file_is_profile(f) || f->type != KYMO__MANIFEST__FILE__KIND__NTFF ||
            strncmp(f->name, events->name, prefix) != 0 || strchr(f->name + prefix, '/'))
            continue;
        manifest_file_profile_name(m, i, name);
        char *path KYMO_FREE = raw_store_file_path(c->raw, j->profile.capture, f);
        j->devices[j->device_count] = path ? kymo_asprintf("%s=%s", name, path) : NULL;
        if (!j->devices[j->device_count++])
            return no_memory(err);
    }
    return 0;
}

static int find_files(struct work_job *j, const struct work_queue_config *c, struct kymo_err *err)
{
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = NULL;
    int r = raw_store_manifest(c->raw, j->profile.capture, &m, err);
    if (r < 0)
        return r;
    if (j->profile.file_index >= m->n_files || strcmp(m->files[j->profile.file_index]->name, j->profile.file) != 0)
        return kymo_err_set(err, -EPROTO, "capture %s: its manifest has no file %s", j->profile.capture,
                            j->profile.file);
    const Kymo__Manifest__File *ntff = m->files[j->profile.file_index];
    j->ntff = raw_store_file_path(c->raw, j->profile.capture, ntff);
    j->manifest = raw_store_manifest_path(c->raw, j->profile.capture);
    if (!j->ntff || !j->manifest)
        return no_memory(err);
    struct stat st;
    if (ntff->size && stat(j->ntff, &st) == 0 && st.st_size == 0)
        return kymo_err_set(err, -EBADMSG, "%s: is empty, and had %llu bytes when it was received", j->ntff,
                            (unsigned long long)ntff->size);
    j->tables = ntff->type == KYMO__MANIFEST__FILE__KIND__TABLES;
    if (j->tables)
        return 0;
    return ntff->type == KYMO__MANIFEST__FILE__KIND__NTRACE ? add_devices(j, c, m, ntff, err)
                                                            : add_neffs(j, c, m, ntff, err);
}

int work_job_open(struct work_job *j, const struct work_queue_config *c, const struct catalog_profile *p, bool fleet,
                  const char *directory, struct kymo_err *err)
{
    *j = (struct work_job){.kind = fleet          ? WORK_FLEET
                                   : p->is_parent ? WORK_PARENT
                                                  : WORK_PROFILE,
                           .profile = *p,
                           .offset = -1};
    j->directory = kymo_strdup(directory);
    j->output = kymo_asprintf("%s/tables", directory);
    int r = j->directory && j->output ? 0 : no_memory(err);
    if (r == 0 && j->kind == WORK_PROFILE)
        r = find_files(j, c, err);
    if (r == 0)
        r = kymo_file_remove_tree(directory, err);
    if (r == 0)
        r = kymo_file_mkdirs(directory, err);
    if (r == 0 && j->kind == WORK_PARENT)
        r = work_gather_list(j, c, err);
    if (r < 0)
        work_job_done(j);
    return r;
}

void work_job_done(struct work_job *j)
{
    j->runner = runner_free(j->runner);
    /* What cannot be removed now is when the directory is used again. */
    int r = j->directory ? kymo_file_remove_tree(j->directory, NULL) : 0;
    (void)r;
    for (size_t i = 0; i < j->neff_count; i++)
        kymo_free(j->neffs[i]);
    for (size_t i = 0; i < j->device_count; i++)
        kymo_free(j->devices[i]);
    kymo_free(j->directory);
    kymo_free(j->output);
    kymo_free(j->ntff);
    kymo_free(j->manifest);
    kymo_free(j->members);
    *j = (struct work_job){0};
}

static int start_kymo(struct work_job *j, const struct work_queue_config *c, struct kymo_err *err)
{
    char fd[16], *argv[2 * WORK_JOB_NEFFS_MAX + 16];
    /* Nothing of the collector's environment is the business of one who reads untrusted bytes. */
    char *envp[] = {(char *)(size_t) "LANG=C.UTF-8", NULL};
    size_t n = 0;
#define ADD(s) argv[n++] = (char *)(size_t)(s)
    (void)snprintf(fd, sizeof fd, "%d", RUNNER_PROGRESS_FD);
    ADD(c->process_program);
    ADD("--sandbox");
    ADD("--progress-fd");
    ADD(fd);
    ADD(j->system ? "--system" : "--ntff");
    ADD(j->ntff);
    for (size_t i = 0; i < j->device_count; i++) {
        ADD("--device");
        ADD(j->devices[i]);
    }
    for (size_t i = 0; i < j->neff_count; i++) {
        ADD("--neff");
        ADD(j->neffs[i]);
    }
    ADD("--manifest");
    ADD(j->manifest);
    ADD("--output");
    ADD(j->output);
    ADD("--name");
    ADD(j->profile.name);
    ADD(NULL);
#undef ADD
    const struct runner_spec spec = {.argv = argv, .envp = envp, .limits = c->limits};
    return runner_start(&spec, &j->runner, err);
}

static int start_external(struct work_job *j, const struct work_queue_config *c, struct kymo_err *err)
{
    const struct external_job job = {
        .name = j->profile.name,
        .capture = j->profile.capture,
        .ntff = j->ntff,
        .manifest = j->manifest,
        .output = j->output,
        .neffs = (const char *const *)j->neffs,
        .neff_count = j->neff_count,
    };
    char **argv = NULL, **envp = NULL;
    int r = external_argv(c->external, &job, &argv, err);
    if (r == 0)
        r = external_env(&job, j->directory, &envp, err);
    if (r == 0)
        r = kymo_file_mkdirs(j->output, err);
    const struct runner_spec spec = {
        .argv = argv, .envp = envp, .directory = j->directory, .limits = c->external->limits, .keeper = true};
    if (r == 0)
        r = runner_start(&spec, &j->runner, err);
    external_strings_free(&argv);
    external_strings_free(&envp);
    return r;
}

static bool is_no_room(int code)
{
    return code == -ENOSPC || code == -EDQUOT;
}

static void set(struct work_job *j, enum work_outcome outcome, const char *reason)
{
    j->outcome = outcome;
    (void)snprintf(j->reason, sizeof j->reason, "%s", reason);
}

/* The place where tables were made is gone when somebody reads this. */
static const char *without_place(const struct work_job *j, const char *text)
{
    size_t n = strlen(j->output);
    if (strncmp(text, j->output, n) != 0)
        return text;
    return text + n + (text[n] == '/' ? 1 : strspn(text + n, ": "));
}

/* Tables that were made, or were ready, go to their place. */
static void publish(struct work_job *j, const struct work_queue_config *c)
{
    struct kymo_err err = {0};
    const struct external x = {.schema_version = *j->external_schema ? j->external_schema : NULL};
    const struct runner_report *report = j->runner ? runner_report(j->runner) : NULL;
    if (j->external || j->tables)
        external_schema_version(&x, j->output, j->schema_version, sizeof j->schema_version);
    else
        (void)snprintf(j->schema_version, sizeof j->schema_version, "%s", KYMO_SCHEMA_VERSION);
    char *place KYMO_FREE = work_queue_place(c->data_path, j->profile.name);
    int r = place ? publish_tables(j->output, place, &j->counts, &err) : no_memory(&err);
    j->records = report ? report->records : 0;
    set(j, r == 0 ? WORK_READY : is_no_room(r) ? WORK_LATER : WORK_FAILED, without_place(j, err.text));
}

static int link_table(const struct work_job *j, const char *folder, const char *name, struct kymo_err *err)
{
    static const char suffix[] = ".parquet", version[] = "schema_version";
    size_t n = strlen(name), m = sizeof suffix - 1;
    if ((n <= m || strcmp(name + n - m, suffix) != 0) && strcmp(name, version) != 0)
        return 0;
    char *from KYMO_FREE = kymo_asprintf("%s/%s", folder, name);
    char *to KYMO_FREE = kymo_asprintf("%s/%s", j->output, name);
    struct stat st;
    if (!from || !to)
        return no_memory(err);
    if (lstat(from, &st) == 0 && !S_ISREG(st.st_mode))
        return 0;
    return kymo_file_ops()->link(from, to) == 0
               ? 0
               : kymo_err_set(err, -errno, "%s: cannot be linked: %s", name, strerror(errno));
}

/* Tables that came ready are in the raw store and, as the same files, in their place: they take no room twice. */
static int take_tables(struct work_job *j, const struct work_queue_config *c, struct kymo_err *err)
{
    char *folder KYMO_FREE = kymo_strndup(j->ntff, (size_t)(strrchr(j->ntff, '/') - j->ntff));
    int r = folder ? kymo_file_mkdirs(j->output, err) : no_memory(err);
    DIR *d = r == 0 ? opendir(folder) : NULL;
    if (r == 0 && !d)
        r = kymo_err_set(err, -errno, "%s: cannot be listed: %s", folder, strerror(errno));
    for (const struct dirent *e; r == 0 && (e = readdir(d));)
        r = link_table(j, folder, e->d_name, err);
    if (d)
        (void)closedir(d);
    if (r == 0)
        publish(j, c);
    return r;
}

int work_job_start(struct work_job *j, const struct work_queue_config *c, struct kymo_err *err)
{
    j->outcome = WORK_RUNNING;
    j->offset = -1;
    if (j->tables && j->kind == WORK_PROFILE)
        return take_tables(j, c, err);
    /* The configuration may change while it is at work. */
    j->wall_ms = j->external ? c->external->limits.wall_ms : c->limits.wall_ms;
    if (j->external && c->external->schema_version)
        (void)snprintf(j->external_schema, sizeof j->external_schema, "%s", c->external->schema_version);
    if (j->kind != WORK_PROFILE)
        return work_gather_start(j, c, err);
    return j->external ? start_external(j, c, err) : start_kymo(j, c, err);
}

static bool is_unknown_format(int code)
{
    return code == -EPROTO || code == -ENOTSUP || code == -ENODATA || code == -EBADMSG;
}

static void take_result(struct work_job *j, const struct work_queue_config *c)
{
    struct kymo_err err = {0};
    const struct runner_report *report = runner_report(j->runner);
    if (!j->external && !report->finished) {
        set(j, WORK_FAILED,
            j->kind == WORK_PROFILE ? "kymo-process ended without a result" : "kymo-gather ended without a result");
        return;
    }
    if (j->kind == WORK_FLEET) {
        int published = work_gather_publish(j, c, &err);
        set(j, published == 0 ? WORK_READY : is_no_room(published) ? WORK_LATER : WORK_FAILED, err.text);
        return;
    }
    publish(j, c);
}

static void fail_external(struct work_job *j, const struct work_queue_config *c, int code, const char *reason)
{
    char name[64];
    external_name(c->external, name, sizeof name);
    j->outcome = WORK_FAILED;
    (void)snprintf(j->reason, sizeof j->reason, "%.300s (%s, exit code %d)", reason, name, code);
}

static void take_exit(struct work_job *j, const struct work_queue_config *c, int code)
{
    const struct runner_report *report = runner_report(j->runner);
    j->offset = report->offset;
    if (code == 0)
        take_result(j, c);
    else if (report->failed && is_no_room(report->code))
        set(j, WORK_LATER, report->reason);
    else if (!j->external && report->failed && report->code == -ECANCELED)
        set(j, WORK_KILLED, "it was asked to stop, from outside");
    else if (!j->external && code == RUNNER_EXIT_NOT_STARTED)
        set(j, WORK_LATER, *report->reason ? report->reason : "the processor cannot be started");
    else if (j->external && code == EXTERNAL_EXIT_LATER)
        set(j, WORK_LATER, *report->reason ? report->reason : "the external processor asked for a later try");
    else if (j->kind == WORK_PROFILE && !j->external && report->failed && is_unknown_format(report->code) &&
             c->external)
        set(j, WORK_HAND_OVER, report->reason);
    else if (*report->reason && j->external && c->external)
        fail_external(j, c, code, report->reason);
    else if (*report->reason)
        set(j, WORK_FAILED, report->reason);
    else {
        j->outcome = WORK_FAILED;
        (void)snprintf(j->reason, sizeof j->reason, "the processor ended with exit code %d and gave no reason", code);
    }
}

/* What nothing in the sandbox does to a process by itself: an operator, a service manager or the kernel without memory
 * has ended it. */
static bool is_from_outside(int number)
{
    return number == SIGKILL || number == SIGTERM || number == SIGINT || number == SIGHUP;
}

static void take_signal(struct work_job *j, int number, bool cpu_over)
{
    static const struct {
        int number;
        const char *text;
    } known[] = {
        {SIGSYS, "it made a system call that its sandbox forbids"},
        {SIGKILL, "it was killed from outside, or the machine had no memory left"},
        {SIGXFSZ, "it wrote a file beyond its limit"},
    };
    const char *text = cpu_over ? "it used more processor time than its limit" : strsignal(number);
    for (size_t i = 0; !cpu_over && i < sizeof known / sizeof *known; i++)
        if (known[i].number == number)
            text = known[i].text;
    j->outcome = !cpu_over && is_from_outside(number) ? WORK_KILLED : WORK_FAILED;
    (void)snprintf(j->reason, sizeof j->reason, "the processor was ended by signal %d: %s", number, text);
}

void work_job_turn(struct work_job *j, const struct work_queue_config *c)
{
    int status = 0;
    if (j->outcome != WORK_RUNNING || !j->runner)
        return;
    enum runner_state state = runner_turn(j->runner, &status);
    switch (state) {
    case RUNNER_RUNNING:
        return;
    case RUNNER_EXITED:
        take_exit(j, c, status);
        return;
    case RUNNER_SIGNALLED:
    case RUNNER_CPU_OVER:
        take_signal(j, status, state == RUNNER_CPU_OVER);
        return;
    case RUNNER_TIMED_OUT:
        j->outcome = WORK_FAILED;
        (void)snprintf(j->reason, sizeof j->reason, "the processor took longer than its limit of %llu ms",
                       (unsigned long long)j->wall_ms);
        return;
    }
}
