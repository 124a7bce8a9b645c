#include "collector/query/query_text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* Comments nest. */
static const char *behind_comment(const char *p)
{
    int depth = 0;
    do {
        bool opens = p[0] == '/' && p[1] == '*', closes = p[0] == '*' && p[1] == '/';
        depth += opens - closes;
        p += opens || closes ? 2 : 1;
    } while (depth > 0 && *p);
    return p;
}

/* A quote that is there twice is one of the text's; after E'...' backslashes escape. */
static const char *behind_quotes(const char *p, bool escapes)
{
    char quote = *p++;
    for (; *p; p++) {
        if (escapes && *p == '\\' && p[1])
            p++;
        else if (*p == quote && p[1] == quote)
            p++;
        else if (*p == quote)
            return p + 1;
    }
    return p;
}

/* $tag$ text $tag$; p itself where it is none, as in $1. */
static const char *behind_dollars(const char *p)
{
    size_t n = 1;
    while (is_letter(p[n]))
        n++;
    if (p[n] != '$' || isdigit((unsigned char)p[1]))
        return p;
    n++;
    for (const char *at = p + n; (at = strchr(at, '$')); at++)
        if (!strncmp(at, p, n))
            return at + n;
    return p + strlen(p);
}

/* Behind a comment; p itself where none begins. */
static const char *skip_comment(const char *p)
{
    if (p[0] == '-' && p[1] == '-')
        return p + strcspn(p, "\n");
    return p[0] == '/' && p[1] == '*' ? behind_comment(p) : p;
}

/* Behind a word, a quoted text or any other character. */
static const char *skip_token(const char *p)
{
    const char *end = p;
    if (*p == '\'' || *p == '"')
        return behind_quotes(p, false);
    if (*p == '$')
        end = behind_dollars(p);
    while (end == p || (is_letter(*p) && (is_letter(*end) || *end == '$')))
        end++;
    if (end == p + 1 && (*p == 'e' || *p == 'E') && *end == '\'')
        end = behind_quotes(end, true);
    return end;
}

static const char *skip_gap(const char *p, bool semicolons)
{
    for (const char *next;; p = next) {
        next = isspace((unsigned char)*p) || (semicolons && *p == ';') ? p + 1 : skip_comment(p);
        if (next == p)
            return p;
    }
}

struct query_text query_text_find(const char *sql)
{
    struct query_text t = {.at = skip_gap(sql, true)};
    const char *p = t.at, *end = p;
    while (*p && *p != ';') {
        end = skip_token(p);
        p = skip_gap(end, false);
    }
    t.n = (size_t)(end - t.at);
    t.more = *skip_gap(p, true) != '\0';
    return t;
}

static bool is_word(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - p) == n && !strncasecmp(p, word, n);
}

bool query_text_begins(const struct query_text *t, const char *word)
{
    return t->n > 0 && is_word(t->at, skip_token(t->at), word);
}

bool query_text_has(const struct query_text *t, const char *word)
{
    for (const char *p = t->at, *end; p < t->at + t->n; p = skip_gap(end, false)) {
        end = skip_token(p);
        if (is_word(p, end, word))
            return true;
    }
    return false;
}
