/* A job that does one unusual thing, for test_hook_process and the bench. usage: hook_probe WHAT [N], with KYMO_LIBNRT.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver-iface/nrt/nrt_abi.h"

#define THREADS 8
#define PER_THREAD 20000
#define RUNS 2000

typedef NRT_STATUS init_fn(nrt_framework_type_t framework, const char *fw_version, const char *fal_version);
typedef void close_fn(void);
typedef NRT_STATUS load_fn(const void *neff, size_t size, int32_t vnc, int32_t vnc_count, nrt_model_t **model);
typedef NRT_STATUS unload_fn(nrt_model_t *model);
typedef NRT_STATUS execute_fn(nrt_model_t *model, const nrt_tensor_set_t *in, nrt_tensor_set_t *out);

static struct {
    void *handle;
    init_fn *init;
    close_fn *close;
    load_fn *load;
    unload_fn *unload;
    execute_fn *execute, *bare;
    nrt_model_t *model;
} rt;

static const char neff[] = "not a NEFF, but bytes";

static void die(const char *what)
{
    (void)printf("failed: %s\n", what);
    (void)fflush(stdout);
    _exit(1);
}

static void check(int holds, const char *what)
{
    if (!holds)
        die(what);
}

static void find(const char *name, void *slot)
{
    void *p = dlsym(rt.handle, name);

    check(p != NULL, name);
    memcpy(slot, &p, sizeof p);
}

static void find_functions(void)
{
    void *p;

    find("nrt_init", &rt.init);
    find("nrt_close", &rt.close);
    find("nrt_load", &rt.load);
    find("nrt_unload", &rt.unload);
    find("nrt_execute", &rt.execute);
    p = dlvsym(rt.handle, "nrt_execute", "NRT_2.0.0");
    memcpy(&rt.bare, &p, sizeof p);
    check(p != NULL, "dlvsym");
}

static void open_runtime(void)
{
    rt.handle = dlopen(getenv("KYMO_LIBNRT"), RTLD_NOW | RTLD_LOCAL);
    check(rt.handle != NULL, "dlopen");
    find_functions();
}

static void start(void)
{
    check(rt.init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") == NRT_SUCCESS, "nrt_init");
    check(rt.load(neff, sizeof neff, 0, 1, &rt.model) == NRT_SUCCESS, "nrt_load");
}

static void begin(void)
{
    open_runtime();
    start();
}

static void execute(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        check(rt.execute(rt.model, NULL, NULL) == NRT_SUCCESS, "nrt_execute");
}

static void end(void)
{
    (void)rt.unload(rt.model);
    rt.close();
}

static void wait_for(pid_t pid)
{
    int status;

    check(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child");
}

/* Every system call but the one that ends the process kills it. */
static void allow_nothing(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};

    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp");
}

static int do_syscalls(unsigned n)
{
    begin();
    execute(1000);
    allow_nothing();
    execute(n);
    _exit(0);
}

static int do_syscalls_control(unsigned n)
{
    (void)n;
    begin();
    allow_nothing();
    return getppid() > 0 ? 0 : 1;
}

/* The child runs on with what it inherited; a second one begins anew. */
static int do_fork(unsigned n)
{
    pid_t pid;

    begin();
    execute(5);
    pid = fork();
    if (pid == 0) {
        execute(n);
        _exit(0);
    }
    wait_for(pid);
    pid = fork();
    if (pid == 0) {
        begin();
        execute(3);
        end();
        _exit(0);
    }
    wait_for(pid);
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); /* behind the C library's back */
    if (pid == 0) {
        for (unsigned i = 0; i < n; i++)
            (void)rt.execute(rt.model, NULL, NULL);
        (void)syscall(SYS_exit_group, 0);
    }
    wait_for(pid);
    execute(5);
    end();
    return 0;
}

static int do_exec(unsigned n)
{
    begin();
    execute(n);
    (void)execl("/proc/self/exe", "hook_probe", "once", "4", NULL);
    return 1;
}

static int do_once(unsigned n)
{
    begin();
    execute(n);
    end();
    return 0;
}

/* n executions, a hundred in a second. */
static int do_pause(unsigned n)
{
    begin();
    for (unsigned i = 0; i < n; i++) {
        execute(1);
        (void)usleep(10000);
    }
    end();
    return 0;
}

