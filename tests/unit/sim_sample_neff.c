/* Writes a small program for end-to-end tests: usage: sim-sample-neff ARCH CORES NOPS FILE */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/sim_sample.h"

#define TRIGGERS 8u

int main(int argc, char **argv)
{
    const struct kymo_arch *arch = argc == 5 ? kymo_arch_find(argv[1]) : NULL;

    if (!arch) {
        (void)fprintf(stderr, "usage: sim-sample-neff ARCH CORES NOPS FILE\n");
        return 2;
    }
    struct sample *s = sample_new(arch);
    s->queues = "\"qSyncIO0\":{\"type\":\"in\",\"owner\":\"sp\",\"num_queues\":16,\"semaphore\":7}";
    s->blocks = "{\"id\":3,\"queue\":\"qSyncIO0\",\"desc\":{\"from\":\"a\",\"from_off\":0,\"from_sizes\":[65536],"
                "\"from_steps\":[1],\"to\":\"b\",\"to_off\":0,\"to_sizes\":[65536],\"to_steps\":[1]}}";
    for (unsigned i = 0; i < TRIGGERS; i++)
        sample_trigger(s, KYMO_ENGINE_SYNC, "qSyncIO0", 3);
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
        for (unsigned long i = 0; i < strtoul(argv[3], NULL, 10); i++)
            (void)sample_op(s, (enum kymo_engine)e, KYMO_OP_NOP);
        (void)sample_op(s, (enum kymo_engine)e, KYMO_OP_HALT);
    }
    sample_write(s, (unsigned)strtoul(argv[2], NULL, 10), argv[4]);
    sample_free(s);
    return 0;
}
