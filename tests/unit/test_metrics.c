/* The metrics' text and the server that gives it. "test_metrics --write FILE" writes a sample for other tools to read.
 */
#include "daemon/metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "daemon/metrics_http.h"
#include "tests/unit/daemon_parts.h"

static const uint32_t one_core[] = {0};

struct world {
    uv_loop_t loop;
    struct own_cost *cost;
    struct control *control;
    struct metrics *metrics;
    struct metrics_http *http;
    char dir[64], path[96];
    struct kymo_hook_model_slot slots[4];
    struct jobs_rank ranks[JOBS_RANKS_MAX];
    char names[JOBS_RANKS_MAX][32];
    int answer;
};

static struct world world;
static const struct own_cost_ops cost_ops = {0};

static int setup(void **state)
{
    struct world *w = &world;
    memset(w, 0, sizeof *w);
    memset(&parts, 0, sizeof parts);
    (void)snprintf(w->dir, sizeof w->dir, "/tmp/kymo-test-metrics-XXXXXX");
    if (!mkdtemp(w->dir) || uv_loop_init(&w->loop) < 0)
        return 1;
    (void)snprintf(w->path, sizeof w->path, "%.60s/control.sock", w->dir);
    const struct own_cost_limits limits = {0};
    assert_int_equal(own_cost_new(&w->loop, &limits, &cost_ops, w, &w->cost, NULL), 0);
    const struct status_sources sources = {.loop = &w->loop, .cost = w->cost};
    const struct control_config config = {.path = w->path, .listen_fd = -1, .sources = sources};
    assert_int_equal(control_start(&w->loop, &config, &w->control, NULL), 0);
    const struct metrics_sources all = {.status = sources, .control = w->control};
    assert_int_equal(metrics_new(&all, &w->metrics, NULL), 0);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    w->http = metrics_http_stop(w->http);
    w->control = control_stop(w->control);
    w->metrics = metrics_free(w->metrics);
    w->cost = own_cost_free(w->cost);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    return kymo_file_remove_tree(w->dir, NULL);
}

static char *written(struct world *w)
{
    struct kymo_buf text;
    struct kymo_err err = {0};
    kymo_buf_init(&text, METRICS_TEXT_MAX);
    if (metrics_write(w->metrics, &text, &err) < 0)
        fail_msg("%s", err.text);
    char *copy = kymo_strndup((const char *)text.data, text.len);
    kymo_buf_done(&text);
    return copy;
}

static void has(const char *text, const char *line)
{
    char whole[256];
    (void)snprintf(whole, sizeof whole, "\n%s\n", line);
    if (!strstr(text, whole))
        fail_msg("no line \"%s\" in:\n%.20000s", line, text);
}

static void add_rank(struct world *w, const char *job, uint32_t pid, size_t slot)
{
    struct jobs_rank *r = &w->ranks[parts.nranks++];
    *r = (struct jobs_rank){.job = job, .pid = pid, .start = 1, .ncores = 1, .cores = one_core, .step = pid};
    r->slot = slot < 4 ? &w->slots[slot] : NULL;
    parts.ranks = w->ranks;
}

static void sample(struct world *w)
{
    parts.counts.sent = 12;
    parts.counts.stall_ns = 1500000000;
    parts.counts.refused[KYMO_HOOK_REASON_MEMORY] = 3;
    parts.outbox.nlinks = 1;
    (void)snprintf(parts.outbox.links[0].address, sizeof parts.outbox.links[0].address, "c\"1\":3002");
    parts.outbox.links[0].state = OUTBOX_LINK_UP;
    parts.outbox.lag_bytes = 77;
    parts.outbox.spool.lost_since_open[SPOOL_EVICTED] = (struct spool_amount){2, 200};
    parts.outbox.spool.stopped = true;
    parts.hooks.sessions = 2;
    parts.njobs = 1;
    add_rank(w, "train \\ \"x\"\n", 1, 0);
    add_rank(w, "train \\ \"x\"\n", 2, 1);
    w->slots[0] = w->slots[1] = (struct kymo_hook_model_slot){.model = 1, .total_ns = 30000};
    w->slots[0].buckets[kymo_hook_bucket(900)] = 1;
    w->slots[0].buckets[kymo_hook_bucket(20000)] = 2;
    w->slots[1].buckets[kymo_hook_bucket(1000000000000)] = 4;
}

