/* What the lists of the API share. */
#include "collector/api_impl.h"
#include "collector/api_params.h"
#include "collector/json_text.h"

bool api_read_page(struct http_request *q, struct catalog_query *query, struct catalog_place *place)
{
    int64_t limit = API_LIMIT_DEFAULT;
    struct kymo_err err = {0};
    const char *cursor = http_param(q, "cursor");
    if (!api_params_number(q, "limit", 1, API_LIMIT_MAX, &limit))
        return false;
    query->limit = (unsigned)limit;
    query->scan = API_SCAN_MAX;
    query->budget_ms = API_BUDGET_MS;
    if (!cursor)
        return true;
    if (catalog_place_parse(query, cursor, place, &err) < 0) {
        http_answer_err(q, &err);
        return false;
    }
    query->after = place;
    return true;
}

void api_answer_page(struct http_request *q, const struct catalog_query *query, const char *key, json_t *rows, int r,
                     const struct catalog_place *next, struct kymo_err *err)
{
    char cursor[CATALOG_PLACE_MAX] = "";
    if (r < 0) {
        if (!err->code)
            (void)kymo_err_set(err, r, "no memory for a list");
        json_decref(rows);
        http_answer_err(q, err);
        return;
    }
    if (r == 1)
        catalog_place_text(query, next, cursor);
    http_answer_json(q, 200, json_pack("{s:o, s:o}", key, rows, "next", r ? json_text(cursor) : json_null()));
}
