#include "driver-iface/sim/sim_job.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "driver-iface/sim/sim_framework.h"
#include "driver-iface/sim/sim_job_life.h"
#include "formats/neff/neff.h"

#define MODELS_MAX 64u
#define TENSORS_MAX 64u
#define TENSOR_BYTES_MAX (64ull << 20) /* what the job moves per tensor, however large the model's is */
#define BALLAST_PIECE (256ull << 20)   /* host memory stands behind it, untouched */
#define BALLAST_MAX (SIM_JOB_BALLAST_MAX / BALLAST_PIECE)
#define POLL_NS 200000
#define POLLS_MAX 3000000u

struct model {
    nrt_model_t *handle;
    nrt_tensor_set_t *inputs, *outputs;
    nrt_tensor_t *tensors[TENSORS_MAX];
    size_t n_tensors;
    nrt_tensor_t *batch, *result; /* written and read at each step; NULL: the model has none */
};

struct run {
    const struct nrt_api *api;
    const struct sim_job *job;
    struct model models[MODELS_MAX];
    size_t n_models;
    uint8_t *host; /* TENSOR_BYTES_MAX */
    nrta_error_tracker_t *errors;
    nrt_profile_continuous_options_t *continuous;
    bool in_session;
    struct sim_framework *framework; /* NULL: its steps are not traced */
    nrt_tensor_t **ballast;
    size_t n_ballast;
};

static const struct kymo_option rows[] = {
    {.name = "neff",
     .type = KYMO_OPTION_LIST,
     .arg = "FILE",
     .required = true,
     .offset = offsetof(struct sim_job, neffs),
     .help = "program to load; several are executed in turn at each step"},
    {.name = "steps",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = SIM_JOB_STEPS_MAX,
     .offset = offsetof(struct sim_job, steps),
     .help = "steps to run"},
    {.name = "first-step",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "0",
     .max = SIM_JOB_STEPS_MAX,
     .offset = offsetof(struct sim_job, first_step),
     .help = "go on with this step; --fork-at and --exec-at before it are over"},
    {.name = "step-ms",
     .type = KYMO_OPTION_U64,
     .arg = "MS",
     .max = SIM_JOB_STEP_MS_MAX,
     .offset = offsetof(struct sim_job, step_ms),
     .help = "begin a step every MS milliseconds"},
    {.name = "ranks",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = SIM_JOB_RANKS_MAX,
     .offset = offsetof(struct sim_job, ranks),
     .help = "ranks of the job, for programs with collectives"},
    {.name = "rank",
     .type = KYMO_OPTION_U64,
     .arg = "R",
     .def = "0",
     .max = 65535,
     .offset = offsetof(struct sim_job, rank),
     .help = "number that the printed lines carry"},
    {.name = "capture",
     .type = KYMO_OPTION_CHOICE,
     .choices = "none|continuous|session",
     .def = "none",
     .offset = offsetof(struct sim_job, capture),
     .help = "what the job itself captures"},
    {.name = "capture-steps",
     .type = KYMO_OPTION_TEXT,
     .arg = "LIST",
     .offset = offsetof(struct sim_job, capture_steps),
     .help = "steps to capture, from 0, as 3,5-7 (default: the last)"},
    {.name = "output",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .def = "./output",
     .offset = offsetof(struct sim_job, output),
     .help = "directory for the captures"},
    {.name = "system",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct sim_job, system),
     .help = "trace the system in sessions, and write the framework's steps beside them"},
    {.name = "async",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct sim_job, async),
     .help = "schedule executions instead of waiting for each"},
    {.name = "helpers",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .max = SIM_JOB_STEPS_MAX,
     .offset = offsetof(struct sim_job, helpers),
     .help = "after every N-th step fork a child, and start a program"},
    {.name = "fork-at",
     .type = KYMO_OPTION_TEXT,
     .arg = "K",
     .offset = offsetof(struct sim_job, fork_at),
     .help = "after step K close the runtime; a forked child does the other steps"},
    {.name = "exec-at",
     .type = KYMO_OPTION_TEXT,
     .arg = "K",
     .offset = offsetof(struct sim_job, exec_at),
     .help = "after step K close the runtime and execute this program anew for the other steps"},
    {.name = "handle-signals",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct sim_job, handle_signals),
     .help = "on SIGINT and SIGTERM say so, end the step, close the runtime, and end with 4"},
    {.name = "ballast",
     .type = KYMO_OPTION_SIZE,
     .arg = "BYTES",
     .max = SIM_JOB_BALLAST_MAX,
     .offset = offsetof(struct sim_job, ballast),
     .help = "device memory held besides the tensors"},
    {0}};