static void test_text(void **state)
{
    struct world *w = *state;
    sample(w);
    char *text KYMO_FREE = written(w);
    has(text, "kymod_captures_total{state=\"sent\"} 12");
    has(text, "kymod_capture_refusals_total{reason=\"too little device memory\"} 3");
    has(text, "kymod_capture_stall_seconds_total 1.500000000");
    has(text, "kymod_spool_lost_captures_total{cause=\"evicted\"} 2");
    has(text, "kymod_spool_lost_bytes_total{cause=\"evicted\"} 200");
    has(text, "kymod_spool_state{state=\"stopped\"} 1");
    has(text, "kymod_spool_state{state=\"ok\"} 0");
    has(text, "kymod_uplink_lag_bytes 77");
    has(text, "kymod_uplink_up{collector=\"c\\\"1\\\":3002\"} 1");
    has(text, "kymod_hook_sessions 2");
    has(text, "kymod_ranks 2");
    has(text, "kymod_job_ranks{job_name=\"train \\\\ \\\"x\\\"\\n\"} 2");
    has(text, "kymod_job_step{job_name=\"train \\\\ \\\"x\\\"\\n\"} 2");
    has(text, "kymod_step_latency_seconds_bucket{job_name=\"train \\\\ \\\"x\\\"\\n\",le=\"0.000016384\"} 1");
    has(text, "kymod_step_latency_seconds_bucket{job_name=\"train \\\\ \\\"x\\\"\\n\",le=\"0.000032768\"} 3");
    has(text, "kymod_step_latency_seconds_bucket{job_name=\"train \\\\ \\\"x\\\"\\n\",le=\"137.438953472\"} 3");
    has(text, "kymod_step_latency_seconds_bucket{job_name=\"train \\\\ \\\"x\\\"\\n\",le=\"+Inf\"} 7");
    has(text, "kymod_step_latency_seconds_sum{job_name=\"train \\\\ \\\"x\\\"\\n\"} 0.000060000");
    has(text, "kymod_step_latency_seconds_count{job_name=\"train \\\\ \\\"x\\\"\\n\"} 7");
    has(text, "kymod_shedding{rung=\"everything\"} 1");
}

/* Ranks come, go and begin again: what a job has counted does not shrink. */
static void test_growth(void **state)
{
    struct world *w = *state;
    add_rank(w, "j", 1, 0);
    add_rank(w, "j", 2, 1);
    w->slots[0].model = w->slots[1].model = 1;
    w->slots[0].buckets[60] = 10;
    w->slots[1].buckets[60] = 5;
    char *text = written(w);
    has(text, "kymod_step_latency_seconds_count{job_name=\"j\"} 15");
    kymo_free(text);
    w->slots[1].buckets[60] = 7;
    text = written(w);
    has(text, "kymod_step_latency_seconds_count{job_name=\"j\"} 17");
    kymo_free(text);
    parts.nranks = 1;
    text = written(w);
    has(text, "kymod_step_latency_seconds_count{job_name=\"j\"} 17");
    kymo_free(text);
    /* The same number, another process; and a model after another. */
    add_rank(w, "j", 2, 1);
    w->ranks[1].start = 2;
    w->slots[1].buckets[60] = 1;
    w->slots[0].model = 2;
    w->slots[0].buckets[60] = 11;
    text = written(w);
    has(text, "kymod_step_latency_seconds_count{job_name=\"j\"} 29");
    kymo_free(text);
    parts.nranks = 0;
    text = written(w);
    assert_null(strstr(text, "job_name"));
    kymo_free(text);
}

