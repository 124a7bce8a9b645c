/*
 * SIGINT and SIGTERM end an inspection session as they do with the vendor's library: the session is written, then
 * whatever was installed before happens. Writing is not safe inside a handler, so the handler only wakes a thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "driver-iface/sim/libnrt/libnrt.h"

static const int signals[2] = {SIGINT, SIGTERM};

static struct {
    struct sigaction before[2];
    bool installed;
    int wake[2];
    atomic_int pid; /* whose thread listens */
} state = {.wake = {-1, -1}};

static void handler(int signo)
{
    int saved = errno;
    unsigned char byte = (unsigned char)signo;

    if (atomic_load(&state.pid) != getpid()) {
        /* A forked child has the handler but not the thread, and no session of its own. */
        (void)signal(signo, SIG_DFL);
        (void)raise(signo);
    } else if (write(state.wake[1], &byte, 1) < 0) {
        /* The pipe is full: the thread has been woken already. */
    }
    errno = saved;
}

static void *listen_for_signals(void *arg)
{
    unsigned char byte;

    for (;;) {
        ssize_t n = read(state.wake[0], &byte, 1);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return arg;
        (void)pthread_mutex_lock(&rt.lock);
        if (rt.state == LIBNRT_READY && rt.inspecting)
            (void)libnrt_inspect_finish();
        libnrt_signals_restore();
        (void)pthread_mutex_unlock(&rt.lock);
        (void)kill(getpid(), byte);
    }
}

/* One thread for the life of the process: a handler may wake it at any time. */
static bool start_thread(void)
{
    pthread_t thread;
    sigset_t all, before;
    int r;

    if (atomic_load(&state.pid) == getpid())
        return true;
    if (pipe2(state.wake, O_CLOEXEC) < 0 || fcntl(state.wake[1], F_SETFL, O_NONBLOCK) < 0)
        return false;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&thread, NULL, listen_for_signals, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0)
        return false;
    (void)pthread_detach(thread);
    atomic_store(&state.pid, (int)getpid());
    return true;
}

void libnrt_signals_install(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};

    if (state.installed || !start_thread())
        return;
    (void)sigemptyset(&action.sa_mask);
    for (int i = 0; i < 2; i++)
        (void)sigaction(signals[i], &action, &state.before[i]);
    state.installed = true;
}

void libnrt_signals_restore(void)
{
    struct sigaction now;

    if (!state.installed)
        return;
    for (int i = 0; i < 2; i++)
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == handler)
            (void)sigaction(signals[i], &state.before[i], NULL);
    state.installed = false;
}