int sim_job_parse(const char *program, int argc, char **argv, struct sim_job *ret)
{
    const struct kymo_options spec = {
        .program = program, .about = "One rank of a simulated training job.", .rows = rows};

    return kymo_options_main(&spec, argc, argv, ret);
}

static const char *parse_number(const char *p, uint64_t *ret)
{
    char *end;

    if (!isdigit((unsigned char)*p))
        return NULL;
    errno = 0;
    *ret = strtoull(p, &end, 10);
    return errno ? NULL : end;
}

int sim_job_step_in(const char *list, uint64_t step, bool *ret, struct kymo_err *err)
{
    const char *p = list;

    *ret = false;
    for (;;) {
        uint64_t first = 0, last;

        p = parse_number(p, &first);
        last = first;
        if (p && *p == '-')
            p = parse_number(p + 1, &last);
        if (!p || last < first || (*p && *p != ','))
            return kymo_err_set(err, -EINVAL, "\"%.64s\" is no list of steps such as 3,5-7", list);
        if (step >= first && step <= last)
            *ret = true;
        if (!*p)
            return 0;
        p++;
    }
}

static bool captured(const struct sim_job *job, uint64_t step)
{
    bool in = false;

    if (!job->capture_steps)
        return job->capture == SIM_JOB_SESSION || step == job->steps - 1;
    return sim_job_step_in(job->capture_steps, step, &in, NULL) == 0 && in;
}

static int check(NRT_STATUS status, const char *what, struct kymo_err *err)
{
    if (status == NRT_SUCCESS)
        return 0;
    return kymo_err_set(err, -EIO, "%s: %s (%d)", what, nrt_status_name(status), (int)status);
}

static int add_tensor(struct run *x, struct model *m, const struct neff_var *var, bool input, struct kymo_err *err)
{
    uint64_t size = var->size < TENSOR_BYTES_MAX ? var->size : TENSOR_BYTES_MAX;
    nrt_tensor_t *t = NULL;
    int r;

    if (size == 0 || m->n_tensors == TENSORS_MAX)
        return 0;
    r = check(x->api->nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, size, NULL, &t), "nrt_tensor_allocate", err);
    if (r < 0)
        return r;
    m->tensors[m->n_tensors++] = t;
    if (input)
        r = check(x->api->nrt_tensor_write(t, x->host, 0, size), "nrt_tensor_write", err);
    if (r == 0)
        r = check(x->api->nrt_add_tensor_to_tensor_set(input ? m->inputs : m->outputs, var->name, t),
                  "nrt_add_tensor_to_tensor_set", err);
    if (input && !m->batch)
        m->batch = t;
    if (!input && !m->result)
        m->result = t;
    return r;
}

/* Every input is written once; later steps bring the first one anew, as a job brings its batch. */
static int make_tensors(struct run *x, struct model *m, const struct neff *neff, struct kymo_err *err)
{
    const struct neff_subgraph *sg = neff_subgraph_count(neff) ? neff_subgraph(neff, 0) : NULL;
    int r = check(x->api->nrt_allocate_tensor_set(&m->inputs), "nrt_allocate_tensor_set", err);

    if (r == 0)
        r = check(x->api->nrt_allocate_tensor_set(&m->outputs), "nrt_allocate_tensor_set", err);
    for (size_t i = 0; r == 0 && sg && i < sg->var_count; i++) {
        const struct neff_var *v = &sg->vars[i];

        if (v->type && strcmp(v->type, "input") == 0)
            r = add_tensor(x, m, v, true, err);
        else if (v->type && strcmp(v->type, "output") == 0)
            r = add_tensor(x, m, v, false, err);
    }
    return r;
}

static bool has_collectives(const struct neff *neff)
{
    return neff_subgraph_count(neff) && neff_subgraph(neff, 0)->world_size > 1;
}

