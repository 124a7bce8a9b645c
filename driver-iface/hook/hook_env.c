/* The environment: what the runtime will read there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver-iface/hook/hook_internal.h"

#define MARK "KYMO_HOOK_SET" /* which buffers are from a policy, for programs that this one executes */
#define VARIABLES_MAX 100000u
#define TEXT_MAX 64u

struct block {
    char texts[KYMO_HOOK_BUFFERS][TEXT_MAX];
    char mark[KYMO_HOOK_BUFFERS * TEXT_MAX];
    char *variables[];
};

static const char *const buffer_names[] = {
#define X(name, index) [index] = #name,
    KYMO_HOOK_BUFFER_MAP(X)
#undef X
};

bool hook_env_is_on(const char *name)
{
    const char *text = getenv(name);

    return text && *text && strcmp(text, "0") != 0;
}

const char *hook_env_inspecting(void)
{
    static const char *const names[] = {"NEURON_RT_INSPECT_ENABLE", "NEURON_RT_INSPECT_ON_FAIL"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (hook_env_is_on(names[i]))
            return names[i];
    return NULL;
}

/* Did a hook set this, in a process that executed this one? The mark holds "EVENT=64,DMA=32,". */
static bool is_marked(const char *name, const char *value)
{
    const char *mark = getenv(MARK);
    char item[TEXT_MAX];

    (void)snprintf(item, sizeof item, "%s=%s,", name, value);
    for (const char *p = mark; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, item, strlen(item)) == 0)
            return true;
    return false;
}

static bool is_ours(const char *variable)
{
    static const char prefix[] = "NEURON_RT_PROFILE_BUF_";

    return strncmp(variable, MARK "=", sizeof MARK) == 0 || strncmp(variable, prefix, sizeof prefix - 1) == 0;
}

/* Does the new block replace this variable? */
static bool is_replaced(const struct block *b, const char *variable)
{
    if (!is_ours(variable))
        return false;
    if (strncmp(variable, MARK "=", sizeof MARK) == 0)
        return true;
    for (size_t i = 0; i < KYMO_HOOK_BUFFERS; i++) {
        size_t n = strcspn(b->texts[i], "=");

        if (n && strncmp(variable, b->texts[i], n + 1) == 0)
            return true;
    }
    return false;
}

static void fill(struct block *b, const struct kymo_hook_policy *p, struct hook_buffers *ret)
{
    size_t used = (size_t)snprintf(b->mark, sizeof b->mark, MARK "=");

    for (size_t i = 0; i < sizeof buffer_names / sizeof *buffer_names; i++) {
        char name[TEXT_MAX];
        const char *user;

        (void)snprintf(name, sizeof name, "NEURON_RT_PROFILE_BUF_%s_MB", buffer_names[i]);
        user = getenv(name);
        if (user && !is_marked(buffer_names[i], user)) {
            ret->user |= 1u << i;
        } else if (p->buffer_mb[i] != KYMO_HOOK_BUFFER_LEAVE) {
            (void)snprintf(b->texts[i], TEXT_MAX, "%.52s=%u", name, p->buffer_mb[i]);
            used += (size_t)snprintf(b->mark + used, sizeof b->mark - used, "%s=%u,", buffer_names[i], p->buffer_mb[i]);
            ret->ours |= 1u << i;
        }
    }
}

/*
 * setenv moves the list of variables and frees the old one, under the eyes of threads that call getenv. Here the new
 * list is whole before it is published, and the old one stays.
 */
struct hook_buffers hook_env_set_buffers(const struct kymo_hook_policy *p)
{
    struct hook_buffers ret = {0};
    size_t n = 0, k = 0, bytes;
    struct block *b;

    while (environ && environ[n] && n < VARIABLES_MAX)
        n++;
    bytes = sizeof *b + (n + KYMO_HOOK_BUFFERS + 2) * sizeof *b->variables;
    b = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED)
        return ret;
    fill(b, p, &ret);
    if (n == VARIABLES_MAX || !ret.ours) {
        (void)munmap(b, bytes);
        ret.ours = 0;
        return ret;
    }
    for (size_t i = 0; i < n && environ[i]; i++)
        if (!is_replaced(b, environ[i]))
            b->variables[k++] = environ[i];
    for (size_t i = 0; i < KYMO_HOOK_BUFFERS; i++)
        if (b->texts[i][0])
            b->variables[k++] = b->texts[i];
    b->variables[k] = b->mark;
    __atomic_store_n(&environ, b->variables, __ATOMIC_RELEASE);
    return ret;
}
