/*
 * Prints a tree of named values to a stream, as indented text or as JSON, while it is walked: nothing is kept, so that
 * output of any size costs no memory. Errors of the stream stay in it (ferror). Not thread-safe.
 */
#ifndef KYMO_TOOLS_TREE_H
#define KYMO_TOOLS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TREE_DEPTH_MAX 64

struct tree {
    FILE *out;
    bool json;
    unsigned depth;
    struct {
        bool list, row, filled;
    } levels[TREE_DEPTH_MAX];
};

/* Opens the outermost object; tree_finish closes it with all that is still open inside, as after an error, and ends the
 * line. */
void tree_start(struct tree *t, FILE *out, bool json);
void tree_finish(struct tree *t);

/* key is NULL inside a list. Every opening needs one tree_close; deeper than TREE_DEPTH_MAX aborts. */
void tree_object(struct tree *t, const char *key);
void tree_list(struct tree *t, const char *key);
/* An object of single values: one line of text, name=value. */
void tree_row(struct tree *t, const char *key);
void tree_close(struct tree *t);

void tree_text(struct tree *t, const char *key, const char *value); /* NULL: null */
void tree_textf(struct tree *t, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void tree_u64(struct tree *t, const char *key, uint64_t value);
void tree_i64(struct tree *t, const char *key, int64_t value);
void tree_double(struct tree *t, const char *key, double value);
void tree_bool(struct tree *t, const char *key, bool value);
/* Hex of at most max bytes; a cut is marked with the whole length behind it. */
void tree_hex(struct tree *t, const char *key, const uint8_t *data, size_t n, size_t max);

#endif