static int load_model(struct run *x, const char *path, struct kymo_err *err)
{
    struct model *m = &x->models[x->n_models];
    struct neff *neff KYMO_CLEANUP(neff_freep) = NULL;
    uint8_t *bytes KYMO_FREE = NULL;
    size_t n;
    int r = kymo_file_read_all(path, NEFF_TOTAL_MAX, &bytes, &n, err);

    if (r == 0)
        r = neff_open_memory(bytes, n, path, NEFF_NO_DEBUG, &neff, err);
    if (r < 0)
        return r;
    x->n_models++;
    if (has_collectives(neff))
        r = check(
            x->api->nrt_load_collectives(bytes, n, 0, -1, (uint32_t)x->job->rank, (uint32_t)x->job->ranks, &m->handle),
            path, err);
    else
        r = check(x->api->nrt_load(bytes, n, 0, -1, &m->handle), path, err);
    return r < 0 ? r : make_tensors(x, m, neff, err);
}

static int take_ballast(struct run *x, struct kymo_err *err)
{
    uint64_t left = x->job->ballast;
    int r = 0;

    if (left)
        x->ballast = kymo_calloc((left + BALLAST_PIECE - 1) / BALLAST_PIECE, sizeof *x->ballast);
    if (left && !x->ballast)
        return kymo_err_set(err, -ENOMEM, "no memory for the ballast");
    while (r == 0 && left && x->n_ballast < BALLAST_MAX) {
        uint64_t n = left < BALLAST_PIECE ? left : BALLAST_PIECE;

        r = check(x->api->nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, n, NULL, &x->ballast[x->n_ballast]),
                  "ballast: nrt_tensor_allocate", err);
        if (r == 0)
            x->n_ballast++;
        left -= n;
    }
    return r;
}

static int need(const struct nrt_api *api, const struct sim_job *job, struct kymo_err *err)
{
    if (job->capture == SIM_JOB_CONTINUOUS && !api->nrt_profile_continuous_start)
        return kymo_err_set(err, -ENOTSUP, "this runtime has no continuous profiling");
    if (job->capture == SIM_JOB_SESSION && !api->nrt_inspect_begin_with_options)
        return kymo_err_set(err, -ENOTSUP, "this runtime has no inspection sessions");
    if (job->async && !api->nrta_execute_schedule)
        return kymo_err_set(err, -ENOTSUP, "this runtime has no asynchronous execution");
    return 0;
}

