#include "daemon/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/core_list.h"
#include "base/file.h"
#include "base/utf8.h"
#include "daemon/unit_name.h"

#define CORE_MAX 4096u
#define STAT_MAX 1024

/* X(variable, label) */
#define VARIABLES(X)                                                                                                   \
    X("KYMO_JOB", "kymo_job")                                                                                          \
    X("SLURM_JOB_ID", "slurm_job_id")                                                                                  \
    X("SLURM_JOB_NAME", "slurm_job_name")                                                                              \
    X("SLURM_STEP_ID", "slurm_step_id")                                                                                \
    X("SLURM_PROCID", "slurm_procid")                                                                                  \
    X("SLURM_NODEID", "slurm_nodeid")                                                                                  \
    X("SLURM_ARRAY_TASK_ID", "slurm_array_task_id")                                                                    \
    X("RANK", "rank")                                                                                                  \
    X("LOCAL_RANK", "local_rank")                                                                                      \
    X("WORLD_SIZE", "world_size")                                                                                      \
    X("OMPI_COMM_WORLD_RANK", "ompi_rank")                                                                             \
    X("TORCHELASTIC_RUN_ID", "torchelastic_run_id")                                                                    \
    X("AWS_BATCH_JOB_ID", "aws_batch_job_id")                                                                          \
    X("NEURON_RT_VISIBLE_CORES", "visible_cores")                                                                      \
    X("NEURON_RT_NUM_CORES", "num_cores")                                                                              \
    X("NEURON_LOGICAL_NC_CONFIG", "lnc")                                                                               \
    X("NEURON_RT_VIRTUAL_CORE_SIZE", "lnc")

static const struct {
    const char *name, *label;
} variables[] = {
#define X(name, label) {name, label},
    VARIABLES(X)
#undef X
};

/* Programs that begin jobs and are not part of them. */
static const char *const starters[] = {"systemd",
                                       "init",
                                       "sh",
                                       "bash",
                                       "dash",
                                       "zsh",
                                       "fish",
                                       "ksh",
                                       "sshd",
                                       "tmux",
                                       "screen",
                                       "login",
                                       "su",
                                       "sudo",
                                       "cron",
                                       "slurmstepd",
                                       "containerd-shim",
                                       "conmon",
                                       "docker-init",
                                       "tini",
                                       "dumb-init",
                                       "ctest"};

const char *process_label(const struct process *p, const char *key)
{
    for (size_t i = 0; i < p->nlabels; i++)
        if (!strcmp(p->labels[i].key, key))
            return p->labels[i].value;
    return "";
}

static void set_label(struct process *p, const char *key, const char *value, size_t n)
{
    size_t i = 0;
    while (i < p->nlabels && strcmp(p->labels[i].key, key) != 0)
        i++;
    if (n == 0 || i == PROCESS_LABELS_MAX)
        return;
    p->labels[i].key = key;
    kymo_utf8_copy_plain(p->labels[i].value, sizeof p->labels[i].value, value, n);
    if (i == p->nlabels)
        p->nlabels++;
}

void process_set_label(struct process *p, const char *key, const char *value)
{
    set_label(p, key, value, strlen(value));
}

static bool parse_rank(const char *text, uint32_t *ret)
{
    char *end;
    errno = 0;
    unsigned long v = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || v > INT32_MAX)
        return false;
    *ret = (uint32_t)v;
    return true;
}

static void find_rank(struct process *p)
{
    static const char *const keys[] = {"rank", "slurm_procid", "ompi_rank"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !p->rank_known; i++)
        p->rank_known = parse_rank(process_label(p, keys[i]), &p->rank);
}

void process_read_environ(struct process *p, const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t len = strnlen(text + at, n - at);
        for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
            size_t name = strlen(variables[i].name);
            if (len > name && text[at + name] == '=' && !memcmp(text + at, variables[i].name, name))
                set_label(p, variables[i].label, text + at + name + 1, len - name - 1);
        }
        at += len + 1;
    }
    find_rank(p);
    const char *job = process_label(p, "kymo_job"), *slurm = process_label(p, "slurm_job_id");
    if (*job)
        (void)snprintf(p->job, sizeof p->job, "%s", job);
    else if (*slurm)
        (void)snprintf(p->job, sizeof p->job, "slurm-%.200s", slurm);
}

