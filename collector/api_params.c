#include "collector/api_params.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

bool api_params_known(struct http_request *q, const char *const *known)
{
    const char *unknown = http_unknown_param(q, known);
    if (unknown)
        http_answer_error(q, 400, "bad_request", "there is no parameter %.64s", unknown);
    return !unknown;
}

bool api_params_number(struct http_request *q, const char *name, int64_t min, int64_t max, int64_t *ret)
{
    const char *text = http_param(q, name);
    if (!text)
        return true;
    char *end;
    errno = 0;
    int64_t value = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value < min || value > max) {
        http_answer_error(q, 400, "bad_request", "%s is a number from %" PRId64 " to %" PRId64, name, min, max);
        return false;
    }
    *ret = value;
    return true;
}

bool api_params_choice(struct http_request *q, const char *name, const char *const *names, int n, int *ret)
{
    const char *text = http_param(q, name);
    char list[256] = "";
    if (!text)
        return true;
    for (int i = 0; i < n; i++) {
        size_t len = strlen(list);
        if (!strcmp(names[i], text)) {
            *ret = i;
            return true;
        }
        (void)snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "", names[i]);
    }
    http_answer_error(q, 400, "bad_request", "%s is one of %s", name, list);
    return false;
}

char *api_params_trimmed(const char *text)
{
    static const char spaces[] = " \t";
    const char *at = text ? text + strspn(text, spaces) : "";
    size_t n = strlen(at);
    while (n > 0 && strchr(spaces, at[n - 1]))
        n--;
    return text ? kymo_strndup(at, n) : NULL;
}
