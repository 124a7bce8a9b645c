/* Tensors: host memory, with the traffic that a device tensor's reads and writes cause. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "driver-iface/sim/libnrt/libnrt.h"
#include "driver-iface/sim/libnrt/libnrt_systrace.h"

#define TENSOR_MAGIC 0x6b796d6f74736e72ull
#define SET_MAGIC 0x6b796d6f74736574ull
#define TENSOR_BYTES_MAX (1ull << 40)
#define SET_MAX 4096u
#define BATCH_MAX (1u << 20)

struct storage {
    uint64_t id; /* in the system trace */
    uint8_t *data;
    size_t size;
    unsigned refs;      /* slices share it */
    bool owned;         /* else the caller's buffer */
    bool on_device;     /* the device's memory was taken for it */
    unsigned core, run; /* for which core, and in which life of the runtime */
};

struct nrt_tensor {
    uint64_t magic;
    struct storage *storage; /* NULL: an empty tensor */
    size_t offset, size;
    nrt_tensor_placement_t placement;
    unsigned core;
    char name[LIBNRT_NAME_MAX + 1];
};

struct named {
    char name[LIBNRT_NAME_MAX + 1];
    nrt_tensor_t *tensor;
};

struct set {
    uint64_t magic;
    struct named *items;
    size_t n, cap;
};

static bool is_tensor(const nrt_tensor_t *t)
{
    return t && t->magic == TENSOR_MAGIC;
}

static struct set *as_set(const void *p)
{
    struct set *s = (struct set *)(uintptr_t)p;

    return s && s->magic == SET_MAGIC ? s : NULL;
}

static bool copy_name(char out[LIBNRT_NAME_MAX + 1], const char *name)
{
    size_t n = name ? strlen(name) : 0;

    if (n > LIBNRT_NAME_MAX)
        return false;
    memcpy(out, name ? name : "", n + 1);
    return true;
}

static nrt_tensor_t *make_tensor(const char *name)
{
    nrt_tensor_t *t = KYMO_NEW(nrt_tensor_t);

    if (t && !copy_name(t->name, name)) {
        kymo_free(t);
        return NULL;
    }
    if (t)
        t->magic = TENSOR_MAGIC;
    return t;
}

static struct storage *make_storage(void *buffer, size_t size)
{
    static atomic_uint_fast64_t next_id = 1;
    struct storage *s = KYMO_NEW(struct storage);

    if (!s)
        return NULL;
    s->id = atomic_fetch_add(&next_id, 1);
    s->owned = buffer == NULL;
    s->data = buffer ? buffer : kymo_calloc(1, size);
    s->size = size;
    s->refs = 1;
    if (!s->data) {
        kymo_free(s);
        return NULL;
    }
    return s;
}

/* With the lock held. */
static int device_memory(const struct libnrt_core *core, const struct storage *s, unsigned flags, struct kymo_err *err)
{
    struct sim_request q;
    struct sim_answer a;
    int r;

    libnrt_request(&q, SIM_OP_MEMORY, core->vnc);
    q.bytes = s->size;
    q.flags = flags;
    r = libnrt_call(&q, -1, &a, NULL, err);
    if (r == 0)
        libnrt_trace_tensor(core, s->id, s->size, !(flags & SIM_FLAG_GIVE), &a);
    return r;
}

static NRT_STATUS take_device_memory(struct storage *s, unsigned core)
{
    struct kymo_err err = {0};
    NRT_STATUS status = libnrt_attach(&rt.cores[core]);
    int r;

    if (status != NRT_SUCCESS)
        return status;
    r = device_memory(&rt.cores[core], s, 0, &err);
    if (r < 0) {
        libnrt_say("nrt_tensor_allocate: %s", err.text);
        return libnrt_status_of(r);
    }
    s->on_device = true;
    s->core = core;
    s->run = rt.run;
    return NRT_SUCCESS;
}

