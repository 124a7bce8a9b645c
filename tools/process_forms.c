#include "tools/process_forms.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tools/process_child.h"

/* What a result is called in a directory of several. */
static const struct {
    const char *name, *ending;
    bool printable;
} forms[PROCESS_FORMS_MAX] = {
    {"parquet", "", false},
    {"csv", ".csv", false},
    {"perfetto", ".pftrace", false},
    {"summary-text", ".summary.txt", true},
    {"summary-json", ".summary.json", true},
};

static size_t find(const char *name)
{
    size_t i = 0;
    while (i < PROCESS_FORMS_MAX && strcmp(forms[i].name, name) != 0)
        i++;
    return i;
}

int process_forms_check(const char *name, struct kymo_err *err)
{
    if (find(name) < PROCESS_FORMS_MAX)
        return 0;
    return kymo_err_set(err, -EINVAL, "\"%s\" is none of parquet, csv, perfetto, summary-text, summary-json", name);
}

static bool has(const struct process_forms *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (!strcmp(f->names[i], name))
            return true;
    return false;
}

static int check_places(const struct process_forms *f, struct kymo_err *err)
{
    if (!f->count && !f->output == !f->data_path)
        return kymo_err_set(err, -EINVAL, "give either --output-file or --data-path");
    if (f->tables && !f->output && !f->data_path)
        return kymo_err_set(err, -EINVAL, "give --output-file or --data-path for the tables");
    for (size_t i = 0; i < f->count; i++)
        if (!f->output && !forms[find(f->names[i])].printable)
            return kymo_err_set(err, -EINVAL, "--output-format %s needs --output-file", f->names[i]);
    return 0;
}

int process_forms_init(struct process_forms *f, const struct kymo_option_list *names, const char *output,
                       const char *data_path, struct kymo_err *err)
{
    *f = (struct process_forms){.tables = !names->n, .output = output, .data_path = data_path};
    for (size_t i = 0; i < names->n; i++) {
        if (!strcmp(names->items[i], "parquet"))
            f->tables = true;
        else if (!has(f, names->items[i]))
            f->names[f->count++] = names->items[i];
    }
    return check_places(f, err);
}

size_t process_forms_results(const struct process_forms *f)
{
    return f->count + (f->tables && !f->data_path);
}

/* Tables may be as large as the trace, so they go where the result goes. */
static int make_scratch(struct process_forms *f)
{
    char parent[PATH_MAX];
    const char *tmp = getenv("TMPDIR"), *slash = f->output ? strrchr(f->output, '/') : NULL;
    if (!f->output)
        (void)snprintf(parent, sizeof parent, "%s", tmp && *tmp ? tmp : "/tmp");
    else if (slash)
        (void)snprintf(parent, sizeof parent, "%.*s", (int)(slash - f->output + 1), f->output);
    else
        (void)snprintf(parent, sizeof parent, ".");
    if (kymo_file_mkdirs(parent, NULL) < 0)
        return -1;
    char *path = kymo_asprintf("%s/kymo-process-XXXXXX", parent);
    if (path && mkdtemp(path))
        f->scratch = path;
    else
        kymo_free(path);
    return f->scratch ? 0 : -1;
}

char *process_forms_tables(struct process_forms *f, const char *name, bool several)
{
    if (f->data_path)
        return kymo_asprintf("%s/profiles/global/%s@latest", f->data_path, name);
    if (f->tables)
        return several ? kymo_asprintf("%s/%s", f->output, name) : kymo_strdup(f->output);
    if (!f->scratch && make_scratch(f) < 0)
        return NULL;
    return kymo_asprintf("%s/%s", f->scratch, name);
}

static int make_one(const struct process_forms *f, const char *form, const char *tables, const char *name, bool several,
                    struct kymo_err *err)
{
    char *path KYMO_FREE = NULL;
    if (f->output)
        path = several ? kymo_asprintf("%s/%s%s", f->output, name, forms[find(form)].ending) : kymo_strdup(f->output);
    if (f->output && !path)
        return kymo_err_set(err, -ENOMEM, "no memory");
    if (several && path && kymo_file_mkdirs(f->output, err) < 0)
        return err->code;
    const char *argv[] = {"kymo-export", tables, "--output-format", form, path ? "--output-file" : NULL, path, NULL};
    int code = process_child_exec("kymo-export", argv, err);
    if (code == 0 && path)
        printf("%s\n", path);
    return code;
}

int process_forms_make(const struct process_forms *f, const char *tables, const char *name, bool several,
                       struct kymo_err *err)
{
    int first = 0;
    for (size_t i = 0; i < f->count && !process_child_stopped(); i++) {
        int code = make_one(f, f->names[i], tables, name, several, err);
        first = first ? first : code;
    }
    return first;
}

void process_forms_done(struct process_forms *f)
{
    if (!f->scratch)
        return;
    int r = kymo_file_remove_tree(f->scratch, NULL);
    if (r < 0)
        (void)fprintf(stderr, "kymo process: %s cannot be removed\n", f->scratch);
    kymo_free(f->scratch);
    f->scratch = NULL;
}
