#include "collector/query/serve_ops.h"

#include <string.h>

static const struct serve_op ops[] = {
#define X(name) {#name, op_##name, false},
    SERVE_OPS(X)
#undef X
#define X(name) {#name, op_##name, true},
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