/* What was taken before nrt_close, or by the parent of a fork, is not ours any more. */
static void give_device_memory(const struct storage *s)
{
    if (s->on_device && rt.state == LIBNRT_READY && rt.pid == getpid() && s->run == rt.run)
        (void)device_memory(&rt.cores[s->core], s, SIM_FLAG_GIVE, NULL);
}

/* With the lock held. */
static void drop_storage(struct storage *s)
{
    if (!s || --s->refs > 0)
        return;
    give_device_memory(s);
    if (s->owned)
        kymo_free(s->data);
    kymo_free(s);
}

NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t placement, int vnc, size_t size, const char *name,
                               nrt_tensor_t **tensor)
{
    nrt_tensor_t *t;
    NRT_STATUS status = libnrt_enter();

    if (status != NRT_SUCCESS)
        return status;
    if (!tensor || size == 0 || size > TENSOR_BYTES_MAX || (unsigned)placement > NRT_TENSOR_PLACEMENT_VIRTUAL ||
        (placement == NRT_TENSOR_PLACEMENT_DEVICE && !libnrt_core_of(vnc)))
        return libnrt_leave(NRT_INVALID);
    t = make_tensor(name);
    if (!t)
        return libnrt_leave(NRT_FAIL_HOST_MEM_ALLOC);
    t->placement = placement;
    t->core = vnc > 0 ? (unsigned)vnc : 0;
    t->size = size;
    t->storage = make_storage(NULL, size);
    if (!t->storage) {
        kymo_free(t);
        return libnrt_leave(NRT_RESOURCE);
    }
    if (placement == NRT_TENSOR_PLACEMENT_DEVICE)
        status = take_device_memory(t->storage, t->core);
    if (status != NRT_SUCCESS) {
        drop_storage(t->storage);
        kymo_free(t);
        return libnrt_leave(status);
    }
    *tensor = t;
    return libnrt_leave(NRT_SUCCESS);
}

