"""Operators, source lines and SQL of collector/query/SERVE.md, from the tables of one profile."""

import re

from double_tables import pack

FIGURES = """count(*) instructions, sum(duration_ns)::bigint time_ns, sum(duration_ns - coalesce(evt_wait_time_ns, 0))::bigint active_ns,
    sum(coalesce(evt_wait_time_ns, 0))::bigint wait_ns, sum(raw_flops)::bigint hardware_flops, min(start_ts) start_ts, max(end_ts) end_ts"""
LINE = "list_distinct([nki_source_location, bir_debug_info_source_location])"


def row_where(row):
    """The instructions of a row of operators by its id."""
    kind, _, path = row.partition(":")
    if kind == "none":
        return "operator is null", ()
    return "(operator = ? or starts_with(operator, ? || '/'))", (path, path)


def operators(tables, params):
    parent = params.get("parent", "")
    path = parent.partition(":")[2]
    depth = len(path.split("/")) if path else 0
    where, values = row_where(parent) if parent else ("true", ())
    if "from" in params:
        where += f" and end_ts > {int(params['from'])} and start_ts < {int(params['to'])}"
    segment = f"array_to_string(string_split(operator, '/')[1:{depth + 1}], '/')"
    sql = f"""select {segment} path, bool_or(len(string_split(operator, '/')) > {depth + 1}) expandable, {FIGURES}
              from Instruction where {where} group by 1"""
    rows = []
    for row in tables.rows(sql, values):
        own = row["path"]
        kind = "framework" if own else "none"
        if own == path and path:
            continue
        found = tables.rows("select 1 from Instruction where contains(lower(operator), lower(?)) and starts_with(operator, ?) limit 1", (params.get("filter", ""), own or ""))
        if params.get("filter") and not found:
            continue
        rows.append({"id": f"{kind}:{own or ''}", "parent": parent or None, "kind": kind, "name": own.split("/")[-1] if own else "without operator", **row, "path": own or ""})
    sort = params.get("sort", "start_ts")
    rows.sort(key=lambda r: r[sort.lstrip("-")], reverse=sort.startswith("-"))
    return {"parent": parent or None, "total": len(rows), "page": 0, "size": len(rows), "rows": rows}


def source(tables, path, params, roots):
    """None: there is no such text."""
    file = params.get("file")
    text = roots / file.rsplit("/", 1)[-1] if file and roots else None
    lines = f"""select split_part(place, ':', 1) file, split_part(place, ':', 2)::int line, i.*
                from (select unnest({LINE}) place, * from Instruction) i where place is not null"""
    if path == "source" and not file:
        found = tables.rows(f"select file, count(distinct id) instructions from ({lines}) group by 1 order by 2 desc, 1")
        kind = lambda name: "nki" if "nki" in name else "framework"
        there = lambda name: bool(roots) and (roots / name.rsplit("/", 1)[-1]).is_file()
        return {"files": [{**row, "kind": kind(row["file"]), "available": there(row["file"])} for row in found]}
    if path == "source":
        return {"file": file, "text": text.read_text()} if text and text.is_file() else None
    if path == "source/lines":
        sql = f"""select line, count(*) instructions, sum(duration_ns)::bigint time_ns, sum(tensor_elements)::bigint tensor_elements,
                  arg_min({{'table': 'Instruction', 'id': id, 'start_ts': start_ts, 'end_ts': end_ts}}, (start_ts, id)) "first"
                  from ({lines}) where file = ? group by 1 order by 1"""
        return {"file": file, "lines": tables.rows(sql, (file,))}
    wanted = set()
    for low, high in re.findall(r"(\d+)(?:-(\d+))?", params["lines"]):
        wanted.update(range(int(low), int(high or low) + 1))
    return marks(tables, f"select distinct id from ({lines}) where file = ? and line in ({','.join(map(str, wanted))})", (file,), params)


def marks(tables, ids, values, params):
    heads, columns = [], []
    ids = ",".join(str(row["id"]) for row in tables.rows(ids, values)) or "-1"
    low, high = int(params["from"]), int(params["to"])
    for track in tables.tracks:
        if track["table"] != "Instruction" or not track["where"] or track["split"] not in (None, "joined"):
            continue
        sql = f"select start_ts, end_ts from Instruction where {track['where']} and id in ({ids}) and end_ts >= {low} and start_ts <= {high} order by 1 limit 5000"
        rows = tables.rows(sql)
        heads.append({"id": track["id"], "mode": "marks", "n": len(rows)})
        columns.append([("start", "i64", [r["start_ts"] for r in rows]), ("end", "i64", [r["end_ts"] for r in rows])])
    return pack({"version": 1, "from": low, "to": high, "width": 1, "dict": [""], "tracks": heads}, columns)


def ask(tables, question):
    """Raises duckdb.Error with the statement's fault."""
    limit = min(int(question.get("limit", 1000)), 10000)
    cursor = tables.db.cursor().execute(question["sql"])
    columns = [{"name": d[0], "type": str(d[1])} for d in cursor.description]
    rows = [list(row) for row in cursor.fetchmany(limit + 1)]
    return {"columns": columns, "rows": rows[:limit], "truncated": len(rows) > limit}
