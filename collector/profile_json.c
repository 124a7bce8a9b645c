#include "collector/profile_json.h"

#include "base/alloc.h"
#include "collector/json_text.h"
#include "collector/work_queue.h"

static void put_outcome(json_t *o, const struct catalog_profile *p)
{
    json_put(o, "processor", json_text(p->processor), *p->processor);
    json_put(o, "schema_version", json_text(p->schema_version), *p->schema_version);
    json_put(o, "records", json_number(p->records), p->records > 0);
    json_put(o, "tables", json_number(p->tables), p->tables > 0);
    json_put(o, "bytes", json_number(p->bytes), p->tables > 0);
    json_put(o, "attempts", json_number(p->attempts), true);
    json_put(o, "received_ns", json_integer(p->received_ns), true);
    json_put(o, "queued_ns", json_integer(p->queued_ns), p->queued_ns > 0);
    json_put(o, "started_ns", json_integer(p->started_ns), p->started_ns > 0);
    json_put(o, "finished_ns", json_integer(p->finished_ns), p->finished_ns > 0);
}

json_t *profile_json(const char *data_path, const struct catalog_profile *p)
{
    json_t *o = json_object();
    char *place KYMO_FREE = work_queue_place(data_path, p->name);
    bool ready = p->state == CATALOG_READY, working = p->state == CATALOG_PROCESSING;
    json_put(o, "name", json_text(p->name), true);
    json_put(o, "state", json_text(catalog_state_name(p->state)), true);
    json_put(o, "reason", json_text(p->reason), *p->reason);
    json_put(o, "file_offset", json_integer(p->file_offset), p->file_offset >= 0);
    json_put(o, "path", json_text(place ? place : ""), ready && place);
    json_put(o, "stage", json_text(p->stage), working && *p->stage);
    json_put(o, "done", json_number(p->done), working && *p->stage);
    json_put(o, "total", json_number(p->total), working && p->total);
    json_put(o, "kind", json_text(p->is_parent ? "ranks" : "device"), true);
    json_put(o, "request", json_text(p->request), *p->request);
    json_put(o, "capture", json_text(p->capture), !p->is_parent);
    json_put(o, "file", json_text(p->file), !p->is_parent);
    json_put(o, "file_size", json_number(p->file_size), !p->is_parent);
    json_put(o, "job", json_text(p->job), *p->job);
    json_put(o, "host", json_text(p->host), *p->host);
    json_put(o, "rank", json_number(p->rank), !p->is_parent);
    json_put(o, "vnc", json_number(p->vnc), !p->is_parent);
    json_put(o, "fleet", json_text(p->fleet), *p->fleet);
    json_put(o, "fleet_reason", json_text(p->fleet_reason), *p->fleet_reason);
    json_put(o, "owner", json_text(p->owner), *p->owner);
    json_put(o, "pinned", json_true(), p->pinned);
    put_outcome(o, p);
    return o;
}

json_t *capture_json(const struct catalog_capture *c)
{
    json_t *o = json_object();
    json_put(o, "id", json_text(c->id), true);
    json_put(o, "state", json_text(c->state), true);
    json_put(o, "reason", json_text(c->reason), *c->reason);
    json_put(o, "files", json_number(c->files), true);
    json_put(o, "bytes", json_number(c->bytes), true);
    json_put(o, "job", json_text(c->job), *c->job);
    json_put(o, "host", json_text(c->host), *c->host);
    json_put(o, "rank", json_number(c->rank), true);
    json_put(o, "mode", json_text(c->mode), *c->mode);
    json_put(o, "trigger", json_text(c->trigger), *c->trigger);
    json_put(o, "first_execution", json_number(c->first_execution), c->execution_count > 0);
    json_put(o, "execution_count", json_number(c->execution_count), c->execution_count > 0);
    json_put(o, "start_ns", json_integer(c->start_ns), c->start_ns > 0);
    json_put(o, "end_ns", json_integer(c->end_ns), c->end_ns > 0);
    json_put(o, "received_ns", json_integer(c->received_ns), true);
    json_put(o, "instance_type", json_text(c->instance_type), *c->instance_type);
    json_put(o, "driver_version", json_text(c->driver_version), *c->driver_version);
    json_put(o, "runtime_version", json_text(c->runtime_version), *c->runtime_version);
    json_put(o, "writer", json_text(c->writer), *c->writer);
    return o;
}
