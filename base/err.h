/*
 * Errors: every function that can fail returns 0 or a negative errno; the optional struct kymo_err carries
 * one sentence for people (file, offset, cause). Library code never logs.
 */
#ifndef KYMO_BASE_ERR_H
#define KYMO_BASE_ERR_H

#include <errno.h>

#define KYMO_ERR_TEXT_MAX 512
#define KYMO_MUST_CHECK __attribute__((warn_unused_result))

struct kymo_err {
    int code; /* negative errno, 0 while unset */
    char text[KYMO_ERR_TEXT_MAX];
};

/*
 * Stores code and text (cut at KYMO_ERR_TEXT_MAX - 1) in *err unless err is NULL. Returns code, which must be negative;
 * anything else becomes -EIO, since a failure must not look like success. Control characters of what the text names are
 * \xNN in it, line ends too (plain.h).
 */
int kymo_err_set(struct kymo_err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The macro returns the code itself, so that compilers and analysers see that a caller's outputs are not read after it.
 */
#define kymo_err_set(err, code, ...)                                                                                   \
    __extension__({                                                                                                    \
        int kymo_code_ = (code);                                                                                       \
        kymo_code_ = kymo_code_ < 0 ? kymo_code_ : -EIO;                                                               \
        (void)(kymo_err_set)((err), kymo_code_, __VA_ARGS__);                                                          \
        kymo_code_;                                                                                                    \
    })

/* A text that has lines on purpose keeps them; all else as kymo_err_set. */
int kymo_err_lines(struct kymo_err *err, int code, const char *text);

/* Puts "prefix: " before the text of an error that is already set; does nothing when err is NULL or unset. */
void kymo_err_prefix(struct kymo_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
