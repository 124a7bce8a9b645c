/*
 * Errors: every function that can fail returns 0 or a negative errno; the optional struct kymo_err carries
 * one sentence for people (file, offset, cause). Library code never logs.
 */
#ifndef KYMO_BASE_ERR_H
#define KYMO_BASE_ERR_H

#define KYMO_ERR_TEXT_MAX 512
#define KYMO_MUST_CHECK __attribute__((warn_unused_result))

struct kymo_err {
    int code; /* negative errno, 0 while unset */
    char text[KYMO_ERR_TEXT_MAX];
};

/* Stores code and text (cut at KYMO_ERR_TEXT_MAX - 1) in *err unless err is NULL. Returns code, which must be negative. */
int kymo_err_set(struct kymo_err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the text of an error that is already set; does nothing when err is NULL or unset. */
void kymo_err_prefix(struct kymo_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