static int begin(struct run *x, struct kymo_err *err)
{
    const struct nrt_api *api = x->api;
    int r = need(api, x->job, err);

    if (r == 0)
        r = check(api->nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init", err);
    if (r == 0 && x->job->system)
        r = sim_framework_new(x->job->rank, &x->framework, err);
    for (size_t i = 0; r == 0 && i < x->job->neffs.n && i < MODELS_MAX; i++)
        r = load_model(x, x->job->neffs.items[i], err);
    if (r == 0)
        r = take_ballast(x, err);
    if (r == 0 && x->job->async)
        r = check(api->nrta_error_tracker_create(0, &x->errors), "nrta_error_tracker_create", err);
    if (r < 0 || x->job->capture != SIM_JOB_CONTINUOUS)
        return r;
    r = check(api->nrt_profile_continuous_options_allocate(&x->continuous), "continuous options", err);
    if (r == 0)
        r = check(api->nrt_profile_continuous_options_set_output_dir(x->continuous, x->job->output), "output directory",
                  err);
    return r < 0 ? r : check(api->nrt_profile_continuous_start(x->continuous), "nrt_profile_continuous_start", err);
}

static int begin_session(struct run *x, struct kymo_err *err)
{
    const struct nrt_api *api = x->api;
    nrt_inspect_config_t *c = NULL;
    int r = check(api->nrt_inspect_config_allocate(&c), "nrt_inspect_config_allocate", err);

    if (r < 0)
        return r;
    r = check(api->nrt_inspect_config_set_output_dir(c, x->job->output), "output directory", err);
    if (r == 0 && !x->job->system)
        r = check(api->nrt_inspect_config_set_activity(c, "all", false), "activities", err);
    if (r == 0)
        r = check(api->nrt_inspect_config_set_activity(c, "device_profile", true), "activities", err);
    if (r == 0)
        r = check(api->nrt_inspect_config_set_enable_inspect(c, true), "inspection", err);
    if (r == 0 && api->nrt_inspect_config_set_inspect_device_profile_mode)
        r = check(api->nrt_inspect_config_set_inspect_device_profile_mode(c, NRT_INSPECT_DEVICE_PROFILE_MODE_SESSION),
                  "mode", err);
    if (r == 0)
        r = check(api->nrt_inspect_begin_with_options(c), "nrt_inspect_begin_with_options", err);
    (void)api->nrt_inspect_config_free(c);
    x->in_session = r == 0;
    return r;
}

static int end_session(struct run *x, struct kymo_err *err)
{
    x->in_session = false;
    return check(x->api->nrt_inspect_stop(), "nrt_inspect_stop", err);
}

static NRT_STATUS wait_for(struct run *x, nrta_seq_t seq)
{
    const nrta_error_t *errors = NULL;
    size_t n = 0;
    bool done = false;
    NRT_STATUS status = NRT_SUCCESS;

    for (unsigned i = 0; i < POLLS_MAX && status == NRT_SUCCESS; i++) {
        status = x->api->nrta_is_completed(seq, &done);
        if (done)
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    if (status == NRT_SUCCESS && !done)
        return NRT_TIMEOUT;
    if (status == NRT_SUCCESS)
        status = x->api->nrta_error_tracker_get_list(x->errors, &errors, &n);
    return n > 0 ? (NRT_STATUS)errors[n - 1].error_code : status;
}

static NRT_STATUS run_model(struct run *x, const struct model *m, nrta_seq_t *seq)
{
    const struct nrt_api *api = x->api;
    uint64_t begun = sim_framework_now(x->framework);
    NRT_STATUS status = NRT_SUCCESS;

    if (m->batch) {
        status = api->nrt_tensor_write(m->batch, x->host, 0, api->nrt_tensor_get_size(m->batch));
        sim_framework_op(x->framework, "aten::copy_", begun, SIM_FRAMEWORK_NO_SEQUENCE);
        begun = sim_framework_now(x->framework);
    }
    if (status == NRT_SUCCESS && x->job->async)
        status = api->nrta_execute_schedule(m->handle, m->inputs, m->outputs, 0, x->errors, seq);
    else if (status == NRT_SUCCESS)
        status = api->nrt_execute(m->handle, m->inputs, m->outputs);
    sim_framework_op(x->framework, "NeuronExecute", begun,
                     x->job->async ? *seq & NRTA_SEQ_NUM_MASK : SIM_FRAMEWORK_NO_SEQUENCE);
    return status;
}

static NRT_STATUS run_step(struct run *x)
{
    const struct nrt_api *api = x->api;
    NRT_STATUS status = NRT_SUCCESS;
    nrta_seq_t seq = 0;

    for (size_t i = 0; i < x->n_models && status == NRT_SUCCESS; i++)
        status = run_model(x, &x->models[i], &seq);
    if (status == NRT_SUCCESS && x->job->async && seq)
        status = wait_for(x, seq);
    for (size_t i = 0; i < x->n_models && status == NRT_SUCCESS; i++)
        if (x->models[i].result)
            status =
                api->nrt_tensor_read(x->models[i].result, x->host, 0, api->nrt_tensor_get_size(x->models[i].result));
    return status;
}

/* Steps from first up to, but not including, last. */
static int run_steps(struct run *x, uint64_t first, uint64_t last, bool *ret_failed, struct kymo_err *err)
{
    const struct sim_job *job = x->job;
    uint64_t next_ns = kymo_clock_mono_ns();
    int r = 0;

    for (uint64_t step = first; step < last && r == 0 && !*ret_failed && !sim_job_signal(); step++) {
        bool take = captured(job, step);
        uint64_t begun;
        NRT_STATUS status;

        if (job->capture == SIM_JOB_SESSION && take != x->in_session)
            r = take ? begin_session(x, err) : end_session(x, err);
        if (r < 0)
            break;
        begun = sim_framework_now(x->framework);
        status = run_step(x);
        sim_framework_step(x->framework, step, begun);
        (void)printf("rank %llu step %llu: %s\n", (unsigned long long)job->rank, (unsigned long long)step,
                     nrt_status_name(status));
        *ret_failed = status != NRT_SUCCESS;
        if (job->capture == SIM_JOB_CONTINUOUS && (take || *ret_failed))
            r = check(x->api->nrt_profile_continuous_save(0, x->continuous), "nrt_profile_continuous_save", err);
        if (r == 0 && job->helpers && (step + 1) % job->helpers == 0)
            r = sim_job_helpers(job->rank, step, err);
        if (job->step_ms && step + 1 < job->steps)
            sim_job_pace(job->step_ms, &next_ns);
    }
    if (x->in_session && r == 0)
        r = end_session(x, err);
    return r;
}

static void end(struct run *x)
{
    const struct nrt_api *api = x->api;
    struct kymo_err err = {0};

    if (x->continuous) {
        (void)api->nrt_profile_continuous_stop();
        (void)api->nrt_profile_continuous_options_free(x->continuous);
    }
    for (size_t i = 0; i < x->n_models; i++) {
        struct model *m = &x->models[i];

        for (size_t k = 0; k < m->n_tensors; k++)
            api->nrt_tensor_free(&m->tensors[k]);
        api->nrt_destroy_tensor_set(&m->inputs);
        api->nrt_destroy_tensor_set(&m->outputs);
        if (m->handle)
            (void)api->nrt_unload(m->handle);
    }
    for (size_t i = 0; i < x->n_ballast; i++)
        api->nrt_tensor_free(&x->ballast[i]);
    if (x->errors)
        api->nrta_error_tracker_destroy(x->errors);
    api->nrt_close();
    if (sim_framework_write(x->framework, x->job->output, &err) < 0)
        kymo_log(KYMO_LOG_ERROR, "rank %llu: %s", (unsigned long long)x->job->rank, err.text);
    x->framework = sim_framework_free(x->framework);
    kymo_free(x->ballast);
    kymo_free(x->host);
    kymo_free(x);
}

/* One life of the runtime. */
static int run_part(const struct nrt_api *api, const struct sim_job *job, uint64_t first, uint64_t last)
{
    struct run *x = KYMO_NEW(struct run);
    struct kymo_err err = {0};
    bool failed = false;
    int r = 0;

    if (!x)
        return 1;
    x->api = api;
    x->job = job;
    x->host = kymo_calloc(1, TENSOR_BYTES_MAX);
    if (!x->host)
        r = kymo_err_set(&err, -ENOMEM, "no memory for the job's tensors");
    if (r == 0)
        r = begin(x, &err);
    if (r == 0)
        r = run_steps(x, first, last, &failed, &err);
    end(x);
    if (r < 0)
        kymo_log(KYMO_LOG_ERROR, "rank %llu: %s", (unsigned long long)job->rank, err.text);
    if (r == 0 && sim_job_signal())
        (void)printf("rank %llu: ends on %s\n", (unsigned long long)job->rank,
                     sim_job_signal() == SIGINT ? "SIGINT" : "SIGTERM");
    (void)fflush(stdout);
    return r < 0 ? 1 : failed ? 3 : sim_job_signal() ? SIM_JOB_SIGNALLED : 0;
}

/* First step after step "at"; the end when that is not to come. */
static uint64_t step_after(const struct sim_job *job, const char *at, uint64_t first)
{
    uint64_t step;

    if (!at || !parse_number(at, &step) || step + 1 <= first || step + 1 >= job->steps)
        return job->steps;
    return step + 1;
}

int sim_job_run(const struct nrt_api *api, const struct sim_job *job)
{
    uint64_t first = job->first_step, last, fork_step, exec_step;
    struct kymo_err err = {0};
    int code, r;

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (job->handle_signals)
        sim_job_handle_signals();
    for (;;) {
        fork_step = step_after(job, job->fork_at, first);
        exec_step = step_after(job, job->exec_at, first);
        last = fork_step < exec_step ? fork_step : exec_step;
        code = run_part(api, job, first, last);
        if (code != 0 || last >= job->steps)
            return code;
        r = last == fork_step ? sim_job_fork(&code, &err) : sim_job_exec(last, &err);
        if (r < 0) {
            kymo_log(KYMO_LOG_ERROR, "rank %llu: %s", (unsigned long long)job->rank, err.text);
            return 1;
        }
        if (code >= 0)
            return code;
        first = last;
    }
}