/* Reads up to max bytes of a file of /proc, whose size is not known before. 0 bytes when it cannot be read. */
static size_t read_proc(pid_t pid, const char *name, char *out, size_t max)
{
    char path[64];
    size_t n = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd KYMO_CLOSE = kymo_file_open(path, O_RDONLY, 0, NULL);
    while (fd >= 0 && n < max) {
        ssize_t got = kymo_file_ops()->pread(fd, out + n, max - n, (off_t)n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    return n;
}

struct stat_line {
    char comm[64];
    int ppid;
    unsigned long long start;
};

static int read_stat(pid_t pid, struct stat_line *ret)
{
    char text[STAT_MAX + 1];
    text[read_proc(pid, "stat", text, STAT_MAX)] = '\0';
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open)
        return -ESRCH;
    kymo_utf8_copy_plain(ret->comm, sizeof ret->comm, open + 1, (size_t)(close - open - 1));
    if (sscanf(close + 1, " %*c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
               &ret->ppid, &ret->start) != 2)
        return -ESRCH;
    return 0;
}

int process_start(pid_t pid, uint64_t *ret, struct kymo_err *err)
{
    struct stat_line s;
    if (read_stat(pid, &s) < 0)
        return kymo_err_set(err, -ESRCH, "process %d: there is none", (int)pid);
    *ret = s.start;
    return 0;
}

static bool is_starter(const char *comm)
{
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++)
        if (!strcmp(starters[i], comm))
            return true;
    return false;
}

/* The oldest ancestor that still belongs to the job: "torchrun-4242". */
static void name_by_tree(struct process *p, const struct stat_line *self)
{
    struct stat_line at = *self, above;
    pid_t pid = p->pid;
    for (int i = 0; i < PROCESS_DEPTH_MAX && at.ppid > 1 && read_stat(at.ppid, &above) == 0; i++) {
        if (is_starter(above.comm))
            break;
        pid = at.ppid;
        at = above;
    }
    (void)snprintf(p->job, sizeof p->job, "%s-%d", at.comm, (int)pid);
}

static bool has_suffix(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && !strcmp(text + n - m, suffix);
}

/* Services and containers are jobs; a login session or a whole user manager is not. */
static void name_by_group(struct process *p, const struct unit_name *u)
{
    const char *unit = *u->user_unit ? u->user_unit : u->unit;
    if (has_suffix(unit, ".service") && strncmp(unit, "user@", 5) != 0)
        (void)snprintf(p->job, sizeof p->job, "%s", unit);
    else if (*u->container)
        (void)snprintf(p->job, sizeof p->job, "container-%.12s", u->container);
}

static void read_group(struct process *p, const struct unit_name *u)
{
    process_set_label(p, "unit", u->unit);
    process_set_label(p, "slice", u->slice);
    process_set_label(p, "user_unit", u->user_unit);
    process_set_label(p, "container", u->container);
    process_set_label(p, "pod", u->pod);
}

static void read_command(struct process *p)
{
    char text[PROCESS_TEXT_MAX + 1];
    size_t n = read_proc(p->pid, "cmdline", text, PROCESS_TEXT_MAX);
    while (n > 0 && text[n - 1] == '\0')
        n--;
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    set_label(p, "command", text, n);
}

int process_read(pid_t pid, struct process *ret, struct kymo_err *err)
{
    struct stat_line self;
    struct unit_name unit = {0};
    if (pid <= 0 || read_stat(pid, &self) < 0)
        return kymo_err_set(err, -ESRCH, "process %d: there is none", (int)pid);
    *ret = (struct process){.pid = pid, .start = self.start};
    char *text KYMO_FREE = kymo_malloc(PROCESS_ENVIRON_MAX);
    if (text)
        process_read_environ(ret, text, read_proc(pid, "environ", text, PROCESS_ENVIRON_MAX));
    process_set_label(ret, "comm", self.comm);
    read_command(ret);
    if (unit_name_of_pid(pid, &unit, NULL) == 0) {
        read_group(ret, &unit);
        if (!*ret->job)
            name_by_group(ret, &unit);
    }
    if (!*ret->job)
        name_by_tree(ret, &self);
    return 0;
}

size_t process_parse_cores(const char *text, uint32_t *cores, size_t max)
{
    size_t n = 0;
    return kymo_core_list(text, CORE_MAX, cores, max, &n) < 0 ? 0 : n;
}