NRT_STATUS nrt_tensor_allocate_empty(const char *name, nrt_tensor_t **tensor)
{
    nrt_tensor_t *t;

    if (!tensor)
        return NRT_INVALID;
    t = make_tensor(name);
    if (!t)
        return NRT_FAIL_HOST_MEM_ALLOC;
    t->placement = NRT_TENSOR_PLACEMENT_HOST;
    *tensor = t;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_tensor_attach_buffer(nrt_tensor_t *tensor, void *buffer, size_t size)
{
    struct storage *s;

    if (!is_tensor(tensor) || !buffer || size == 0)
        return NRT_INVALID;
    s = make_storage(buffer, size);
    if (!s)
        return NRT_FAIL_HOST_MEM_ALLOC;
    (void)pthread_mutex_lock(&rt.lock);
    drop_storage(tensor->storage);
    tensor->storage = s;
    tensor->offset = 0;
    tensor->size = size;
    return libnrt_leave(NRT_SUCCESS);
}

NRT_STATUS nrt_tensor_allocate_slice(const nrt_tensor_t *source, size_t offset, size_t size, const char *name,
                                     nrt_tensor_t **slice)
{
    nrt_tensor_t *t;

    if (!is_tensor(source) || !source->storage || !slice || size == 0 || offset > source->size ||
        size > source->size - offset)
        return NRT_INVALID;
    t = make_tensor(name);
    if (!t)
        return NRT_FAIL_HOST_MEM_ALLOC;
    (void)pthread_mutex_lock(&rt.lock);
    t->placement = source->placement;
    t->core = source->core;
    t->storage = source->storage;
    t->storage->refs++;
    t->offset = source->offset + offset;
    t->size = size;
    *slice = t;
    return libnrt_leave(NRT_SUCCESS);
}

void nrt_tensor_free(nrt_tensor_t **tensor)
{
    if (!tensor || !is_tensor(*tensor))
        return;
    (void)pthread_mutex_lock(&rt.lock);
    drop_storage((*tensor)->storage);
    (void)pthread_mutex_unlock(&rt.lock);
    (*tensor)->magic = 0;
    kymo_free(*tensor);
    *tensor = NULL;
}

/* The place of size bytes at offset; NULL when the tensor does not have them. */
static uint8_t *range(const nrt_tensor_t *t, uint64_t offset, uint64_t size)
{
    if (!is_tensor(t) || !t->storage || offset > t->size || size > t->size - offset)
        return NULL;
    return t->storage->data + t->offset + offset;
}

/* With the lock held. The bytes move whatever the device says; its answer is the caller's. */
static NRT_STATUS move(const nrt_tensor_t *t, void *buf, uint64_t offset, uint64_t size, bool write)
{
    uint8_t *at = range(t, offset, size);

    if (!at || !buf)
        return NRT_INVALID;
    if (write)
        memcpy(at, buf, size);
    else
        memcpy(buf, at, size);
    return t->placement == NRT_TENSOR_PLACEMENT_DEVICE
               ? libnrt_host_copy(t->core, write, size, t->storage->id, t->offset + offset)
               : NRT_SUCCESS;
}

static NRT_STATUS move_locked(const nrt_tensor_t *t, void *buf, uint64_t offset, uint64_t size, bool write)
{
    NRT_STATUS status = libnrt_enter();

    return status == NRT_SUCCESS ? libnrt_leave(move(t, buf, offset, size, write)) : status;
}

NRT_STATUS nrt_tensor_read(const nrt_tensor_t *tensor, void *buf, size_t offset, size_t size)
{
    return move_locked(tensor, buf, offset, size, false);
}

NRT_STATUS nrt_tensor_write(nrt_tensor_t *tensor, const void *buf, size_t offset, size_t size)
{
    return move_locked(tensor, (void *)(uintptr_t)buf, offset, size, true);
}

static NRT_STATUS move_batch(const nrt_tensor_batch_t *batches, uint64_t n, bool write)
{
    NRT_STATUS status;

    if (!batches || n > BATCH_MAX)
        return NRT_INVALID;
    status = libnrt_enter();
    if (status != NRT_SUCCESS)
        return status;
    for (uint64_t i = 0; i < n && status == NRT_SUCCESS; i++)
        for (uint32_t k = 0; k < batches[i].num_ops && status == NRT_SUCCESS; k++) {
            const nrt_tensor_batch_op_t *op = &batches[i].ops[k];

            status = move(batches[i].tensor, op->buffer, op->offset, op->size, write);
        }
    return libnrt_leave(status);
}

NRT_STATUS nrt_tensor_read_batch(const nrt_tensor_batch_t *batches, uint64_t num_batches, bool unsafe)
{
    (void)unsafe;
    return move_batch(batches, num_batches, false);
}

NRT_STATUS nrt_tensor_write_batch(const nrt_tensor_batch_t *batches, uint64_t num_batches, bool unsafe)
{
    (void)unsafe;
    return move_batch(batches, num_batches, true);
}

/* A copy between tensors of one core stays on the device; between host and device it is a host copy. */
static NRT_STATUS copy(const nrt_tensor_t *src, uint64_t src_offset, nrt_tensor_t *dst, uint64_t dst_offset,
                       uint64_t size)
{
    uint8_t *from = range(src, src_offset, size);
    uint8_t *to = range(dst, dst_offset, size);
    bool from_device, to_device;

    if (!from || !to)
        return NRT_INVALID;
    from_device = src->placement == NRT_TENSOR_PLACEMENT_DEVICE;
    to_device = dst->placement == NRT_TENSOR_PLACEMENT_DEVICE;
    if (from_device && to_device && src->core != dst->core)
        return NRT_INVALID;
    memmove(to, from, size);
    if (from_device == to_device)
        return NRT_SUCCESS;
    return libnrt_host_copy(to_device ? dst->core : src->core, to_device, size, 0,
                            to_device ? dst->offset + dst_offset : src->offset + src_offset);
}

NRT_STATUS nrt_tensor_copy(const nrt_tensor_t *src, size_t src_offset, nrt_tensor_t *dst, size_t dst_offset,
                           size_t size)
{
    NRT_STATUS status = libnrt_enter();

    return status == NRT_SUCCESS ? libnrt_leave(copy(src, src_offset, dst, dst_offset, size)) : status;
}

NRT_STATUS nrt_tensor_memset(nrt_tensor_t *tensor, uint64_t offset, int value, size_t size)
{
    uint8_t *at;
    NRT_STATUS status = libnrt_enter();

    if (status != NRT_SUCCESS)
        return status;
    at = range(tensor, offset, size);
    if (!at)
        return libnrt_leave(NRT_INVALID);
    memset(at, value, size);
    return libnrt_leave(NRT_SUCCESS);
}

size_t nrt_tensor_get_size(const nrt_tensor_t *tensor)
{
    return is_tensor(tensor) ? tensor->size : 0;
}

void *nrt_tensor_get_va(const nrt_tensor_t *tensor)
{
    return range(tensor, 0, 0);
}

NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t **set)
{
    struct set *s;

    if (!set)
        return NRT_INVALID;
    s = KYMO_NEW(struct set);
    if (!s)
        return NRT_FAIL_HOST_MEM_ALLOC;
    s->magic = SET_MAGIC;
    *set = s;
    return NRT_SUCCESS;
}

