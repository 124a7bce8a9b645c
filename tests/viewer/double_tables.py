"""Answers of collector/query/SERVE.md from the Parquet tables of one profile, by DuckDB and plain Python."""

import json
import struct
from pathlib import Path

import duckdb

NEUTRAL = ""
SERIES = [
    ("flops", "Estimated Instant MFU", "FlopsUsage", "mfu_instant_percent", "percent", {}),
    ("flops", "Estimated Cumulative MFU", "FlopsUsage", "mfu_cumulative_percent", "percent", {}),
    ("flops", "Estimated Instant HFU", "FlopsUsage", "hfu_instant_percent", "percent", {}),
    ("flops", "Estimated Cumulative HFU", "FlopsUsage", "hfu_cumulative_percent", "percent", {}),
    ("throughput", "DMA Throughput", "DmaUsage", "current_throughput", "bytes_per_second", {}),
    ("throughput", "Cumulative DMA Throughput", "DmaUsage", "cumulative_throughput", "bytes_per_second", {}),
    ("throughput", "HBM Throughput", "HbmUsage", "current_throughput", "bytes_per_second", {}),
    ("throughput", "Cumulative HBM Throughput", "HbmUsage", "cumulative_throughput", "bytes_per_second", {}),
    ("host_dma", "Host-Device DMA Throughput", "HostDmaUsage", "current_throughput", "bytes_per_second", {}),
    ("host_dma", "Cumulative Host-Device DMA Throughput", "HostDmaUsage", "cumulative_throughput", "bytes_per_second", {}),
    ("memory", "SBUF in use", "SbufUsage", "avg_util_percent", "percent", {"0": "partition_0_util_percent"}),
    ("memory", "PSUM in use", "PsumUsage", "avg_util_percent", "percent", {"0": "bank_0_util_percent"}),
    ("pending", "Pending DMA", "PendingDma", "value", "count", {}),
]
COMPILER = ["FLOW_DEPENDENCE", "ANTI_DEPENDENCE", "OUTPUT_DEPENDENCE", "ORDERED_DEPENDENCE"]
RANK = {kind: i for i, kind in enumerate([*COMPILER, "SEMAPHORE", "DMA_WAIT", "DMA_TRIGGER", "SAME_PSUM_BANK"])}


def quoted(text):
    return "'" + str(text).replace("'", "''") + "'"


def pack(head, columns):
    """columns: per track a list of (name, type, values)."""
    body = bytearray()
    for track, cols in zip(head["tracks"], columns):
        track["columns"] = []
        for name, kind, values in cols:
            body += b"\0" * (-len(body) % 8)
            track["columns"].append({"name": name, "type": kind, "offset": len(body)})
            code = {"i64": "q", "f64": "d", "u32": "I", "u8": "B"}[kind]
            body += struct.pack(f"<{len(values)}{code}", *values)
    text = json.dumps(head).encode()
    out = b"KYB1" + struct.pack("<I", len(text)) + text
    return out + b"\0" * (-len(out) % 8) + bytes(body)


class Dictionary:
    def __init__(self):
        self.texts = [""]
        self.places = {"": 0}

    def place(self, text):
        text = text or ""
        if text not in self.places:
            self.places[text] = len(self.texts)
            self.texts.append(text)
        return self.places[text]


