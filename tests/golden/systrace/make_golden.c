/* Makes the golden files of the system trace anew. usage: make_systrace_golden DIR */
#include <stdio.h>

#include "tests/unit/systrace_sample.h"

int main(int argc, char **argv)
{
    struct kymo_err err = {0};
    if (argc == 2 && systrace_sample_write(argv[1], &err) == 0)
        return 0;
    (void)fprintf(stderr, "%s\n", argc == 2 ? err.text : "usage: make_systrace_golden DIR");
    return 1;
}
