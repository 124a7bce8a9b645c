/*
 * Holds a foreign sample's protobuf against what is said of the vendor's schema (ntff_facts.def), field by field:
 * confirmed, contradicted, or not seen; and lists the field numbers of which nothing is said.
 */
#ifndef KYMO_FORMATS_NTFF_NTFF_FACTS_H
#define KYMO_FORMATS_NTFF_NTFF_FACTS_H

#include <stddef.h>
#include <stdint.h>

#include "formats/ntff/pb_wire.h"

/* ntff_info is said to have 20 fields: higher numbers at the outermost level are not it but the bytes behind it. */
#define NTFF_FACTS_TOP_NUMBER_MAX 64
/* neff_nodes is said to have a number below this; which one is not known. */
#define NTFF_FACTS_NODES_BELOW 8
#define NTFF_FACTS_OTHERS_MAX 256

struct ntff_fact {
    const char *message, *name, *mark;
    uint32_t number;
    enum pb_wire wire;
    uint64_t confirmed, contradicted; /* how often seen with that wire type, and with another one */
    enum pb_wire other_wire;          /* of the first contradiction, and where it is */
    size_t other_offset;
};

/* A number that the facts do not give. */
struct ntff_fact_other {
    const char *message;
    uint32_t number;
    enum pb_wire wire;
    uint64_t seen;
    size_t offset; /* the first one's */
};

struct ntff_facts;

/* data: the bytes of one ntff_info. NULL when memory is short. */
struct ntff_facts *ntff_facts_check(const uint8_t *data, size_t n);
struct ntff_facts *ntff_facts_free(struct ntff_facts *f);
void ntff_facts_freep(struct ntff_facts **f);

size_t ntff_facts_count(const struct ntff_facts *f);
const struct ntff_fact *ntff_facts_get(const struct ntff_facts *f, size_t i);
size_t ntff_facts_other_count(const struct ntff_facts *f); /* at most NTFF_FACTS_OTHERS_MAX */
const struct ntff_fact_other *ntff_facts_other(const struct ntff_facts *f, size_t i);
/* The number below NTFF_FACTS_NODES_BELOW whose values look like neff_node_info; 0: none. */
uint32_t ntff_facts_nodes_number(const struct ntff_facts *f);

#endif
