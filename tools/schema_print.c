#include "tools/schema_print.h"

#include <stdbool.h>
#include <string.h>

void schema_print_list(FILE *out, const struct kymo_table *t)
{
    for (size_t i = 0; i < t->column_count; i++) {
        const struct kymo_column *c = &t->columns[i];
        (void)fprintf(out, "%s.%s\t%s%s%s\t%s\t%s\t%s%s\n", t->name, c->name, c->openapi_type,
                      *c->openapi_format ? " " : "", c->openapi_format, c->unit, c->required ? "required" : "optional",
                      t->own || c->own ? "(kymo) " : "", c->description);
    }
}

/* A YAML string in double quotes, which takes any text with JSON's escapes. */
static void yaml_text(FILE *out, const char *s)
{
    (void)fputc('"', out);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            (void)fputc('\\', out);
        if ((unsigned char)*s < 0x20)
            (void)fprintf(out, "\\x%02x", (unsigned char)*s);
        else
            (void)fputc(*s, out);
    }
    (void)fputc('"', out);
}

void schema_print_yaml_head(FILE *out)
{
    (void)fputs(
        "openapi: 3.0.3\n"
        "info:\n"
        "  title: Tables of a profile\n"
        "  description: One Parquet file per table; a schema here is one row of it. A table without rows has no file.\n"
        "  version: " KYMO_SCHEMA_VERSION "\n"
        "  x-kymo-schema-version: " KYMO_SCHEMA_OWN_VERSION "\n"
        "paths: {}\n"
        "components:\n"
        "  schemas:\n",
        out);
}

/* What a required column holds for lack of inputs is a value too. */
static void yaml_enum(FILE *out, const struct kymo_column *c)
{
    bool empty = c->required && c->empty != NULL;
    const char *quote = !strcmp(c->openapi_type, "integer") ? "" : "\"";
    (void)fputs("          enum:\n", out);
    for (const char *v = c->enum_values; *v;) {
        size_t n = strcspn(v, ",");
        (void)fprintf(out, "            - %s%.*s%s\n", quote, (int)n, v, quote);
        empty = empty && (strlen(c->empty) != n || memcmp(c->empty, v, n) != 0);
        v += n + (v[n] == ',');
    }
    if (empty)
        (void)fprintf(out, "            - %s%s%s\n", quote, c->empty, quote);
}

/* Examples of numbers are numbers. */
static void yaml_example(FILE *out, const struct kymo_column *c)
{
    bool plain = !strcmp(c->openapi_type, "integer") || !strcmp(c->openapi_type, "number") ||
                 !strcmp(c->openapi_type, "boolean") || !strcmp(c->openapi_type, "array");
    bool listed = strcmp(c->openapi_type, "array") != 0 || *c->example == '[';
    (void)fputs("          example: ", out);
    if (plain && listed)
        (void)fputs(c->example, out);
    else
        yaml_text(out, c->example);
    (void)fputc('\n', out);
}

static void yaml_type(FILE *out, const struct kymo_column *c)
{
    if (strcmp(c->openapi_type, "array") != 0) {
        (void)fprintf(out, "          type: %s\n", c->openapi_type);
        if (*c->openapi_format)
            (void)fprintf(out, "          format: %s\n", c->openapi_format);
        return;
    }
    bool text = !strcmp(c->openapi_format, "string");
    (void)fprintf(out, "          type: array\n          items:\n            type: %s\n", text ? "string" : "integer");
    if (!text)
        (void)fprintf(out, "            format: %s\n", c->openapi_format);
}

static void yaml_column(FILE *out, const struct kymo_table *t, const struct kymo_column *c)
{
    (void)fprintf(out, "        %s:\n", c->name);
    yaml_type(out, c);
    (void)fputs("          description: ", out);
    yaml_text(out, c->description);
    (void)fputc('\n', out);
    if (*c->example)
        yaml_example(out, c);
    if (*c->enum_values)
        yaml_enum(out, c);
    if (*c->unit)
        (void)fprintf(out, "          x-unit: %s\n", c->unit);
    if (t->own || c->own)
        (void)fputs("          x-kymo-own: true\n", out);
}

void schema_print_yaml(FILE *out, const struct kymo_table *t)
{
    bool required = false;
    (void)fprintf(out, "    %s:\n      type: object\n      description: ", t->name);
    yaml_text(out, t->description);
    (void)fputc('\n', out);
    if (t->own)
        (void)fputs("      x-kymo-own: true\n", out);
    if (t->sort_column)
        (void)fprintf(out, "      x-sorted-by: %s\n", t->sort_column);
    for (size_t i = 0; i < t->column_count; i++) {
        if (t->columns[i].required)
            (void)fprintf(out, "%s        - %s\n", required ? "" : "      required:\n", t->columns[i].name);
        required = required || t->columns[i].required;
    }
    (void)fputs("      properties:\n", out);
    for (size_t i = 0; i < t->column_count; i++)
        yaml_column(out, t, &t->columns[i]);
}

void schema_print_markdown_head(FILE *out)
{
    (void)fputs("# Tables of a profile\n\n"
                "Schema " KYMO_SCHEMA_VERSION " of the vendor, schema " KYMO_SCHEMA_OWN_VERSION
                " of kymo. Each table is a Parquet file of its name, NAME.parquet, or NAME_0.parquet and so on;\n"
                "a table without rows has no file. Required columns (R) are never null. What kymo adds is marked K.\n",
                out);
}

/* Nothing in a cell may end it. */
static void markdown_text(FILE *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '|' || *s == '<' || *s == '*' || *s == '_' || *s == '`')
            (void)fputc('\\', out);
        (void)fputc(*s, out);
    }
}

void schema_print_markdown(FILE *out, const struct kymo_table *t)
{
    (void)fprintf(out, "\n## %s%s\n\nOne row: ", t->name, t->own ? " (K)" : "");
    markdown_text(out, t->description);
    (void)fprintf(out, ".%s%s%s\n\n| column | | type | unit | meaning |\n| --- | --- | --- | --- | --- |\n",
                  t->sort_column ? " In the order of `" : "", t->sort_column ? t->sort_column : "",
                  t->sort_column ? "`." : "");
    for (size_t i = 0; i < t->column_count; i++) {
        const struct kymo_column *c = &t->columns[i];
        (void)fprintf(out, "| `%s` | %s%s | %s%s%s | %s | ", c->name, c->required ? "R" : "",
                      t->own || c->own ? "K" : "", c->openapi_type, *c->openapi_format ? " " : "", c->openapi_format,
                      c->unit);
        markdown_text(out, c->description);
        if (*c->enum_values) {
            (void)fputs(": ", out);
            markdown_text(out, c->enum_values);
        }
        (void)fputs(" |\n", out);
    }
}

void schema_print_coverage(FILE *out, const struct kymo_table *t)
{
    for (size_t i = 0; i < t->column_count; i++)
        (void)fprintf(out, "%s.%s\t%s: %s\n", t->name, t->columns[i].name, t->columns[i].filled ? "filled" : "empty",
                      t->columns[i].coverage);
}