void nrt_destroy_tensor_set(nrt_tensor_set_t **set)
{
    struct set *s = set ? as_set(*set) : NULL;

    if (!s)
        return;
    s->magic = 0;
    kymo_free(s->items);
    kymo_free(s);
    *set = NULL;
}

static struct named *find_named(const struct set *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->items[i].name, name) == 0)
            return &s->items[i];
    return NULL;
}

NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t *set, const char *name, nrt_tensor_t *tensor)
{
    struct set *s = as_set(set);
    struct named *item;

    if (!s || !name || strlen(name) > LIBNRT_NAME_MAX || !is_tensor(tensor))
        return NRT_INVALID;
    item = find_named(s, name);
    if (!item) {
        if (kymo_grow((void **)&s->items, &s->cap, s->n + 1, SET_MAX, sizeof *s->items) < 0)
            return NRT_RESOURCE;
        item = &s->items[s->n++];
        (void)copy_name(item->name, name);
    }
    item->tensor = tensor;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_get_tensor_from_tensor_set(nrt_tensor_set_t *set, const char *name, nrt_tensor_t **tensor)
{
    const struct set *s = as_set(set);
    const struct named *item = s && name ? find_named(s, name) : NULL;

    if (!item || !tensor)
        return NRT_INVALID;
    *tensor = item->tensor;
    return NRT_SUCCESS;
}

/* The asynchronous forms: done at once, so that the request is complete when it is asked for. */
static NRT_STATUS done_at_once(NRT_STATUS status, nrta_xu_t xu, nrta_seq_t *seq)
{
    static _Atomic uint64_t next = 1;

    if (status == NRT_SUCCESS && seq)
        *seq = (uint64_t)xu << 48 | (next++ & NRTA_SEQ_NUM_MASK);
    return status;
}

NRT_STATUS nrta_tensor_write(nrt_tensor_t *tensor, const void *buf, uint64_t offset, uint64_t size, int queue,
                             nrta_error_tracker_t *errors, nrta_seq_t *seq)
{
    (void)queue;
    (void)errors;
    return done_at_once(nrt_tensor_write(tensor, buf, offset, size), NRTA_XU_TENSOR_WRITE, seq);
}

NRT_STATUS nrta_tensor_read(void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size, int queue,
                            nrta_error_tracker_t *errors, nrta_seq_t *seq)
{
    (void)queue;
    (void)errors;
    return done_at_once(nrt_tensor_read(tensor, buf, offset, size), NRTA_XU_TENSOR_READ, seq);
}

NRT_STATUS nrta_tensor_copy(nrt_tensor_t *src, uint64_t src_offset, nrt_tensor_t *dst, uint64_t dst_offset,
                            uint64_t size, int queue, nrta_error_tracker_t *errors, nrta_seq_t *seq)
{
    (void)queue;
    (void)errors;
    return done_at_once(nrt_tensor_copy(src, src_offset, dst, dst_offset, size), NRTA_XU_TENSOR_OP, seq);
}
