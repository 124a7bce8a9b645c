/* How the collector is: hosts, status, metrics. */
#include <string.h>

#include "base/prom.h"
#include "collector/api_impl.h"
#include "collector/api_params.h"
#include "collector/json_text.h"

#define METRICS_MAX (256u << 10)

static const char *const no_params[] = {NULL};

static void add_host(void *ctx, const struct api_host *h)
{
    json_t *o = json_object();
    json_put(o, "name", json_text(h->name), true);
    json_put(o, "address", json_text(h->address), true);
    json_put(o, "version", json_text(h->version), *h->version);
    json_put(o, "connected_ns", json_integer(h->connected_ns), true);
    json_put(o, "captures", json_number(h->captures), true);
    json_put(o, "bytes", json_number(h->bytes), true);
    json_put(o, "open", json_number(h->open), true);
    (void)json_array_append_new(ctx, o);
}

void api_get_hosts(void *ctx, struct http_request *q)
{
    struct api *a = ctx;
    if (!api_params_known(q, no_params))
        return;
    json_t *hosts = json_array();
    a->source.hosts(a->source.ctx, add_host, hosts);
    http_answer_json(q, 200, json_pack("{s:o}", "hosts", hosts));
}

static json_t *counts_json(const uint64_t counts[static CATALOG_STATE_MAX])
{
    json_t *o = json_object();
    for (int i = 0; i < CATALOG_STATE_MAX; i++)
        json_put(o, catalog_state_name((enum catalog_state)i), json_number(counts[i]), true);
    return o;
}

void api_get_status(void *ctx, struct http_request *q)
{
    struct api *a = ctx;
    struct api_figures f = {0};
    struct kymo_err err = {0};
    uint64_t counts[CATALOG_STATE_MAX];
    if (!api_params_known(q, no_params))
        return;
    if (catalog_count(a->catalog, counts, &err) < 0) {
        http_answer_err(q, &err);
        return;
    }
    a->source.figures(a->source.ctx, &f);
    json_t *o = json_object();
    json_put(o, "version", json_text(KYMO_VERSION), true);
    json_put(o, "data_path", json_text(a->data_path), true);
    json_put(o, "started_ns", json_integer(f.started_ns), true);
    json_put(o, "trouble", json_text(f.trouble ? f.trouble : ""), f.trouble != NULL);
    json_put(o, "hosts", json_number(f.hosts), true);
    json_put(o, "profiles", counts_json(counts), true);
    json_put(o, "captures_stored", json_number(f.captures_stored), true);
    json_put(o, "captures_open", json_number(f.captures_open), true);
    json_put(o, "bytes_received", json_number(f.bytes_received), true);
    json_put(o, "disk_free", json_number(f.disk_free), true);
    json_put(o, "disk_total", json_number(f.disk_total), true);
    http_answer_json(q, 200, o);
}

static void put_receiver(struct prom *p, const struct api_figures *f)
{
    prom_gauge(p, "kymo_collector_start_time_seconds", (uint64_t)f->started_ns / 1000000000, "Start, Unix time.");
    prom_gauge(p, "kymo_collector_trouble", f->trouble != NULL, "1 while the store cannot go on; see /api/v1/status.");
    prom_gauge(p, "kymo_collector_hosts", f->hosts, "Daemons connected.");
    prom_counter(p, "kymo_collector_hosts_accepted_total", f->hosts_accepted, "Connections of daemons accepted.");
    prom_counter(p, "kymo_collector_captures_stored_total", f->captures_stored, "Captures received and stored.");
    prom_counter(p, "kymo_collector_captures_known_total", f->captures_known, "Captures offered that were stored.");
    prom_gauge(p, "kymo_collector_captures_open", f->captures_open, "Captures on their way.");
    prom_counter(p, "kymo_collector_received_bytes_total", f->bytes_received, "Bytes of captures received.");
    prom_gauge(p, "kymo_collector_waiting_bytes", f->bytes_waiting, "Bytes received, not taken by the store yet.");
    prom_gauge(p, "kymo_collector_incoming_captures", f->incoming, "Captures that are not complete, on the disk.");
    prom_gauge(p, "kymo_collector_incoming_bytes", f->incoming_bytes, "What they take, or will if on their way.");
    prom_family(p, "kymo_collector_forgotten_total", "counter", "Captures given up that no host went on with.");
    prom_value(p, f->forgotten_age, "cause", "age");
    prom_value(p, f->forgotten_room, "cause", "room");
    prom_family(p, "kymo_collector_refused_total", "counter", "Captures and connections turned away.");
    for (size_t i = 0; i < f->n_refused && i < API_CAUSES_MAX; i++)
        prom_value(p, f->refused[i].n, "cause", f->refused[i].cause);
}

