/*
 * The collector's settings: one table of options for the command line, the configuration file and CONFIG.md, and what
 * the other modules take of them.
 */
#ifndef KYMO_COLLECTOR_CONFIG_H
#define KYMO_COLLECTOR_CONFIG_H

#include "base/ini.h"
#include "base/options.h"
#include "collector/incoming.h"
#include "collector/work_queue.h"

struct collector_config {
    const char *config, *ports_file;
    const char *data_path;
    uint64_t reserve;
    uint64_t incoming_max_age_s, incoming_max, incoming_max_per_host;
    const char *listen, *tls_cert, *tls_key, *tls_ca;
    bool plain;
    const char *http, *http_cert, *http_key, *http_token_file;
    const char *framework_root, *nki_root;
    uint64_t upload_max, upload_idle_s;
    bool http_plain;
    struct kymo_option_list http_names;
    uint64_t max_connections, max_per_host, window, max_waiting;
    uint64_t jobs, memory, time_limit_s, retry_s, gather_settle_s, gather_limit_s;
    const char *cluster;
    bool no_work;
    const char *processor, *processor_schema;
    uint64_t processor_memory, processor_time_s;
    int log_level;
};

extern const struct kymo_ini_spec collector_ini;

/* Settings with the texts they point to; a reload makes another one. */
struct collector_settings {
    struct collector_config values;
    struct kymo_ini *ini;
    struct external external; /* the table's processor rows */
};

/* Defaults, file, command line. Returns an enum kymo_options_outcome or a negative errno. */
int collector_settings_load(int argc, char *const *argv, struct collector_settings **ret,
                            struct kymo_err *err) KYMO_MUST_CHECK;
/* For main, as kymo_ini_main. */
int collector_settings_main(int argc, char *const *argv, struct collector_settings **ret) KYMO_MUST_CHECK;
struct collector_settings *collector_settings_free(struct collector_settings *s); /* NULL is fine; returns NULL */

/* The limits and programs of a work queue. It points into s and to the programs' paths; gather may be NULL. */
struct work_queue_config collector_settings_work(const struct collector_settings *s, const char *process,
                                                 const char *gather);

struct incoming_limits collector_settings_incoming(const struct collector_settings *s);

/* Whether a key takes effect on SIGHUP. */
bool collector_reloads(const char *key);
/* Calls back for each key that differs and takes effect at the next start only. */
void collector_settings_compare(const struct collector_settings *a, const struct collector_settings *b,
                                void (*each)(void *ctx, const char *key), void *ctx);

#endif
