/* The step model as the operator names it: by the hash of its NEFF, by the name in it, or by its number. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/jobs_internal.h"

#define HEADER_NAME_AT 0xdc /* formats/neff/FORMAT.md section 1; all else in a NEFF is the collector's business */
#define HEADER_NAME_SIZE 256
#define HASH_DIGITS_MIN 8
#define NUMBER_DIGITS_MAX (HASH_DIGITS_MIN - 1)

static const char name_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

void rank_read_neff_name(int fd, char ret[RANK_MODEL_NAME_MAX + 1])
{
    char text[HEADER_NAME_SIZE + 1] = {0};
    if (pread(fd, text, HEADER_NAME_SIZE, HEADER_NAME_AT) != HEADER_NAME_SIZE)
        text[0] = '\0';
    size_t n = strnlen(text, RANK_MODEL_NAME_MAX);
    for (size_t i = 0; i < n; i++)
        ret[i] = strchr(name_characters, text[i]) ? text[i] : '_';
    ret[n] = '\0';
}

/* As rank_read_neff_name changes names, but for what makes a pattern. */
static void clean_pattern(const char *wish, char *out, size_t size)
{
    size_t n = strnlen(wish, size - 1);
    for (size_t i = 0; i < n; i++)
        out[i] = strchr(name_characters, wish[i]) || strchr("*?[]!^", wish[i]) ? wish[i] : '_';
    out[n] = '\0';
}

static bool has_hash(const struct rank_model *m, const char *wish)
{
    char hex[2 * KYMO_SHA256_SIZE + 1];
    size_t n = strlen(wish);
    if (!m->has_neff || n < HASH_DIGITS_MIN || n >= sizeof hex)
        return false;
    kymo_hash_hex(m->sha256, KYMO_SHA256_SIZE, hex);
    return strncasecmp(hex, wish, n) == 0;
}

uint32_t rank_step_model(const struct rank *r, const char *wish)
{
    char pattern[2 * RANK_MODEL_NAME_MAX];
    uint32_t found = 0;
    if (!wish || !*wish)
        return 0;
    size_t digits = strspn(wish, "0123456789");
    bool is_number = digits <= NUMBER_DIGITS_MAX && !wish[digits];
    clean_pattern(wish, pattern, sizeof pattern);
    for (size_t i = 0; i < r->nmodels; i++) {
        const struct rank_model *m = &r->models[i];
        bool matches = is_number ? m->number == strtoul(wish, NULL, 10)
                                 : has_hash(m, wish) || (*m->name && fnmatch(pattern, m->name, 0) == 0);
        if (m->is_loaded && matches && (found == 0 || m->number < found))
            found = m->number;
    }
    return found;
}

void rank_check_step_model(struct rank *r)
{
    const struct config_policy *c =
        config_policy_of(r->jobs->config.config, r->who.job, process_label(&r->who, "unit"));
    if (r->session && r->welcome == RANK_WELCOMED && rank_step_model(r, c->step_model) != r->policy.step_model)
        rank_send_policy(r, -1);
}
