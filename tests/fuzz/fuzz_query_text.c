/* SQL as people send it: what is found of it is a part of it, without gaps around, and found again in itself. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/query_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *sql KYMO_FREE = kymo_strndup((const char *)data, size);
    must(sql != NULL);
    const struct query_text t = query_text_find(sql);
    must(t.at >= sql && t.at + t.n <= sql + strlen(sql));
    must(t.n > 0 || !t.more);
    must(!query_text_begins(&t, "PIVOT") || query_text_has(&t, "PIVOT"));
    char *alone KYMO_FREE = kymo_strndup(t.at, t.n);
    must(alone != NULL);
    const struct query_text again = query_text_find(alone);
    must(again.at == alone && again.n == t.n && !again.more);
    return 0;
}
