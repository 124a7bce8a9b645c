#include "base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/hash.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Found by tracing whole runs; the second half is what libc, OpenSSL and zstd may use instead on other versions. */
static const int allowed[] = {
    SCMP_SYS(access),
    SCMP_SYS(brk),
    SCMP_SYS(close),
    SCMP_SYS(exit_group),
    SCMP_SYS(fcntl),
    SCMP_SYS(flock),
    SCMP_SYS(fsync),
    SCMP_SYS(futex),
    SCMP_SYS(getdents64),
    SCMP_SYS(getpid),
    SCMP_SYS(getrandom),
    SCMP_SYS(lseek),
    SCMP_SYS(mkdir),
    SCMP_SYS(munmap),
    SCMP_SYS(newfstatat),
    SCMP_SYS(openat),
    SCMP_SYS(pread64),
    SCMP_SYS(pwrite64),
    SCMP_SYS(read),
    SCMP_SYS(readlink),
    SCMP_SYS(rename),
    SCMP_SYS(renameat2),
    SCMP_SYS(rmdir),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(unlink),
    SCMP_SYS(write),

    SCMP_SYS(clock_gettime),
    SCMP_SYS(exit),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(fstat),
    SCMP_SYS(fstatfs),
    SCMP_SYS(ftruncate),
    SCMP_SYS(getppid),
    SCMP_SYS(gettid),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(lstat),
    SCMP_SYS(madvise),
    SCMP_SYS(mkdirat),
    SCMP_SYS(mremap),
    SCMP_SYS(open),
    SCMP_SYS(readlinkat),
    SCMP_SYS(readv),
    SCMP_SYS(renameat),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(stat),
    SCMP_SYS(statx),
    SCMP_SYS(sysinfo),
    SCMP_SYS(tgkill), /* abort */
    SCMP_SYS(unlinkat),
    SCMP_SYS(writev),
};

static const int fatal[] = {
    SCMP_SYS(accept4),
    SCMP_SYS(bind),
    SCMP_SYS(clone),
    SCMP_SYS(clone3),
    SCMP_SYS(connect),
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    SCMP_SYS(fork),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(keyctl),
    SCMP_SYS(listen),
    SCMP_SYS(mount),
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(sendto),
    SCMP_SYS(setns),
    SCMP_SYS(socket),
    SCMP_SYS(socketpair),
    SCMP_SYS(unshare),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(vfork),
};

/* What a program that only reads files, with threads and one socket that it has already, may use besides. */
static const int reader_allowed[] = {
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(close),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(fadvise64),
    SCMP_SYS(fcntl),
    SCMP_SYS(fstat),
    SCMP_SYS(fstatfs),
    SCMP_SYS(futex),
    SCMP_SYS(getcpu),
    SCMP_SYS(getdents64),
    SCMP_SYS(getpid),
    SCMP_SYS(getrandom),
    SCMP_SYS(getrlimit),
    SCMP_SYS(getrusage),
    SCMP_SYS(gettid),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(lseek),
    SCMP_SYS(lstat),
    SCMP_SYS(madvise),
    SCMP_SYS(membarrier),
    SCMP_SYS(mremap),
    SCMP_SYS(munmap),
    SCMP_SYS(nanosleep),
    SCMP_SYS(newfstatat),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(pread64),
    SCMP_SYS(preadv),
    SCMP_SYS(read),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(readv),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(rseq),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler),
    SCMP_SYS(sched_yield),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(setpriority),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(stat),
    SCMP_SYS(statx),
    SCMP_SYS(sysinfo),
    SCMP_SYS(tgkill),
    SCMP_SYS(uname),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(brk),
    SCMP_SYS(access),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
};

/* Memory is data: no mapping that can be executed, new or changed. */
static int add_memory_rules(scmp_filter_ctx filter)
{
    int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    return r < 0 ? r
                 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                                    SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

static int add_reader_rules(scmp_filter_ctx filter)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof fatal / sizeof *fatal; i++)
        if (fatal[i] != SCMP_SYS(clone) && fatal[i] != SCMP_SYS(clone3))
            r = seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, fatal[i], 0);
    for (size_t i = 0; r == 0 && i < sizeof reader_allowed / sizeof *reader_allowed; i++)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, reader_allowed[i], 0);
    /* Threads and no processes. clone3 hides its flags in memory; libc goes back to clone when there is none. */
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
                             SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY));
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(open), 1,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY));
    return r < 0 ? r : add_memory_rules(filter);
}

static int add_rules(scmp_filter_ctx filter)
{
    int r = 0;
    /* Threads of an attacker's making are no better than processes, hence KILL_PROCESS. */
    for (size_t i = 0; r == 0 && i < sizeof fatal / sizeof *fatal; i++)
        r = seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, fatal[i], 0);
    for (size_t i = 0; r == 0 && i < sizeof allowed / sizeof *allowed; i++)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
    return r < 0 ? r : add_memory_rules(filter);
}

static int load_filter(int (*add)(scmp_filter_ctx filter), struct kymo_err *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (!filter)
        return kymo_err_set(err, -ENOMEM, "no memory for the sandbox");
    int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    /* Threads that are there already are held to it too. */
    if (r == 0)
        r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (r == 0)
        r = add(filter);
    if (r == 0)
        r = seccomp_load(filter);
    seccomp_release(filter);
    return r < 0 ? kymo_err_set(err, r, "the sandbox cannot be entered: %s", strerror(-r)) : 0;
}

int kymo_sandbox_enter(struct kymo_err *err)
{
    uint8_t digest[KYMO_SHA256_SIZE];
    /* OpenSSL reads its configuration and loads what that names when it is first used: now, not later. */
    int r = kymo_hash_sha256("", 0, digest);
    if (r < 0)
        return kymo_err_set(err, r, "no SHA-256: %s", strerror(-r));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return kymo_err_set(err, -errno, "new privileges cannot be given up: %s", strerror(errno));
    return SANITIZED ? 0 : load_filter(add_rules, err);
}

int kymo_sandbox_enter_reader(struct kymo_err *err)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return kymo_err_set(err, -errno, "new privileges cannot be given up: %s", strerror(errno));
    return SANITIZED ? 0 : load_filter(add_reader_rules, err);
}
