#include "daemon/learned.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/ring.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "daemon/process.h"

#define FILE_BYTES_MAX (1u << 20)

struct row {
    char job[PROCESS_TEXT_MAX + 1]; /* "": free */
    uint64_t mb[CONFIG_BUFFERS];
    uint64_t age; /* when it was last touched */
};

struct learned {
    uint64_t clock;
    struct row rows[LEARNED_JOBS_MAX];
};

static const char *const names[CONFIG_BUFFERS] = {
#define X(name, index) [index] = #name,
    KYMO_HOOK_BUFFER_MAP(X)
#undef X
};

const char *learned_buffer_name(unsigned buffer)
{
    return buffer < CONFIG_BUFFERS ? names[buffer] : "?";
}

uint64_t learned_default_mb(unsigned buffer)
{
    static const struct {
        const char *name;
        uint64_t mb;
    } sizes[] = {
#define X(id, suffix, mb, tt, bt) {suffix, mb},
        KYMO_RING_MAP(X)
#undef X
    };
    for (size_t i = 0; buffer < CONFIG_BUFFERS && i < sizeof sizes / sizeof *sizes; i++)
        if (!strcmp(sizes[i].name, names[buffer]))
            return sizes[i].mb;
    return 0;
}

static struct row *find(const struct learned *l, const char *job)
{
    for (size_t i = 0; *job && i < LEARNED_JOBS_MAX; i++)
        if (!strcmp(l->rows[i].job, job))
            return (struct row *)&l->rows[i];
    return NULL;
}

static struct row *touch(struct learned *l, const char *job)
{
    struct row *r = find(l, job);
    if (!r) {
        r = &l->rows[0];
        for (size_t i = 1; i < LEARNED_JOBS_MAX && r->job[0]; i++)
            if (!l->rows[i].job[0] || l->rows[i].age < r->age)
                r = &l->rows[i];
        *r = (struct row){0};
        (void)snprintf(r->job, sizeof r->job, "%s", job);
    }
    r->age = ++l->clock;
    return r;
}

uint64_t learned_mb(const struct learned *l, const char *job, unsigned buffer)
{
    const struct row *r = l ? find(l, job) : NULL;
    return r && buffer < CONFIG_BUFFERS ? r->mb[buffer] : 0;
}

/* "INSTRUCTION(nc0)", "DMA-E3(nc1)", "CC_CORE_EVENT-2": the buffer's name, and no letter behind it. */
static unsigned buffer_of(const char *ring)
{
    for (unsigned i = 0; i < CONFIG_BUFFERS; i++) {
        size_t n = strlen(names[i]);
        if (!strncmp(ring, names[i], n) && (ring[n] == '\0' || ring[n] == '(' || ring[n] == '-'))
            return i;
    }
    return CONFIG_BUFFERS;
}

uint64_t learned_loss(struct learned *l, const char *job, const char *ring, uint64_t emitted, uint64_t lost,
                      const uint64_t mb_now[CONFIG_BUFFERS], unsigned *ret_buffer)
{
    unsigned b = buffer_of(ring);
    if (b == CONFIG_BUFFERS || lost == 0 || !*job)
        return 0;
    uint64_t now = mb_now[b] ? mb_now[b] : learned_default_mb(b), size = 1;
    /* Twice as large, and as large as all of it would have needed where that is known. */
    uint64_t wanted = now * 2;
    if (emitted > lost && emitted / (emitted - lost) < LEARNED_MB_MAX)
        wanted = now * (emitted / (emitted - lost) + 1) > wanted ? now * (emitted / (emitted - lost) + 1) : wanted;
    while (size < wanted && size < LEARNED_MB_MAX)
        size *= 2;
    struct row *r = find(l, job);
    if (size <= now || (r && r->mb[b] >= size))
        return 0;
    touch(l, job)->mb[b] = size;
    *ret_buffer = b;
    return size;
}

static void read_line(struct learned *l, char *line)
{
    char *buffer = strchr(line, '\t'), *mb = buffer ? strchr(buffer + 1, '\t') : NULL, *end;
    if (!mb || buffer == line || buffer - line > PROCESS_TEXT_MAX)
        return;
    *buffer = *mb = '\0';
    unsigned long long v = strtoull(mb + 1, &end, 10);
    unsigned b = buffer_of(buffer + 1);
    if (*end || v == 0 || v > LEARNED_MB_MAX || b == CONFIG_BUFFERS)
        return;
    touch(l, line)->mb[b] = v;
}

int learned_open(const char *path, struct learned **ret, struct kymo_err *err)
{
    uint8_t *data KYMO_FREE = NULL;
    size_t n = 0;
    struct learned *l = KYMO_NEW(struct learned);
    if (!l)
        return kymo_err_set(err, -ENOMEM, "%s: no memory", path);
    int r = kymo_file_read_all(path, FILE_BYTES_MAX, &data, &n, err);
    if (r < 0 && r != -ENOENT) {
        kymo_free(l);
        return r;
    }
    for (char *line = (char *)data; line && *line;) {
        char *next = strchr(line, '\n');
        if (next)
            *next = '\0';
        read_line(l, line);
        line = next ? next + 1 : NULL;
    }
    *ret = l;
    return 0;
}

struct learned *learned_free(struct learned *l)
{
    kymo_free(l);
    return NULL;
}

int learned_format(const struct learned *l, char **ret, size_t *ret_n, struct kymo_err *err)
{
    struct kymo_buf b;
    int r = 0;
    kymo_buf_init(&b, FILE_BYTES_MAX);
    for (size_t i = 0; i < LEARNED_JOBS_MAX && r == 0; i++)
        for (unsigned k = 0; k < CONFIG_BUFFERS && r == 0 && l->rows[i].job[0]; k++)
            if (l->rows[i].mb[k])
                r = kymo_buf_printf(&b, "%s\t%s\t%llu\n", l->rows[i].job, names[k],
                                    (unsigned long long)l->rows[i].mb[k]);
    if (r < 0) {
        kymo_buf_done(&b);
        return kymo_err_set(err, r, "what was learned: out of memory");
    }
    *ret = (char *)b.data;
    *ret_n = b.len;
    return 0;
}
