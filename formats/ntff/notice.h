/*
 * What throttle and error notices mean. Record types, error ids and custom sub-ids are class C; how the throttle
 * record's bits and an error's metadata are laid out, and which class of the table Error a record belongs to, is class
 * G: this module and the section "Notices" of FORMAT.md hold all of it, so that one real sample corrects one place.
 */
#ifndef KYMO_FORMATS_NTFF_NOTICE_H
#define KYMO_FORMATS_NTFF_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/ntff/record.h"

#define NOTICE_DURATION_SATURATED UINT32_MAX /* the span lasted at least that many ns */
#define NOTICE_CLASSES 3                     /* of throttling, the last is all that have no name */

struct notice_throttle {
    uint8_t class_id;     /* 0 to NOTICE_CLASSES - 1 */
    uint8_t k, n;         /* of n cycles k were allowed */
    uint32_t duration_ns; /* from the record's time on */
};
/* rec: RECORD_HAM. */
void notice_throttle(const struct record *rec, struct notice_throttle *ret);
const char *notice_throttle_class(uint8_t class_id); /* activity_0, activity_1, unknown */

/* A row of the table Error but for its time. */
struct notice_error {
    const char *type; /* Errors, Warnings, Custom Notification */
    int32_t id;
    char description[32], metadata[64], metadata_hex[16]; /* metadata "": nothing is known beside the number */
};
/* RECORD_ERROR, RECORD_TPB_ERROR, or an explicit record that is a custom notification. */
bool notice_is_error(const struct record *rec);
void notice_error(const struct record *rec, struct notice_error *ret);

#endif
