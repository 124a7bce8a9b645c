/* kymo-sim device: holds the simulated devices of one instance and serves ranks until it is told to stop. */
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/sock.h"
#include "driver-iface/sim/sim_device.h"
#include "driver-iface/sim/sim_host.h"
#include "driver-iface/sim/sim_subcommands.h"

struct args {
    struct sim_host host;
    const char *socket;
    uint64_t ready_fd;
};

static const struct kymo_option rows[] = {{.name = "socket",
                                           .type = KYMO_OPTION_TEXT,
                                           .arg = "PATH",
                                           .required = true,
                                           .offset = offsetof(struct args, socket),
                                           .help = "where ranks connect (they find it in KYMO_SIM_SOCKET)"},
                                          SIM_HOST_ROWS(struct args, host),
                                          {.name = "ready-fd",
                                           .type = KYMO_OPTION_U64,
                                           .arg = "FD",
                                           .max = 1023,
                                           .offset = offsetof(struct args, ready_fd),
                                           .help = "write one byte to this descriptor when ranks may connect"},
                                          {0}};

static const struct kymo_options spec = {
    .program = "kymo-sim device",
    .about = "Holds simulated Neuron devices whose rings ranks attach to, until SIGTERM or SIGINT.",
    .rows = rows};

static int fill_config(const struct sim_host *host, struct sim_device_config *config, struct kymo_err *err)
{
    const char *driver = host->driver ? host->driver : getenv("KYMO_SIM_DRIVER_VERSION");

    *config = (struct sim_device_config){
        .instance = host->instance,
        .arch = host->arch,
        .lnc = host->lnc,
        .driver_version = driver && *driver ? driver : SIM_HOST_DRIVER,
        .truth_dir = host->truth,
        .sysfs_dir = host->sysfs,
        .seed = host->seed,
        .boot_unix_ns = kymo_clock_real_ns(),
        .drift = host->drift,
        .notices = host->notices,
    };
    return host->truth ? kymo_file_mkdirs(host->truth, err) : 0;
}

static int stop_descriptor(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* threads inherit it, so that only the descriptor tells */
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static int serve(const struct args *args, struct kymo_err *err)
{
    struct sim_device_config config;
    struct sim_device *device KYMO_CLEANUP(sim_device_freep) = NULL;
    int stop_fd KYMO_CLOSE = stop_descriptor();
    int listen_fd KYMO_CLOSE = -1;
    int r = fill_config(&args->host, &config, err);

    if (r == 0)
        r = sim_device_new(&config, &device, err);
    if (r < 0)
        return r;
    listen_fd = kymo_sock_listen(args->socket, err);
    if (listen_fd < 0)
        return listen_fd;
    if (args->ready_fd && write((int)args->ready_fd, "r", 1) != 1)
        kymo_log(KYMO_LOG_WARNING, "nobody reads --ready-fd %llu, ignoring", (unsigned long long)args->ready_fd);
    if (args->ready_fd)
        (void)close((int)args->ready_fd);
    r = sim_device_serve(device, listen_fd, stop_fd, err);
    (void)unlink(args->socket);
    return r;
}

int sim_cmd_device_main(int argc, char **argv)
{
    struct args args;
    struct kymo_err err = {0};
    int code = kymo_options_main(&spec, argc, argv, &args);

    if (code >= 0)
        return code;
    kymo_log_init("kymo-sim device", KYMO_LOG_INFO);
    if (sim_host_check(&args.host, &err) < 0) {
        (void)fprintf(stderr, "kymo-sim device: %s; see kymo-sim device --help\n", err.text);
        return 2;
    }
    if (serve(&args, &err) < 0) {
        kymo_log(KYMO_LOG_ERROR, "%s", err.text);
        return 1;
    }
    return 0;
}