static void *run_thread(void *arg)
{
    execute(PER_THREAD);
    return arg;
}

static int do_threads(unsigned n)
{
    pthread_t threads[THREADS];

    (void)n;
    begin();
    for (int i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, run_thread, NULL) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++)
        check(pthread_join(threads[i], NULL) == 0, "pthread_join");
    end();
    return 0;
}

/* Models come and go while others run. */
static void *churn(void *arg)
{
    for (int i = 0; i < 90; i++) {
        nrt_model_t *m = NULL;

        check(rt.load(neff, sizeof neff, 0, 1, &m) == NRT_SUCCESS, "nrt_load");
        check(rt.execute(m, NULL, NULL) == NRT_SUCCESS, "nrt_execute");
        if (i % 4 == 0)
            check(rt.unload(m) == NRT_SUCCESS, "nrt_unload");
    }
    return arg;
}

static int do_churn(unsigned n)
{
    pthread_t a, b;

    begin();
    check(pthread_create(&a, NULL, churn, NULL) == 0 && pthread_create(&b, NULL, run_thread, NULL) == 0, "threads");
    execute(n);
    check(pthread_join(a, NULL) == 0 && pthread_join(b, NULL) == 0, "pthread_join");
    end();
    return 0;
}

/* A process without a main thread ends with its last thread, whatever the hook does. */
static int do_leave(unsigned n)
{
    begin();
    execute(n);
    pthread_exit(NULL);
}

/* As daemons do: what was open before is closed, and its numbers are used again. */
static int do_close_all(unsigned n)
{
    FILE *f;
    char text[8] = "";

    begin();
    execute(n);
    check((int)syscall(SYS_close_range, 3, ~0u, 0) == 0, "close_range");
    for (int i = 0; i < 900; i++)
        check(dup(STDIN_FILENO) >= 0, "dup");
    f = tmpfile();
    check(f && fputs("mine", f) > 0 && fflush(f) == 0, "tmpfile");
    execute(n);
    end();
    rewind(f);
    check(fgets(text, sizeof text, f) && strcmp(text, "mine") == 0, "somebody wrote into my file");
    (void)fclose(f);
    return 0;
}

static int do_errno(unsigned n)
{
    begin();
    errno = 0;
    execute(n);
    check(errno == ENOTTY, "errno");
    check(rt.execute(NULL, NULL, NULL) == NRT_INVALID_HANDLE, "status");
    end();
    return 0;
}

/* What dlsym says in a process without a runtime, and of other names. */
static int do_dlsym(unsigned n)
{
    void *self = dlopen(NULL, RTLD_NOW);
    Dl_info info;
    void *p;

    (void)n;
    check(dlsym(RTLD_DEFAULT, "nrt_execute") == NULL && dlerror() != NULL, "RTLD_DEFAULT finds a runtime");
    check(dlsym(self, "nrt_init") == NULL, "the program has a runtime");
    check(dlsym(RTLD_DEFAULT, "nrt_no_such_function") == NULL, "unknown name");
    p = dlsym(RTLD_NEXT, "malloc");
    check(p && dladdr(p, &info) && strstr(info.dli_fname, "libc"), "RTLD_NEXT");
    check(dlsym(RTLD_DEFAULT, "getpid") != NULL, "getpid");
    open_runtime();
    p = dlsym(rt.handle, "nrt_execute");
    check(p && dladdr(p, &info), "dladdr");
    (void)printf("nrt_execute from %s\n", strrchr(info.dli_fname, '/') + 1);
    check(dlsym(rt.handle, "nrt_inspect_begin") == NULL, "a function that the runtime lacks");
    check(dlsym(RTLD_DEFAULT, "nrt_execute") == NULL, "RTLD_LOCAL");
    (void)dlclose(self);
    return 0;
}

static const char *origin(void *p)
{
    Dl_info info;

    check(p && dladdr(p, &info), "dladdr");
    return strrchr(info.dli_fname, '/') + 1;
}

