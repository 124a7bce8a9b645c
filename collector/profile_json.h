/* Profiles and captures as JSON: the same from the API and from kymo profiles --json (openapi.json). */
#ifndef KYMO_COLLECTOR_PROFILE_JSON_H
#define KYMO_COLLECTOR_PROFILE_JSON_H

#include <jansson.h>

#include "collector/catalog.h"

/* NULL without memory. */
json_t *profile_json(const char *data_path, const struct catalog_profile *p);
json_t *capture_json(const struct catalog_capture *c);

#endif
