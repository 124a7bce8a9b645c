/* The collector's settings: one table of options for the command line, the configuration file and CONFIG.md. */
#ifndef KYMO_COLLECTOR_CONFIG_H
#define KYMO_COLLECTOR_CONFIG_H

#include "base/options.h"

struct collector_config {
    const char *config, *ports_file; /* command line only */
    const char *data_path;
    uint64_t reserve;
    const char *listen, *tls_cert, *tls_key, *tls_ca;
    bool plain;
    uint64_t max_connections, max_per_host, window, max_waiting;
    uint64_t jobs, memory, time_limit_s, retry_s;
    bool no_work;
    const char *processor, *processor_schema;
    uint64_t processor_memory, processor_time_s;
    int log_level;
};

extern const struct kymo_options collector_options;

/* What one value alone cannot say. -EINVAL with the reason. */
int collector_config_check(const struct collector_config *c, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
