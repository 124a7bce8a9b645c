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
#include "driver-iface/sim/sim_subcommands.h"

#define DEFAULT_DRIVER "2.31.0"

struct args {
    const char *socket, *instance, *driver, *truth;
    uint64_t lnc, seed, ready_fd;
    bool drift;
};

static const struct kymo_option rows[] = {
    {.name = "socket",
     .type = KYMO_OPTION_TEXT,
     .arg = "PATH",
     .required = true,
     .offset = offsetof(struct args, socket),
     .help = "where ranks connect (they find it in KYMO_SIM_SOCKET)"},
    {.name = "instance",
     .type = KYMO_OPTION_TEXT,
     .arg = "TYPE",
     .def = "trn2.48xlarge",
     .offset = offsetof(struct args, instance),
     .help = "instance type to simulate"},
    {.name = "lnc",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .min = 0,
     .max = 2,
     .offset = offsetof(struct args, lnc),
     .help = "physical cores per logical core: 1, or 2 on Trn2 and Trn3 (default: the instance's)"},
    {.name = "driver",
     .type = KYMO_OPTION_TEXT,
     .arg = "VERSION",
     .offset = offsetof(struct args, driver),
     .help = "driver version to report (default: KYMO_SIM_DRIVER_VERSION, else " DEFAULT_DRIVER ")"},
    {.name = "truth",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .offset = offsetof(struct args, truth),
     .help = "write what truly happened in each profile below DIR"},
    {.name = "seed",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "1",
     .offset = offsetof(struct args, seed),
     .help = "seed of the models"},
    {.name = "drift",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, drift),
     .help = "let the clocks of Trn1 and Inf2 run off"},
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

static int fill_config(const struct args *args, struct sim_device_config *config, struct kymo_err *err)
{
    const struct kymo_instance *instance = kymo_instance_find(args->instance);
    const char *driver = args->driver ? args->driver : getenv("KYMO_SIM_DRIVER_VERSION");

    if (!instance)
        return kymo_err_set(err, -22, "--instance %s: no instance type that kymo knows", args->instance);
    *config = (struct sim_device_config){
        .instance = instance,
        .arch = kymo_arch_get(instance->gen),
        .lnc = args->lnc ? (unsigned)args->lnc : instance->default_lnc,
        .driver_version = driver && *driver ? driver : DEFAULT_DRIVER,
        .truth_dir = args->truth,
        .seed = args->seed,
        .boot_unix_ns = kymo_clock_real_ns(),
        .drift = args->drift,
    };
    return args->truth ? kymo_file_mkdirs(args->truth, err) : 0;
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
    int r = fill_config(args, &config, err);

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
    if (args.driver && !kymo_version_valid(args.driver)) {
        (void)fprintf(stderr, "kymo-sim device: --driver %.64s: no version such as 2.31.0\n", args.driver);
        return 2;
    }
    if (serve(&args, &err) < 0) {
        kymo_log(KYMO_LOG_ERROR, "%s", err.text);
        return 1;
    }
    return 0;
}
