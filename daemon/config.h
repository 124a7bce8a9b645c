/*
 * What the operator tells kymod: one table of keys, used by the command line and by the configuration file
 * (base/ini.h), described in daemon/CONFIG.md. Constant once loaded; a reload makes another one.
 */
#ifndef KYMO_DAEMON_CONFIG_H
#define KYMO_DAEMON_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ini.h"
#include "daemon/spool/spool.h"
#include "proto/hook.h"

#define CONFIG_OVERRIDES_MAX 32
#define CONFIG_BUFFERS 7 /* as KYMO_HOOK_BUFFER_MAP numbers them */
#define CONFIG_PATH_MAX 255

/* What a job is asked for. */
struct config_policy {
    bool off;          /* captures nothing, counts nothing */
    uint64_t period_s; /* between periodic captures of a job; 0: none */
    double jitter;     /* 0 to 1: part of the period */
    uint64_t ranks_one_in;
    const char *step_model; /* whose executions are steps (rank_step_model); NULL: the most often executed */
    int mode;               /* enum config_mode: of captures */
    int armed;              /* enum config_armed: between captures */
    uint64_t count;
    uint64_t stall_ms;
    uint64_t neff_bytes, neff_total_bytes;
    uint64_t buffer_mb[CONFIG_BUFFERS]; /* 0: what the runtime does by itself */
    bool h2d_dma_off;
    bool system_trace; /* sessions trace the system too */
    int learn;         /* 1: rings that lost records grow at the job's next start */
    uint64_t hbm_budget;
};
enum config_mode { CONFIG_MODEL, CONFIG_CONTINUOUS, CONFIG_SESSION };
enum config_armed { CONFIG_ARMED_NONE, CONFIG_ARMED_CONTINUOUS, CONFIG_ARMED_ON_FAILURE };

enum config_bus { CONFIG_BUS_OFF, CONFIG_BUS_SYSTEM, CONFIG_BUS_SESSION };

/* Numbers of the protocol for the choices above. */
enum kymo_hook_mode config_mode(const struct config_policy *p);
enum kymo_hook_mode config_armed(const struct config_policy *p);

struct config_override {
    bool by_unit; /* pattern is for the unit; else for the job's name */
    const char *pattern;
    struct config_policy policy;
};

struct config {
    const char *file;
    const char *data_dir, *intake_dir, *socket_dir;
    bool off;
    struct config_policy policy;
    size_t noverrides;
    struct config_override overrides[CONFIG_OVERRIDES_MAX];

    struct kymo_option_list collectors;
    const char *tls_ca, *tls_cert, *tls_key;
    bool plain_anywhere;
    uint64_t zstd_level, rate_bytes_s;

    int spool_policy; /* enum spool_policy */
    uint64_t spool_bytes, spool_capture_bytes, spool_captures, spool_neff_bytes, spool_floor_bytes, spool_reserve_bytes;

    uint64_t sessions_max, sessions_per_uid;
    uint64_t intake_bytes, neff_user_bytes; /* of one user: in the intake; programs that are loaded and kept for it */
    uint64_t capture_timeout_s, capture_begin_timeout_s;
    double cpu_percent; /* of one core, over a minute; what goes beyond is shed (own_cost.h); 0: no limit */
    uint64_t disk_bytes_s, net_bytes_s;
    const char *group; /* whose members may use the control socket and the bus; NULL: none */
    int bus;           /* enum config_bus */
    const char *metrics, *host, *instance_type, *sysfs;

    const struct config_policy *inherit; /* while loading: what sections begin with */
    struct kymo_ini *texts;
    bool verbose;
};

/* The table, for help and for the test that holds CONFIG.md against it. */
extern const struct kymo_ini_spec config_spec;

/*
 * Defaults, file and command line. Returns an enum kymo_options_outcome or a negative errno (a text names the key, and
 * the line where there is one); *ret is set for KYMO_OPTIONS_PARSED.
 */
int config_load(int argc, char *const *argv, struct config **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct config *config_free(struct config *c); /* returns NULL; NULL is fine */

/* Names of keys that differ and count only at start, joined by ", "; "": none. */
void config_fixed_changes(const struct config *before, const struct config *after, char *out, size_t n);

/* The first override whose pattern matches, else the policy of all. Strings may be NULL. */
const struct config_policy *config_policy_of(const struct config *c, const char *job, const char *unit);

struct spool_limits config_spool_limits(const struct config *c);

#endif
