#include "formats/ntff/notice.h"

#include <inttypes.h>
#include <stdio.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char errors[] = "Errors", warnings[] = "Warnings", custom[] = "Custom Notification";

/* By class; the last stands for all others. */
static const char *const classes[NOTICE_CLASSES] = {"activity_0", "activity_1", "unknown"};

enum detail { DETAIL_NUMBER, DETAIL_SEMAPHORE, DETAIL_EVENT, DETAIL_SEQUENCER };

/* By TPB error id. */
static const struct {
    const char *description, *type;
    enum detail detail;
} tpb[] = {
    {"FP Underflow", errors, DETAIL_NUMBER},
    {"NaN", errors, DETAIL_NUMBER},
    {"Inf", errors, DETAIL_NUMBER},
    {"FP Overflow", errors, DETAIL_NUMBER},
    {"Memory", errors, DETAIL_NUMBER},
    {"Fake", errors, DETAIL_NUMBER},
    {"Semaphore", errors, DETAIL_SEMAPHORE},
    {"Event", errors, DETAIL_EVENT},
    {"PSUM Collision", errors, DETAIL_NUMBER},
    {"Sequencer Nonfatal", warnings, DETAIL_SEQUENCER},
    {"Sequencer Fatal", errors, DETAIL_SEQUENCER},
};

/* By custom sub-id; NULL: no name is known. */
static const char *const customs[] = {"EMBD OOB", "PDMAC OOB",         "DMA2D OOB",    "DMAI OOB", "OOB 4", "OOB 5",
                                      "Debug",    "Tensor Completion", "Debug Tensor", "OOB 9",    "OOB 10"};

void notice_throttle(const struct record *rec, struct notice_throttle *ret)
{
    uint32_t low = rec->u.raw.low;
    uint8_t id = (uint8_t)(low >> 16);
    *ret = (struct notice_throttle){.class_id = id < NOTICE_CLASSES ? id : NOTICE_CLASSES - 1,
                                    .k = (uint8_t)low,
                                    .n = (uint8_t)(low >> 8),
                                    .duration_ns = rec->u.raw.high};
}

const char *notice_throttle_class(uint8_t class_id)
{
    return classes[class_id < NOTICE_CLASSES ? class_id : NOTICE_CLASSES - 1];
}

bool notice_is_error(const struct record *rec)
{
    return rec->kind == RECORD_ERROR || rec->kind == RECORD_TPB_ERROR ||
           (rec->kind == RECORD_EXPLICIT && rec->u.explicit_.extended_hint == RECORD_STATUS_CUSTOM);
}

static void describe(struct notice_error *e, const char *name, unsigned id)
{
    if (name)
        (void)snprintf(e->description, sizeof e->description, "%s", name);
    else
        (void)snprintf(e->description, sizeof e->description, "Unknown %u", id);
}

static void tpb_detail(struct notice_error *e, enum detail detail, uint64_t m)
{
    unsigned idx = (unsigned)(m & 0xFF);
    switch (detail) {
    case DETAIL_NUMBER:
        break;
    case DETAIL_SEMAPHORE:
        (void)snprintf(e->metadata, sizeof e->metadata, "sem %u %s", idx, m >> 8 & 1 ? "overflow" : "underflow");
        break;
    case DETAIL_EVENT:
        (void)snprintf(e->metadata, sizeof e->metadata, "event %u", idx);
        break;
    case DETAIL_SEQUENCER: {
        unsigned block = (unsigned)(m >> 24 & 15);
        (void)snprintf(e->metadata, sizeof e->metadata, "%s pc %u info 0x%02x",
                       block < KYMO_ENGINE_MAX ? kymo_engine_name((enum kymo_engine)block) : "block",
                       (unsigned)(m >> 28 & 0xFFF), (unsigned)(m >> 40 & 0xFF));
        break;
    }
    }
}

static void tpb_error(const struct record *rec, struct notice_error *e)
{
    uint8_t id = rec->u.tpb_error.id;
    uint64_t m = rec->u.tpb_error.metadata;
    bool known = id < COUNT(tpb);
    *e = (struct notice_error){.type = known ? tpb[id].type : errors, .id = id};
    describe(e, known ? tpb[id].description : NULL, id);
    tpb_detail(e, known ? tpb[id].detail : DETAIL_NUMBER, m);
    (void)snprintf(e->metadata_hex, sizeof e->metadata_hex, "%012" PRIx64, m);
}

void notice_error(const struct record *rec, struct notice_error *ret)
{
    if (rec->kind == RECORD_TPB_ERROR) {
        tpb_error(rec, ret);
        return;
    }
    if (rec->kind == RECORD_ERROR) {
        bool warning = rec->u.error.warning;
        *ret = (struct notice_error){.type = warning ? warnings : errors, .id = rec->u.error.group};
        describe(ret, warning ? "Warning" : "Interrupt", 0);
        (void)snprintf(ret->metadata, sizeof ret->metadata, "block %u", rec->u.error.block_id);
        (void)snprintf(ret->metadata_hex, sizeof ret->metadata_hex, "%08" PRIx32, rec->u.error.cause);
        return;
    }
    uint16_t sub = rec->u.explicit_.soft_reset;
    *ret = (struct notice_error){.type = custom, .id = sub};
    describe(ret, sub < COUNT(customs) ? customs[sub] : NULL, sub);
    (void)snprintf(ret->metadata, sizeof ret->metadata, "%s pc %" PRIu32, kymo_engine_name(rec->u.explicit_.engine),
                   rec->u.explicit_.pc);
    (void)snprintf(ret->metadata_hex, sizeof ret->metadata_hex, "%05" PRIx32, rec->u.explicit_.pc);
}
