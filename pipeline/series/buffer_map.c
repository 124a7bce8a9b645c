#include "pipeline/series/buffer_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define SEGMENTS_MAX (1u << 24)

uint8_t buffer_map_lanes(bool psum, uint32_t first, uint32_t count)
{
    uint8_t lanes = 0;
    for (unsigned k = 0; k < BUFFER_MAP_SBUF; k++) {
        uint32_t partition = k * BUFFER_MAP_PARTITION_STEP;
        if (partition >= first && partition - first < count)
            lanes |= (uint8_t)(1u << k);
    }
    return (uint8_t)(psum ? lanes << BUFFER_MAP_SBUF : lanes);
}

int buffer_map_add(struct buffer_map *m, struct buffer_range range, struct kymo_err *err)
{
    if (range.first >= range.end || !range.lanes)
        return 0;
    int r = kymo_grow((void **)&m->ranges, &m->range_cap, m->range_count + 1, BUFFER_MAP_RANGES_MAX, sizeof *m->ranges);
    if (r < 0)
        return kymo_err_set(err, r, "more than %u different operands in on-chip memory", BUFFER_MAP_RANGES_MAX);
    m->ranges[m->range_count++] = range;
    return 0;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct buffer_range *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return (x->lanes > y->lanes) - (x->lanes < y->lanes);
}

static struct buffer_range widened(struct buffer_range r, uint32_t granule)
{
    r.first = r.first / granule * granule;
    r.end = (r.end + granule - 1) / granule * granule;
    return r;
}

static void sort_ranges(struct buffer_map *m)
{
    size_t kept = 0;
    if (m->range_count)
        qsort(m->ranges, m->range_count, sizeof *m->ranges, compare_ranges);
    for (size_t i = 0; i < m->range_count; i++)
        if (!kept || compare_ranges(&m->ranges[kept - 1], &m->ranges[i]) != 0)
            m->ranges[kept++] = m->ranges[i];
    m->range_count = kept;
}

uint32_t buffer_map_find(const struct buffer_map *m, struct buffer_range range)
{
    const struct buffer_range *at =
        m->range_count ? bsearch(&range, m->ranges, m->range_count, sizeof *m->ranges, compare_ranges) : NULL;
    return at ? (uint32_t)(at - m->ranges) : UINT32_MAX;
}

/* A number of its own for each range; cells are told apart by the exclusive or of those that cover them. */
static uint64_t mark_of(uint64_t n)
{
    n += 0x9e3779b97f4a7c15;
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9;
    n = (n ^ n >> 27) * 0x94d049bb133111eb;
    return n ^ n >> 31;
}

struct edge {
    uint32_t at, range;
    bool opens;
};