static void put_store(struct prom *p, const struct api_figures *f, const uint64_t counts[static CATALOG_STATE_MAX])
{
    prom_family(p, "kymo_collector_profiles", "gauge", "Profiles in the catalogue by state.");
    for (int i = 0; i < CATALOG_STATE_MAX; i++)
        prom_value(p, counts[i], "state", catalog_state_name((enum catalog_state)i));
    prom_family(p, "kymo_collector_processed_total", "counter", "Profiles made, or given up, since the start.");
    prom_value(p, f->profiles_ready, "result", "ready");
    prom_value(p, f->profiles_failed, "result", "failed");
    prom_family(p, "kymo_collector_processing_seconds_total", "counter", "Time that making them took.");
    prom_seconds(p, f->processing_ns, NULL, NULL);
    prom_gauge(p, "kymo_collector_disk_free_bytes", f->disk_free, "Free on the store's file system.");
    prom_gauge(p, "kymo_collector_disk_bytes", f->disk_total, "Size of the store's file system.");
}

static void put_http(struct prom *p, const struct http_figures *f)
{
    char class[] = "1xx";
    prom_gauge(p, "kymo_collector_http_connections", f->connections, "HTTP connections open.");
    prom_counter(p, "kymo_collector_http_accepted_total", f->accepted, "HTTP connections accepted.");
    prom_family(p, "kymo_collector_http_answers_total", "counter", "HTTP answers by class of status.");
    for (int i = 2; i < 6; i++) {
        class[0] = (char)('0' + i);
        prom_value(p, f->answers[i], "status", class);
    }
    prom_family(p, "kymo_collector_http_refused_total", "counter", "HTTP requests and connections turned away.");
    for (int i = 0; i < HTTP_REFUSAL_MAX; i++)
        prom_value(p, f->refused[i], "cause", http_refusal_name((enum http_refusal)i));
}

void api_get_metrics(void *ctx, struct http_request *q)
{
    struct api *a = ctx;
    struct api_figures f = {0};
    struct http_figures http;
    struct kymo_err err = {0};
    struct kymo_buf buf;
    uint64_t counts[CATALOG_STATE_MAX] = {0};
    if (!api_params_known(q, no_params))
        return;
    kymo_buf_init(&buf, METRICS_MAX);
    struct prom p = {.buf = &buf};
    a->source.figures(a->source.ctx, &f);
    /* A catalogue that cannot be read, such as on a failing disk, must not hide all else. */
    if (catalog_count(a->catalog, counts, &err) < 0 && !f.trouble)
        f.trouble = err.text;
    put_receiver(&p, &f);
    put_store(&p, &f, counts);
    if (a->http) {
        http_figures(a->http, &http);
        put_http(&p, &http);
    }
    if (p.failed)
        http_answer_error(q, 500, "no_memory", "no memory for the metrics");
    else
        http_answer_text(q, 200, PROM_CONTENT_TYPE, buf.data, buf.len);
    kymo_buf_done(&buf);
}

/* The API's own description. */
void api_get_openapi(void *ctx, struct http_request *q)
{
    (void)ctx;
    if (api_params_known(q, no_params))
        http_answer_text(q, 200, "application/json", api_openapi, api_openapi_n);
}
