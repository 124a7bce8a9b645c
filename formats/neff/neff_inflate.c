#include "formats/neff/neff_inflate.h"

#include <errno.h>
#include <isa-l/igzip_lib.h>

#include "base/alloc.h"

#define PIECE_SIZE (256u << 10)
#define INPUT_STEP (1u << 30) /* the library counts input in 32 bits */

struct neff_inflate {
    struct inflate_state state;
    const uint8_t *rest; /* not yet handed to the state */
    size_t rest_n;
    uint64_t produced, max_output;
    bool ended;
    int failed;
    uint8_t piece[PIECE_SIZE];
};

static void begin_stream(struct neff_inflate *g)
{
    isal_inflate_init(&g->state);
    g->state.crc_flag = ISAL_GZIP;
    g->state.next_in = NULL;
    g->state.avail_in = 0;
}

struct neff_inflate *neff_inflate_new(const uint8_t *data, size_t n, uint64_t max_output)
{
    struct neff_inflate *g = kymo_malloc(sizeof *g);
    if (!g)
        return NULL;
    g->rest = data;
    g->rest_n = n;
    g->produced = 0;
    g->max_output = max_output;
    g->ended = false;
    g->failed = 0;
    begin_stream(g);
    return g;
}

struct neff_inflate *neff_inflate_free(struct neff_inflate *g)
{
    kymo_free(g);
    return NULL;
}

static void feed(struct neff_inflate *g)
{
    if (g->state.avail_in > 0 || g->rest_n == 0)
        return;
    size_t step = g->rest_n < INPUT_STEP ? g->rest_n : INPUT_STEP;
    g->state.next_in = (uint8_t *)(uintptr_t)g->rest; /* the library only reads it */
    g->state.avail_in = (uint32_t)step;
    g->rest += step;
    g->rest_n -= step;
}

/* One stream is over: another one may follow, anything else behind it is not ours. */
static void end_stream(struct neff_inflate *g)
{
    size_t left = g->state.avail_in;
    g->rest -= left;
    g->rest_n += left;
    if (g->rest_n >= 2 && g->rest[0] == 0x1F && g->rest[1] == 0x8B)
        begin_stream(g);
    else
        g->ended = true;
}

static int step(struct neff_inflate *g)
{
    feed(g);
    uint32_t in = g->state.avail_in, out = g->state.avail_out;
    int r = isal_inflate(&g->state);
    if (r < 0 || r == ISAL_NEED_DICT)
        return -EBADMSG;
    if (g->state.block_state == ISAL_BLOCK_FINISH) {
        uint8_t *next_out = g->state.next_out;
        uint32_t avail_out = g->state.avail_out;
        end_stream(g);
        g->state.next_out = next_out;
        g->state.avail_out = avail_out;
        return 0;
    }
    bool moved = in != g->state.avail_in || out != g->state.avail_out;
    return moved || g->rest_n > 0 ? 0 : -EBADMSG;
}

static int fill(struct neff_inflate *g)
{
    g->state.next_out = g->piece;
    g->state.avail_out = PIECE_SIZE;
    int r = 0;
    while (r == 0 && !g->ended && g->state.avail_out > 0)
        r = step(g);
    return r;
}

int neff_inflate_next(struct neff_inflate *g, const uint8_t **ret, size_t *ret_n)
{
    if (g->failed)
        return g->failed;
    int r = fill(g);
    size_t n = PIECE_SIZE - g->state.avail_out;
    g->produced += n;
    if (r == 0 && g->produced > g->max_output)
        r = -EFBIG;
    if (r < 0) {
        g->failed = r;
        return r;
    }
    *ret = g->piece;
    *ret_n = n;
    return 0;
}

size_t neff_inflate_trailing(const struct neff_inflate *g)
{
    return g->rest_n;
}
