#include "collector/query/serve_ops.h"

#include <string.h>

static const struct serve_op ops[] = {
#define X(name, patient) {#name, op_##name, false, patient},
    SERVE_OPS(X)
#undef X
#define X(name, patient) {#name, op_##name, true, patient},
        SERVE_OPS_ALONE(X)
#undef X
};

const struct serve_op *serve_op_find(const char *name)
{
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i].name, name))
            return &ops[i];
    return NULL;
}