/* An extension brings the runtime along, unseen by others. */
static int do_plugin(unsigned n)
{
    void *handle = dlopen(getenv("KYMO_TEST_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    int (*run)(unsigned n);
    void *(*look)(const char *name);
    void *p;

    check(handle != NULL, "dlopen");
    p = dlsym(handle, "plugin_run");
    memcpy(&run, &p, sizeof p);
    p = dlsym(handle, "plugin_find");
    memcpy(&look, &p, sizeof p);
    (void)printf("nrt_execute from %s\n", origin(look("nrt_execute")));
    check(look("nrt_inspect_begin") == NULL && dlerror() != NULL, "a function that the runtime lacks");
    check(dlsym(RTLD_DEFAULT, "nrt_execute") == NULL && dlerror() != NULL, "RTLD_LOCAL");
    check(run(n) == NRT_SUCCESS, "plugin_run");
    (void)dlclose(handle);
    return 0;
}

/* The runtime in a namespace of its own. */
static int do_dlmopen(unsigned n)
{
    rt.handle = dlmopen(LM_ID_NEWLM, getenv("KYMO_LIBNRT"), RTLD_NOW | RTLD_LOCAL);
    check(rt.handle != NULL, "dlmopen");
    find_functions();
    (void)printf("nrt_execute from %s\n", origin(dlsym(rt.handle, "nrt_execute")));
    start();
    execute(n);
    end();
    return 0;
}

/* Who asks for what comes next finds the runtime behind us, or nothing. */
static int do_next(unsigned n)
{
    void *library, *p;

    check(dlsym(RTLD_NEXT, "nrt_execute") == NULL && dlerror() != NULL, "RTLD_NEXT finds a runtime");
    library = dlopen(getenv("KYMO_LIBNRT"), RTLD_NOW | RTLD_GLOBAL);
    check(library != NULL, "dlopen");
    p = dlsym(RTLD_DEFAULT, "nrt_execute");
    (void)printf("nrt_execute from %s\n", origin(p));
    rt.handle = RTLD_DEFAULT;
    find_functions();
    start();
    execute(n);
    end();
    (void)dlclose(library);
    return 0;
}

static double ns_between(const struct timespec *a, const struct timespec *b, unsigned n)
{
    return ((double)(b->tv_sec - a->tv_sec) * 1e9 + (double)(b->tv_nsec - a->tv_nsec)) / n;
}

static double measure(execute_fn *f, unsigned n)
{
    struct timespec a, b;

    (void)clock_gettime(CLOCK_MONOTONIC, &a);
    for (unsigned i = 0; i < n; i++)
        (void)f(rt.model, NULL, NULL);
    (void)clock_gettime(CLOCK_MONOTONIC, &b);
    return ns_between(&a, &b, n);
}

/* What two looks at the clock cost, which the hook takes at each execution. */
static double measure_clock(unsigned n)
{
    struct timespec a, b, t;

    (void)clock_gettime(CLOCK_MONOTONIC, &a);
    for (unsigned i = 0; i < n; i++) {
        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        (void)clock_gettime(CLOCK_MONOTONIC, &t);
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &b);
    return ns_between(&a, &b, n);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, RUNS, sizeof *v, by_value);
    return v[RUNS / 2];
}

/* Bare and hooked calls of the same function and looks at the clock in short turns, so that whatever else the machine
 * does meets all alike; the middle one of many rounds. */
static int do_bench(unsigned n)
{
    static double bare[RUNS], added[RUNS], clocks[RUNS];

    begin();
    (void)measure(rt.execute, n);
    for (int i = 0; i < RUNS; i++) {
        bare[i] = measure(rt.bare, n);
        added[i] = measure(rt.execute, n) - bare[i];
        clocks[i] = measure_clock(n);
    }
    (void)printf("%.1f\t%.1f\t%.1f\n", median(bare), median(added), median(clocks));
    end();
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(unsigned n);
    } all[] = {
        {"syscalls", do_syscalls},   {"syscalls-control", do_syscalls_control},
        {"fork", do_fork},           {"exec", do_exec},
        {"once", do_once},           {"threads", do_threads},
        {"churn", do_churn},         {"leave", do_leave},
        {"close-all", do_close_all}, {"errno", do_errno},
        {"dlsym", do_dlsym},         {"bench", do_bench},
        {"plugin", do_plugin},       {"dlmopen", do_dlmopen},
        {"next", do_next},           {"pause", do_pause},
    };

    for (size_t i = 0; argc > 1 && i < sizeof all / sizeof *all; i++)
        if (strcmp(argv[1], all[i].name) == 0)
            return all[i].run(argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1);
    (void)fprintf(stderr, "usage: hook_probe WHAT [N]\n");
    return 2;
}