static void test_many_jobs(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < 600; i++) {
        (void)snprintf(w->names[i], sizeof w->names[i], "job-%zu", i);
        add_rank(w, w->names[i], (uint32_t)i + 1, 0);
    }
    char *text = written(w);
    has(text, "kymod_job_ranks{job_name=\"job-0\"} 1");
    has(text, "kymod_job_ranks{job_name=\"job-31\"} 1");
    has(text, "kymod_job_ranks{job_name=\"other\"} 568");
    assert_null(strstr(text, "job-32\""));
    kymo_free(text);
    /* Those that go make room for others. */
    for (int i = 0; i < 3; i++) {
        parts.ranks = w->ranks + 300;
        parts.nranks = 20;
        kymo_free(written(w));
    }
    text = written(w);
    has(text, "kymod_job_ranks{job_name=\"job-319\"} 1");
    assert_null(strstr(text, "other"));
    kymo_free(text);
}

static void test_no_memory(void **state)
{
    struct world *w = *state;
    struct kymo_buf text;
    sample(w);
    for (long i = 0; i < 4; i++) {
        kymo_buf_init(&text, METRICS_TEXT_MAX);
        kymo_alloc_fail_after(i);
        int r = metrics_write(w->metrics, &text, NULL);
        kymo_alloc_fail_after(-1);
        assert_true(r == 0 || r == -ENOMEM);
        kymo_buf_done(&text);
    }
    kymo_buf_init(&text, 100);
    assert_int_equal(metrics_write(w->metrics, &text, NULL), -ENOBUFS);
    kymo_buf_done(&text);
}

static void test_judge(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        int status;
    } rows[] = {
        {"", 0},
        {"GET /metrics HTTP/1.1\r\nHost: localhost:9464\r\n\r", 0},
        {"GET /metrics HTTP/1.1\r\nHost: localhost:9464\r\n\r\n", 200},
        {"GET /metrics HTTP/1.0\n\n", 200},
        {"HEAD /metrics?a=b HTTP/1.1\r\nHost:[::1]\r\n\r\n", 200},
        {"GET /metrics HTTP/1.1\r\nHost: 10.0.0.1:9464\r\n\r\n", 200},
        {"GET /metrics HTTP/1.1\r\nX: y\r\nHOST: evil.example\r\n\r\n", 403},
        {"GET /metrics HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", 403},
        {"GET /metrics HTTP/1.1\r\nHost:\r\n\r\n", 403},
        {"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n", 403},
        {"GET / HTTP/1.1\r\n\r\n", 404},
        {"GET /metricsx HTTP/1.1\r\n\r\n", 404},
        {"POST /metrics HTTP/1.1\r\n\r\n", 405},
        {"GET /metrics\r\n\r\n", 400},
        {"GET /metrics HTTP/2.0\r\n\r\n", 400},
        {"\r\n\r\n", 400},
        {"\n\n", 400},
    };
    bool head_only;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int status = metrics_http_judge(rows[i].head, strlen(rows[i].head), &head_only);
        if (status != rows[i].status)
            fail_msg("%d instead of %d for: %s", status, rows[i].status, rows[i].head);
        assert_int_equal(head_only, !strncmp(rows[i].head, "HEAD", 4));
    }
}

static int write_body(void *ctx, struct kymo_buf *text, struct kymo_err *err)
{
    struct world *w = ctx;
    return w->answer < 0 ? kymo_err_set(err, w->answer, "no figures") : metrics_write(w->metrics, text, err);
}

static void serve(struct world *w)
{
    const struct metrics_http_config config = {.address = "127.0.0.1:0", .write = write_body, .ctx = w};
    struct kymo_err err = {0};
    if (metrics_http_start(&w->loop, &config, &w->http, &err) < 0)
        fail_msg("%s", err.text);
}

static int dial(const struct world *w)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)metrics_http_port(w->http))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* All that comes until the other side closes, as text; -1: it did not within the turns. */
static int listen_to(struct world *w, int fd, char *text, size_t size, int turns)
{
    size_t n = 0;
    for (int i = 0; i < turns; i++) {
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
        ssize_t got = recv(fd, text + n, size - 1 - n, MSG_DONTWAIT);
        n += got > 0 ? (size_t)got : 0;
        text[n] = '\0';
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return (int)n;
        if (got < 0)
            (void)usleep(200);
    }
    return -1;
}

static char answer[METRICS_TEXT_MAX];

static const char *ask(struct world *w, const char *request)
{
    int fd = dial(w);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    assert_true(listen_to(w, fd, answer, sizeof answer, 5000) >= 0);
    (void)close(fd);
    return answer;
}

