/* Configuration files: whatever bytes they hold, values land in the table's places or the error names file and line. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/ini.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct args {
    const char *text;
    uint64_t number, size, sections;
    double part;
    bool flag;
    int choice;
    struct kymo_option_list list;
};

static const struct kymo_option rows[] = {
    {.name = "text", .type = KYMO_OPTION_TEXT, .offset = offsetof(struct args, text)},
    {.name = "number", .type = KYMO_OPTION_U64, .max = 100, .offset = offsetof(struct args, number)},
    {.name = "size", .type = KYMO_OPTION_SIZE, .offset = offsetof(struct args, size)},
    {.name = "part", .type = KYMO_OPTION_DOUBLE, .offset = offsetof(struct args, part)},
    {.name = "flag", .type = KYMO_OPTION_FLAG, .offset = offsetof(struct args, flag)},
    {.name = "choice", .type = KYMO_OPTION_CHOICE, .choices = "one|two", .offset = offsetof(struct args, choice)},
    {.name = "list", .type = KYMO_OPTION_LIST, .offset = offsetof(struct args, list)},
    {0}};

static void *begin(void *target, const char *name, struct kymo_err *err)
{
    struct args *a = target;
    (void)err;
    if (strlen(name) > KYMO_INI_NAME_MAX || ++a->sections > KYMO_INI_SECTIONS_MAX)
        abort();
    return a;
}

static const struct kymo_options options = {.program = "fuzz", .rows = rows};
static const struct kymo_ini_section sections[] = {{.kind = "job", .rows = rows, .begin = begin}, {0}};
static const struct kymo_ini_spec spec = {.options = &options, .sections = sections};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct args a = {0};
    struct kymo_ini *ini = NULL;
    struct kymo_err err = {0};
    int r = kymo_ini_read(&spec, "file", data, size, &a, &ini, &err);

    if ((r == 0) != (ini != NULL) || (r < 0 && strncmp(err.text, "file:", 5) != 0))
        abort();
    if (a.number > 100 || a.choice < 0 || a.choice > 1 || a.list.n > KYMO_OPTION_LIST_MAX)
        abort();
    if (r == 0 && a.text && strlen(a.text) > KYMO_INI_LINE_MAX)
        abort();
    (void)kymo_ini_free(ini);
    return 0;
}