class Tables:
    def __init__(self, directory):
        self.db = duckdb.connect()
        self.names = {}
        for path in sorted(Path(directory).glob("*.parquet")):
            self.db.execute(f"create view {path.stem} as select * from {quoted(path)}")
            self.names[path.stem] = self.db.execute(f"select count(*) from {path.stem}").fetchone()[0]
        self.meta = self.rows("select * from Metadata")[0]
        self.cores = list(range(self.meta["num_physical_cores"]))
        self.tracks = self.make_tracks()

    def rows(self, sql, params=()):
        cursor = self.db.cursor().execute(sql, params)
        names = [d[0] for d in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]

    def has(self, table):
        return table in self.names

    def suffix(self, core):
        return f"(nc{core})" if len(self.cores) > 1 else ""

    # --- overview

    def track(self, group, kind, label, where=None, **more):
        base = {
            "id": f"{kind}:{label}", "group": group, "kind": kind, "label": label, "engine": None, "pcore": None, "table": None,
            "dma": None, "split": None, "form": "events", "unit": None, "parts": None, "absent": None, "where": where,
        }
        base["id"] = f"{kind}:" + label.replace("%", "%25").replace(",", "%2C")
        return {**base, **more}

    def engine_tracks(self):
        for core in self.cores:
            end = self.suffix(core)
            for engine in ("Tensor", "Vector", "Scalar", "GpSimd", "Sync"):
                common = {"engine": engine, "pcore": core, "table": "Instruction"}
                at = f"engine = '{engine}' and pcore_idx = {core}"
                plain = f"{at} and timeline_track not like 'TensorMatrix%'"
                yield self.track("engine", "instruction", f"{engine}{end}", plain, split="joined", **common)
                for part in ("sequencer", "compute"):
                    where = f"{plain} and executed_by = '{part}'"
                    yield self.track("engine", "instruction", f"{engine} {part.title()}{end}", where, split=part, **common)
                if engine == "Tensor":
                    where = f"{at} and timeline_track like 'TensorMatrix%'"
                    yield self.track("engine", "instruction", f"TensorMatrix{end}", where, **common)

    def dma_tracks(self):
        for core in self.cores:
            end = self.suffix(core)
            common = {"pcore": core, "table": "DmaPacket"}
            engines = self.rows(f"select distinct engine_idx e from DmaPacket where pcore_idx = {core} order by 1")
            for row in engines:
                where = f"pcore_idx = {core} and engine_idx = {row['e']}"
                yield self.track("dma", "dma_engine", f"DMA-E{row['e']}{end}", where, dma="engine", **common)
            for row in self.rows(f"select distinct engine_idx e, queue_name q from DmaPacket where pcore_idx = {core} order by 1, 2"):
                where = f"pcore_idx = {core} and engine_idx = {row['e']} and queue_name = {quoted(row['q'])}"
                yield self.track("dma", "dma_queue", f"DMA-E{row['e']} {row['q']}{end}", where, dma="queue", **common)
            for row in self.rows(f"select distinct queue_name q from DmaPacketAggregated where pcore_idx = {core} order by 1"):
                where = f"pcore_idx = {core} and queue_name = {quoted(row['q'])}"
                label = f"{row['q']}{end}"
                more = {"pcore": core, "table": "DmaPacketAggregated", "dma": "aggregated"}
                yield self.track("dma", "dma_transfer", label, where, **more)

    def series_tracks(self, group):
        for its_group, label, table, column, unit, parts in SERIES:
            if its_group != group:
                continue
            host = table == "HostDmaUsage"
            for core in [None] if host else self.cores:
                absent = None if self.has(table) else self.meta.get("host_dma_reason") or "not captured"
                where = None if host else f"pcore_idx = {core}"
                yield self.track(
                    group, "series", label + ("" if host else self.suffix(core)), where, form="series", unit=unit, pcore=core,
                    parts=["avg", *parts] if parts else None, absent=absent, table=None, source=(table, column, parts),
                )

    def host_tracks(self):
        if not self.has("HostDmaTransfer"):
            reason = self.meta.get("host_dma_reason") or "not captured"
            yield self.track("host_dma", "host_dma", "Host-device DMA", table="HostDmaTransfer", absent=reason)
            return
        for row in self.rows("select distinct engine_idx e from HostDmaTransfer order by 1"):
            yield self.track("host_dma", "host_dma", f"Host-device DMA-E{row['e']}", f"engine_idx = {row['e']}", table="HostDmaTransfer")

    def make_tracks(self):
        out = [*self.engine_tracks(), *self.series_tracks("flops"), *self.dma_tracks(), *self.series_tracks("throughput")]
        out += [*self.host_tracks(), *self.series_tracks("host_dma")]
        if self.has("CcOp"):
            for row in self.rows("select distinct stream_id s from CcOp order by 1"):
                out.append(self.track("collective", "collective", f"CC stream {row['s']}", f"stream_id = {row['s']}", table="CcOp"))
        out += [*self.series_tracks("memory"), *self.series_tracks("pending")]
        for row in self.rows("select distinct id, pcore_idx c from SemaphoreUpdate order by 1, 2 limit 40"):
            number = row["id"].split("[")[1].split("]")[0]
            where = f"id = {quoted(row['id'])} and pcore_idx = {row['c']}"
            label = f"Semaphore {number}{self.suffix(row['c'])}"
            source = ("SemaphoreUpdate", "value", {})
            out.append(self.track("semaphore", "series", label, where, form="series", unit="count", pcore=row["c"], source=source))
        if self.has("Throttle"):
            out.append(self.track("throttle", "throttle", "Throttling", "true", table=None))
        if self.has("Error"):
            out.append(self.track("error", "error", "Errors", "true", table=None))
        return out

    def overview(self):
        tables = [t for t in ("Instruction", "DmaPacket", "HostDmaTransfer", "CcOp") if self.has(t)]
        ends = [self.rows(f"select min(start_ts) a, max(end_ts) b from {t}")[0] for t in tables]
        extent = {"from": min(e["a"] for e in ends), "to": max(e["b"] for e in ends)}
        operators = self.rows("select operator o from Instruction where operator is not null group by 1 order by min(start_ts)")
        tracks = [{k: v for k, v in t.items() if k not in ("where", "source")} for t in self.tracks]
        missing = [] if self.has("HostDmaTransfer") else [{"what": "host_dma", "why": self.meta.get("host_dma_reason") or "not captured"}]
        return {
            "extent": extent, "cores": self.cores, "tables": self.names, "tracks": tracks,
            "operators": [row["o"] for row in operators], "missing": missing, "warnings": self.names.get("Warning", 0),
            "notes": self.rows("select category, message from Warning order by 1, 2 limit 100") if self.has("Warning") else [],
            "settings": {}, "summary": {},
        }

    # --- timeline

    COLUMNS = {
        "Instruction": ("id", "start_ts", "end_ts", "opcode", "operator", "0", "evt_wait_time_ns", "-1"),
        "DmaPacket": ("id", "start_ts", "end_ts", "variable", "queue_name", "transfer_bytes", "0", "packet_aggregation_id"),
        "DmaPacketAggregated": ("id", "start_ts", "end_ts", "variable", "queue_name", "transfer_bytes", "0", "id"),
        "HostDmaTransfer": ("id", "start_ts", "end_ts", "traffic", "traffic", "transfer_bytes", "0", "-1"),
        "CcOp": ("id", "start_ts", "end_ts", "operation", "operation", "input_size", "0", "-1"),
    }

    def source_of(self, track):
        if track["kind"] == "throttle":
            return "(select -1 id, timestamp s, timestamp + duration e, k || '/' || n l, type c, 0 b, 0 w, -1 t from Throttle)"
        if track["kind"] == "error":
            return "(select -1 id, timestamp s, timestamp e, description l, type c, 0 b, 0 w, -1 t from Error)"
        i, s, e, label, color, b, w, t = self.COLUMNS[track["table"]]
        return (
            f"(select {i} id, {s} s, {e} e, {label} l, {color} c, {b} b, {w} w, {t} t from {track['table']} where {track['where']})"
        )

    def wanted(self, params, form):
        groups = params.get("groups")
        groups = groups.split(",") if groups else None
        dma = params.get("dma", "engine")
        split = params.get("split", "0") == "1"
        for track in self.tracks:
            if track["form"] != form or track["absent"] or (groups and track["group"] not in groups):
                continue
            if track["dma"] not in (None, dma) or (track["split"] and (track["split"] == "joined") == split):
                continue
            yield track

    def events(self, source, low, high, words):
        rows = self.rows(f"select * from {source} where e >= ? and s <= ? order by s, id", (low, high))
        columns = [("id", "i64", "id"), ("start", "i64", "s"), ("end", "i64", "e"), ("bytes", "i64", "b"), ("wait", "i64", "w"), ("transfer", "i64", "t")]
        cols = [(name, kind, [row[key] or 0 for row in rows]) for name, kind, key in columns]
        cols += [(name, "u32", [words.place(row[key]) for row in rows]) for name, key in (("label", "l"), ("color", "c"))]
        return len(rows), cols

    def buckets(self, source, low, high, size, words):
        sql = f"""select s // {size} * {size} bucket, min(s) "first", max(e) "last", count(*) n, sum(e - s) busy, sum(b) bytes,
                  arg_max(id, e - s) id, max(e - s) longest, arg_max(l, e - s) l, arg_max(c, e - s) c
                  from {source} where e >= ? and s <= ? group by 1 order by 1"""
        rows = self.rows(sql, (low, high))
        ints = [("start", "bucket"), ("first", "first"), ("last", "last"), ("busy", "busy"), ("bytes", "bytes"), ("id", "id"), ("longest", "longest")]
        cols = [(name, "i64", [int(row[key] or 0) for row in rows]) for name, key in ints]
        cols.append(("count", "u32", [row["n"] for row in rows]))
        cols += [(name, "u32", [words.place(row[key]) for row in rows]) for name, key in (("label", "l"), ("color", "c"))]
        return len(rows), cols

    def timeline(self, params):
        low, high, width = int(params["from"]), int(params["to"]), int(params["width"])
        words = Dictionary()
        heads, columns = [], []
        for track in self.wanted(params, "events"):
            source = self.source_of(track)
            n = self.rows(f"select count(*) n from {source} where e >= ? and s <= ?", (low, high))[0]["n"]
            size = max((high - low) // width, 1)
            exact = n <= 4 * width
            n, cols = self.events(source, low, high, words) if exact else self.buckets(source, low, high, size, words)
            heads.append({"id": track["id"], "mode": "events" if exact else "buckets", "n": n, "bucket_ns": 0 if exact else size})
            columns.append(cols)
        return pack({"version": 1, "from": low, "to": high, "width": width, "dict": words.texts, "tracks": heads}, columns)

    def series(self, params):
        low, high, width = int(params["from"]), int(params["to"]), int(params["width"])
        heads, columns = [], []
        for track in self.wanted(params, "series"):
            table, column, parts = track["source"]
            where = track["where"] or "true"
            values = {"": column, ".avg": column, **{f".{k}": v for k, v in parts.items()}} if parts else {"": column}
            picks = ", ".join(
                f'min({c}) "min{k}", max({c}) "max{k}", arg_max({c}, timestamp) "last{k}"' for k, c in values.items()
            )
            sql = f"""select greatest((timestamp - {low}) * {width} // {high - low}, 0) col, {picks} from {table}
                      where {where} and timestamp < {high} and timestamp >= coalesce((select max(timestamp) from {table}
                      where {where} and timestamp <= {low}), {low}) group by 1 order by 1"""
            rows = self.rows(sql)
            cols = [("column", "u32", [row["col"] for row in rows])]
            cols += [(name, "f64", [float(row[name] or 0) for row in rows]) for key in values for name in (f"min{key}", f"max{key}", f"last{key}")]
            heads.append({"id": track["id"], "mode": "series", "n": len(rows)})
            columns.append(cols)
        return pack({"version": 1, "from": low, "to": high, "width": width, "dict": [""], "tracks": heads}, columns)

    def bands(self, params):
        def ask(table, sql):
            return self.rows(sql) if self.has(table) else []

        regions = """select nki_region "name", nki_region_path path, min(start_ts) start_ts, max(end_ts) end_ts, pcore_idx,
                     count(*) instructions from Instruction join ExecutionInfo on start_ts between execution_start_ts and execution_end_ts
                     where nki_region is not null group by 1, 2, 5, execution_index order by 3"""
        return {
            "warnings": ask("TimelineWarning", "select * from TimelineWarning"),
            "losses": ask("LossLedger", "select * from LossLedger where lost_records > 0 or lost_unknown"),
            "throttles": ask("Throttle", "select type, timestamp start_ts, timestamp + duration end_ts, k, n, pcore_idx from Throttle"),
            "errors": ask("Error", "select timestamp, type, description, metadata, pcore_idx from Error"),
            "regions": self.rows(regions),
            "collectives": [],
            "executions": ask("ExecutionInfo", 'select execution_index "index", neff_name "name", execution_start_ts start_ts, execution_end_ts end_ts from ExecutionInfo'),
            "truncated": [],
        }

    # --- one event

    def track_of(self, table, row):
        for track in self.tracks:
            if track["table"] != table or track["split"] not in (None, "joined") or track["dma"] not in (None, "engine", "aggregated"):
                continue
            if track["where"] and self.rows(f"select 1 from {table} where id = ? and {track['where']}", (row["id"],)):
                return track
        return None

    def event(self, table, key):
        if table not in self.COLUMNS:
            return None
        found = self.rows(f"select * from {table} where id = ?", (key,))
        if not found:
            return None
        row = found[0]
        track = self.track_of(table, row)
        operator = row.get("operator")
        around = {"previous": None, "next": None}
        if track:
            base = f"select id, s start_ts, e end_ts, l \"label\" from {self.source_of(track)}"
            for name, op, order in (("previous", "<", "desc"), ("next", ">", "asc")):
                near = self.rows(f"{base} where (s, id) {op} (?, ?) order by s {order}, id {order} limit 1", (row["start_ts"], key))
                around[name] = near[0] if near else None
        transfer = None
        if table == "DmaPacket":
            transfer = next(iter(self.rows("select * from DmaPacketAggregated where id = ?", (row["packet_aggregation_id"],))), None)
        wait = self.rows("select * from WaitCause where instruction_id = ?", (key,)) if table == "Instruction" else []
        sources = []
        for column, kind in (("nki_source_location", "nki"), ("bir_debug_info_source_location", "framework")):
            if row.get(column):
                file, _, line = row[column].rpartition(":")
                sources.append({"file": file, "line": int(line), "function": None, "kind": kind, "depth": 0})
        return {
            "table": table, "id": key, "track": track["id"] if track else None, "fields": row,
            "hierarchy": operator.split("/") if operator else [], "operator": operator, "transfer": transfer,
            "neighbours": around, "wait": wait[0] if wait else None, "sources": sources,
        }

    def edges(self, kind, key, forward):
        here, there = ("in", "out") if forward else ("out", "in")
        sql = f"select {there}_table t, {there}_id id, dependency_type k, gap_time g from Flow where {here}_table = ? and {here}_id = ?"
        pairs = {}
        for row in self.rows(sql, (kind, key)):
            pairs.setdefault((row["t"], row["id"]), []).append((row["k"], row["g"]))
        out = []
        for (table, other), kinds in pairs.items():
            kinds.sort(key=lambda pair: RANK[pair[0]])
            out.append(self.dependency(table, other, kinds))
        return sorted(out, key=lambda d: d["start_ts"])

    def dependency(self, table, other, kinds):
        if table == "instruction":
            row = self.rows("select pc, engine, pcore_idx, start_ts, end_ts, opcode l from Instruction where id = ?", (other,))[0]
        else:
            row = self.rows("select null pc, null engine, pcore_idx, start_ts, end_ts, queue_name l from DmaPacketAggregated where id = ?", (other,))[0]
        return {
            "table": "Instruction" if table == "instruction" else "DmaPacketAggregated", "id": other, "pc": row["pc"],
            "engine": row["engine"], "pcore": row["pcore_idx"], "start_ts": row["start_ts"], "end_ts": row["end_ts"], "label": row["l"],
            "kind": kinds[0][0], "gap_ns": kinds[0][1], "bank": any(k == "SAME_PSUM_BANK" for k, _ in kinds),
            "also": [{"kind": k, "gap_ns": g} for k, g in kinds[1:]],
        }

    def dependencies(self, table, key):
        out = {
            "table": table, "id": key, "predecessors": [], "successors": [], "transfers": [], "starters": [], "dependents": [],
            "same_bank": {"previous": [], "next": []}, "truncated": False,
        }
        if table == "Instruction":
            before, after = self.edges("instruction", key, False), self.edges("instruction", key, True)
            is_transfer = lambda d: d["table"] == "DmaPacketAggregated"
            out["predecessors"] = [d for d in before if not is_transfer(d)]
            out["successors"] = [d for d in after if not is_transfer(d)]
            out["transfers"] = [{**d, "direction": "in"} for d in before if is_transfer(d)]
            out["transfers"] += [{**d, "direction": "out"} for d in after if is_transfer(d)]
            for side, name in (("predecessors", "previous"), ("successors", "next")):
                out["same_bank"][name] = [d for d in out[side] if d["bank"]]
        elif table in ("DmaPacket", "DmaPacketAggregated"):
            block = key
            if table == "DmaPacket":
                block = self.rows("select packet_aggregation_id b from DmaPacket where id = ?", (key,))[0]["b"]
            out["starters"] = self.edges("dma_block", block, False)
            out["dependents"] = self.edges("dma_block", block, True)
        return out

    def why(self, table, key):
        chain = []
        while key is not None and len(chain) < 200:
            sql = "select w.*, i.pc, i.opcode from WaitCause w join Instruction i on i.id = w.instruction_id where instruction_id = ?"
            row = next(iter(self.rows(sql, (key,))), None)
            if not row:
                break
            cause = None
            if row["in_id"] is not None and row["in_table"] == "instruction":
                cause = self.rows("select engine, opcode l, start_ts, end_ts from Instruction where id = ?", (row["in_id"],))[0]
            elif row["in_id"] is not None:
                cause = self.rows("select null engine, queue_name l, start_ts, end_ts from DmaPacketAggregated where id = ?", (row["in_id"],))[0]
            cause = cause or {"engine": None, "l": None, "start_ts": None, "end_ts": None}
            chain.append({
                **row, "step": len(chain), "in_engine": cause["engine"], "in_label": cause["l"], "in_start_ts": cause["start_ts"],
                "in_end_ts": cause["end_ts"],
            })
            key = row["prior_wait_id"]
        return {"table": table, "id": chain[0]["instruction_id"] if chain else key, "chain": chain, "end": "no_wait"}