static void test_http(void **state)
{
    struct world *w = *state;
    sample(w);
    serve(w);
    const char *text = ask(w, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert_int_equal(strncmp(text, "HTTP/1.1 200 OK\r\n", 17), 0);
    assert_non_null(strstr(text, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    const char *body = strstr(text, "\r\n\r\n") + 4;
    const char *length = strstr(text, "Content-Length: ");
    assert_int_equal(strtoul(length + 16, NULL, 10), strlen(body));
    has(body, "kymod_uplink_lag_bytes 77");
    text = ask(w, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n");
    assert_int_equal(strncmp(ask(w, "GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 404", 12), 0);
    assert_non_null(strstr(ask(w, "PUT /metrics HTTP/1.1\r\n\r\n"), "Allow: GET, HEAD\r\n"));
    assert_int_equal(strncmp(ask(w, "\x16\x03\x01 tls?\n\n"), "HTTP/1.1 400", 12), 0);
    w->answer = -ENOMEM;
    assert_non_null(strstr(ask(w, "GET /metrics HTTP/1.1\r\n\r\n"), "no figures"));
}

/* Too long a head, too many clients, one that goes while it is answered, and one that says nothing. */
static void test_http_hostile(void **state)
{
    struct world *w = *state;
    static char large[3 * METRICS_HTTP_HEAD_MAX];
    char text[4096];
    int fds[METRICS_HTTP_CLIENTS_MAX + 4];
    serve(w);
    memset(large, 'a', sizeof large);
    int fd = dial(w);
    assert_true(send(fd, large, sizeof large, MSG_NOSIGNAL) > 0);
    (void)listen_to(w, fd, text, sizeof text, 5000);
    assert_int_equal(strncmp(text, "HTTP/1.1 431", 12), 0);
    (void)close(fd);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        fds[i] = dial(w);
    /* The oldest has made room, and whoever asks is answered though all the others say nothing. */
    assert_true(listen_to(w, fds[0], text, sizeof text, 2000) >= 0);
    assert_int_equal(strncmp(ask(w, "GET /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 200", 12), 0);
    const size_t last = sizeof fds / sizeof fds[0] - 1;
    assert_int_equal(send(fds[last], "GET /metrics HTTP/1.1\r\n\r\n", 25, MSG_NOSIGNAL), 25);
    (void)close(fds[last]);
    assert_int_equal(listen_to(w, fds[last - 1], text, sizeof text, 100), -1);
    for (size_t i = 0; i < last; i++)
        (void)close(fds[i]);
    for (int i = 0; i < 20; i++)
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    assert_int_equal(strncmp(ask(w, "GET /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 200", 12), 0);
    struct metrics_http *second = NULL;
    struct kymo_err err = {0};
    const struct metrics_http_config config = {.address = "somewhere:1", .write = write_body, .ctx = w};
    assert_int_equal(metrics_http_start(&w->loop, &config, &second, &err), -EINVAL);
}

static void test_http_silent(void **state)
{
    struct world *w = *state;
    char text[64];
    serve(w);
    int fd = dial(w);
    assert_int_equal(send(fd, "GET /met", 8, MSG_NOSIGNAL), 8);
    uint64_t begin = uv_hrtime();
    for (int i = 0; i < 40 && listen_to(w, fd, text, sizeof text, 1000) < 0; i++)
        ;
    assert_in_range((uv_hrtime() - begin) / 1000000, METRICS_HTTP_HEAD_MS - 1000, METRICS_HTTP_HEAD_MS + 3000);
    (void)close(fd);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static int write_sample(const char *path)
{
    void *state = NULL;
    if (setup(&state) != 0)
        return 1;
    sample(&world);
    char *text KYMO_FREE = written(&world);
    int r = kymo_file_write_atomic(path, text, strlen(text), NULL);
    return teardown(&state) != 0 || r < 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        T(test_text),  T(test_growth), T(test_many_jobs),    T(test_no_memory),
        T(test_judge), T(test_http),   T(test_http_hostile), T(test_http_silent),
    };
    if (argc == 3 && !strcmp(argv[1], "--write"))
        return write_sample(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
