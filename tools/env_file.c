#include "tools/env_file.h"

#include <glob.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

#define BLANKS " \t\r"

/* Behind the quoted text that begins at text, or at the end of everything. */
static const char *skip_quoted(const char *text)
{
    char quote = *text++;
    while (*text && *text != quote)
        text += *text == '\\' && quote == '"' && text[1] ? 2 : 1;
    return text + (*text == quote);
}

/*
 * Behind the end of an assignment that begins at text. Quotes, which may span lines, count at the value's start and
 * after other quotes only; elsewhere they are characters as all others. A backslash takes the next one, also the line's
 * end.
 */
static const char *skip_assignment(const char *text)
{
    text += strcspn(text, "=\n");
    bool fresh = *text == '=';
    text += fresh;
    while (*text && *text != '\n') {
        if (fresh && (*text == '"' || *text == '\'')) {
            text = skip_quoted(text);
            continue;
        }
        fresh = fresh && strchr(BLANKS, *text);
        text += *text == '\\' && text[1] ? 2 : 1;
    }
    return text + (*text == '\n');
}

/* Comments end with their line, whatever quotes are in them; a backslash continues them. */
static const char *skip_comment(const char *text)
{
    while (*text && *text != '\n')
        text += text[0] == '\\' && text[1] ? 2 : 1;
    return text + (*text == '\n');
}

bool env_file_sets(const char *text, const char *variable)
{
    size_t n = strlen(variable);
    bool set = false;
    while (*text) {
        text += strspn(text, BLANKS "\n");
        if (*text == '#' || *text == ';') {
            text = skip_comment(text);
            continue;
        }
        if (strncmp(text, variable, n) == 0 && text[n + strspn(text + n, BLANKS)] == '=')
            set = true;
        text = skip_assignment(text);
    }
    return set;
}

int env_file_find(const char *pattern, const char *variable, char **ret, struct kymo_err *err)
{
    glob_t found KYMO_CLEANUP(globfree) = {0};
    if (glob(pattern, GLOB_NOSORT, NULL, &found) == GLOB_NOSPACE)
        return kymo_err_set(err, -ENOMEM, "%.200s: out of memory", pattern);
    for (size_t i = 0; i < found.gl_pathc && i < ENV_FILE_MATCHES_MAX; i++) {
        uint8_t *data KYMO_FREE = NULL;
        size_t n;
        if (kymo_file_read_all(found.gl_pathv[i], ENV_FILE_BYTES_MAX, &data, &n, NULL) < 0 ||
            !env_file_sets((const char *)data, variable))
            continue;
        *ret = kymo_strdup(found.gl_pathv[i]);
        return *ret ? 0 : kymo_err_set(err, -ENOMEM, "out of memory");
    }
    *ret = NULL;
    return 0;
}