static int compare_edges(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static size_t find_edges(const struct buffer_map *m, unsigned lane, struct edge *edges)
{
    size_t n = 0;
    for (size_t i = 0; i < m->range_count; i++) {
        if (!(m->ranges[i].lanes >> lane & 1))
            continue;
        struct buffer_range r = widened(m->ranges[i], m->granule);
        edges[n++] = (struct edge){r.first, (uint32_t)i, true};
        edges[n++] = (struct edge){r.end, (uint32_t)i, false};
    }
    if (n)
        qsort(edges, n, sizeof *edges, compare_edges);
    return n;
}

static int cut_lane(struct buffer_map *m, unsigned lane, struct edge *edges, size_t *cap, struct kymo_err *err)
{
    size_t n = find_edges(m, lane, edges), open = 0;
    uint64_t mark[2] = {0};
    for (size_t i = 0; i < n; i++) {
        uint64_t id = 2 * (uint64_t)edges[i].range;
        mark[0] ^= mark_of(id);
        mark[1] ^= mark_of(id + 1);
        open = edges[i].opens ? open + 1 : open - 1;
        if (!open || edges[i + 1].at == edges[i].at)
            continue;
        int r = kymo_grow((void **)&m->segments, cap, m->segment_count + 1, SEGMENTS_MAX, sizeof *m->segments);
        if (r < 0)
            return kymo_err_set(err, r, "no memory for the cells of on-chip memory");
        m->segments[m->segment_count++] = (struct buffer_segment){
            .mark = {mark[0], mark[1]}, .first = edges[i].at, .end = edges[i + 1].at, .lane = (uint8_t)lane};
    }
    return 0;
}

static int compare_segments(const void *a, const void *b)
{
    const struct buffer_segment *x = a, *y = b;
    if (x->mark[0] != y->mark[0])
        return x->mark[0] < y->mark[0] ? -1 : 1;
    if (x->mark[1] != y->mark[1])
        return x->mark[1] < y->mark[1] ? -1 : 1;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

/* Segments that the same ranges cover are one cell. */
static int name_cells(struct buffer_map *m, struct kymo_err *err)
{
    size_t n = m->segment_count, cells = 0;
    if (n)
        qsort(m->segments, n, sizeof *m->segments, compare_segments);
    m->segment_at = KYMO_NEW_ARRAY(uint32_t, n + 1);
    if (!m->segment_at)
        return kymo_err_set(err, -ENOMEM, "no memory for the cells of on-chip memory");
    for (size_t i = 0; i < n; i++) {
        struct buffer_segment *s = &m->segments[i];
        if (i == 0 || memcmp(s->mark, m->segments[i - 1].mark, sizeof s->mark) != 0)
            m->segment_at[cells++] = (uint32_t)i;
        s->cell = (uint32_t)cells - 1;
    }
    m->segment_at[cells] = (uint32_t)n;
    m->cell_count = cells;
    return 0;
}

static int compare_places(const void *a, const void *b)
{
    const struct buffer_segment *x = *(const struct buffer_segment *const *)a,
                                *y = *(const struct buffer_segment *const *)b;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

struct places { /* segments by lane and place */
    const struct buffer_segment **all;
    size_t lane_at[BUFFER_MAP_LANES + 1];
};

static int sort_places(const struct buffer_map *m, struct places *p, struct kymo_err *err)
{
    p->all = KYMO_NEW_ARRAY(const struct buffer_segment *, m->segment_count + 1);
    if (!p->all)
        return kymo_err_set(err, -ENOMEM, "no memory for the cells of on-chip memory");
    for (size_t i = 0; i < m->segment_count; i++) {
        p->all[i] = &m->segments[i];
        p->lane_at[m->segments[i].lane + 1]++;
    }
    for (unsigned lane = 0; lane < BUFFER_MAP_LANES; lane++)
        p->lane_at[lane + 1] += p->lane_at[lane];
    if (m->segment_count)
        qsort(p->all, m->segment_count, sizeof(void *), compare_places);
    return 0;
}

static size_t first_place(const struct places *p, unsigned lane, uint32_t byte)
{
    size_t low = p->lane_at[lane], high = p->lane_at[lane + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->all[middle]->end <= byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds the cells of one range that it has not got yet. 1: the list is full. */
static int list_range(struct buffer_map *m, size_t i, const struct places *p, uint32_t *seen, size_t *n, size_t *cap,
                      size_t list_max, struct kymo_err *err)
{
    struct buffer_range r = widened(m->ranges[i], m->granule);
    for (unsigned lane = 0; lane < BUFFER_MAP_LANES; lane++) {
        if (!(r.lanes >> lane & 1))
            continue;
        for (size_t k = first_place(p, lane, r.first); k < p->lane_at[lane + 1] && p->all[k]->first < r.end; k++) {
            uint32_t cell = p->all[k]->cell;
            if (seen[cell] == (uint32_t)i + 1)
                continue;
            seen[cell] = (uint32_t)i + 1;
            if (*n == list_max)
                return 1;
            int rc = kymo_grow((void **)&m->list, cap, *n + 1, list_max, sizeof *m->list);
            if (rc < 0)
                return kymo_err_set(err, rc, "no memory for the cells of on-chip memory");
            m->list[(*n)++] = cell;
        }
    }
    return 0;
}

static int list_cells(struct buffer_map *m, size_t list_max, struct kymo_err *err)
{
    struct places p = {0};
    size_t n = 0, cap = 0;
    uint32_t *seen KYMO_FREE = KYMO_NEW_ARRAY(uint32_t, m->cell_count + 1);
    m->range_at = KYMO_NEW_ARRAY(uint32_t, m->range_count + 1);
    int r = seen && m->range_at ? sort_places(m, &p, err)
                                : kymo_err_set(err, -ENOMEM, "no memory for the cells of on-chip memory");
    for (size_t i = 0; i < m->range_count && r == 0; i++) {
        m->range_at[i] = (uint32_t)n;
        r = list_range(m, i, &p, seen, &n, &cap, list_max, err);
    }
    if (r == 0)
        m->range_at[m->range_count] = (uint32_t)n;
    kymo_free(p.all);
    return r;
}

static void forget_cells(struct buffer_map *m)
{
    kymo_free(m->range_at);
    kymo_free(m->list);
    kymo_free(m->segments);
    kymo_free(m->segment_at);
    m->range_at = m->list = m->segment_at = NULL;
    m->segments = NULL;
    m->segment_count = m->cell_count = 0;
}

int buffer_map_cut(struct buffer_map *m, size_t list_max, struct kymo_err *err)
{
    sort_ranges(m);
    struct edge *edges KYMO_FREE = KYMO_NEW_ARRAY(struct edge, 2 * m->range_count + 1);
    if (!edges)
        return kymo_err_set(err, -ENOMEM, "no memory for the cells of on-chip memory");
    int r = 1;
    for (m->granule = 1; r == 1; m->granule *= 4) {
        size_t cap = 0;
        forget_cells(m);
        r = 0;
        for (unsigned lane = 0; lane < BUFFER_MAP_LANES && r == 0; lane++)
            r = cut_lane(m, lane, edges, &cap, err);
        if (r == 0)
            r = name_cells(m, err);
        if (r == 0)
            r = list_cells(m, m->granule < 1u << 20 ? list_max : SIZE_MAX, err);
        if (r != 1)
            break;
    }
    return r;
}

void buffer_map_done(struct buffer_map *m)
{
    forget_cells(m);
    kymo_free(m->ranges);
    *m = (struct buffer_map){0};
}
