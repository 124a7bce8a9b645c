"""The compiler's layers of a profile, computed anew from Instruction and the program's truth (driver-iface/sim/TRUTH.md).

Instruction's times are compared with the truth elsewhere (truth.py); here the layers above follow from them, from the program as its
builder had it, and from what pipeline/hierarchy/HIERARCHY.md says of a roll-up.
"""

from collections import defaultdict
import math
import re

SPANS_MAX = 256
LAYERS = ("bir", "penguin", "hlo", "framework")
TABLES = {"bir": "BirInstruction", "penguin": "PenguinInstruction", "hlo": "HloInstruction", "framework": "FrameworkInstruction"}
SHOWN = 3
COLUMNS = ["pcore_idx", "engine", "opcode", "pc", "start_ts", "end_ts", "evt_wait_time_ns", "compiler_pc", "dma_trigger_start_ts",
           "dma_trigger_end_ts", "sbuf_read_bytes", "sbuf_write_bytes", "raw_bir_id", "bir_instruction_name", "raw_penguin_id",
           "hlo_name", "raw_hlo_id", "hlo_attrs", "layer", "raw_framework_id", "operator", "kernel_instruction_name",
           "nki_source_location", "nki_region", "nki_region_path", "bir_debug_info_source_location", "stack_frame_ids", "executed_by"]
SEQUENCER = {"NOP", "EVENT_SEMAPHORE", "EVENT_SEMAPHORE_RANGE_CLEAR", "NOTIFY", "WRITE", "MOVE", "ALU_OP", "COMPARE_BRANCH", "HALT",
             "DRAIN", "SET_ORDERING_MODE", "DMA_DIRECT2D"}


class Sums:
    def __init__(self):
        self.start, self.end, self.spans, self.engines, self.total = None, None, [], defaultdict(int), defaultdict(int)
        self.cores = set()

    def add(self, row, true):
        issued, end = row["start_ts"], row["end_ts"]
        hbm = int(true["hbm_read"]) + int(true["hbm_write"])
        moved = row["dma_trigger_start_ts"] is not None
        elements = int(true["elements"])
        transposed = elements if true["transpose"] == "1" else 0
        self.spans.append((row["begin"], end, elements, transposed, 0 if moved else hbm))
        if moved:
            self.spans.append((row["dma_trigger_start_ts"], row["dma_trigger_end_ts"], 0, 0, hbm))
            end = max(end, row["dma_trigger_end_ts"])
        self.start = issued if self.start is None else min(self.start, issued)
        self.end = end if self.end is None else max(self.end, end)
        self.engines[row["engine"]] += 1
        self.cores.add(row["pcore_idx"])
        for name, value in (("hbm_read_bytes", int(true["hbm_read"])), ("hbm_write_bytes", int(true["hbm_write"])),
                            ("sbuf_read_bytes", row["sbuf_read_bytes"] or 0), ("sbuf_write_bytes", row["sbuf_write_bytes"] or 0),
                            ("load_weight_bytes", (row["sbuf_read_bytes"] or 0) if row["opcode"] == "LDWEIGHTS" else 0)):
            self.total[name] += value

    def merged(self):
        out = []
        for begin, end, *sums in sorted(self.spans):
            if out and begin <= out[-1][1]:
                out[-1][1] = max(out[-1][1], end)
                out[-1][2:] = [a + b for a, b in zip(out[-1][2:], sums)]
            else:
                out.append([begin, end, *sums])
        return out


def numbers(text):
    return [float(x) for x in re.findall(r"-?[\d.]+(?:e[-+]?\d+)?", text or "")]


def spans_of(row):
    """Rows of start, end, elements, transposed, hbm; the per-interval columns are lists, or their text in FrameworkNode."""
    ends = [int(x) for x in numbers(row["time_intervals"])]
    columns = [row[c] for c in ("element_count_per_interval", "transpose_element_count_per_interval", "hbm_transfer_size_per_interval")]
    columns = [c if isinstance(c, list) else [int(x) for x in numbers(c)] for c in columns]
    assert all(len(c) == len(ends) // 2 for c in columns), row["time_intervals"]
    return [[ends[2 * i], ends[2 * i + 1], *(c[i] for c in columns)] for i in range(len(ends) // 2)]


def program(p):
    """By (core, engine, compiler_pc)."""
    return {(int(r["sg"]), r["engine"], int(r["compiler_pc"])): r for r in p.true("program")}


def keys_of(true):
    """Key of each layer, as far as the chain goes."""
    sg = int(true["sg"])
    return {"bir": (int(true["bir_id"]), sg), "penguin": (int(true["penguin_id"]), sg), "hlo": (int(true["hlo_id"]), true["hlo_name"]),
            "framework": (int(true["framework_id"]), true["framework_name"])}


def key_in_table(layer, row, cores_of):
    if layer == "bir":
        return (row["raw_bir_id"], row["pcore_idx"])
    if layer == "penguin":
        return (row["raw_penguin_id"], row["raw_bir_id"] >> 48)
    return (row[f"raw_{layer}_id"], row[f"{layer}_name"])


def check_columns(p, rows, truths):
    """Every column of Instruction that rests on the layers."""
    wrong = defaultdict(list)
    for row, true in zip(rows, truths):
        if row["opcode"] in SEQUENCER or row["engine"] != "Sync":
            want = "sequencer" if row["opcode"] in SEQUENCER else "compute"
            if row["executed_by"] != want:
                wrong["executed_by"].append((row["opcode"], row["executed_by"]))
        if true is None or not true["bir_id"]:
            if row["raw_bir_id"] is not None or row["operator"] is not None:
                wrong["rows without a record"].append(row)
            continue
        number = lambda name: int(true[name]) if true[name] else None
        regions = true["nki_regions"]
        name = f"{true['bir_stem']}_sg{int(true['sg']):04d}" if true["bir_stem"].startswith("I-") else true["bir_stem"]
        for column, want in (("raw_bir_id", number("bir_id")), ("bir_instruction_name", name), ("raw_penguin_id", number("penguin_id")),
                             ("hlo_name", true["hlo_name"]), ("raw_hlo_id", number("hlo_id")), ("hlo_attrs", true["hlo_attrs"] or None),
                             ("layer", true["framework_name"]), ("operator", true["framework_name"]),
                             ("raw_framework_id", number("framework_id")), ("bir_debug_info_source_location", true["source"]),
                             ("kernel_instruction_name", true["kernel_instruction"] or None),
                             ("nki_source_location", true["nki_source"] or None), ("nki_region_path", regions or None),
                             ("nki_region", regions.split("/")[-1] or None)):
            if row[column] != want:
                wrong[column].append((row[column], want))
    for column, found in wrong.items():
        p.equal(f"Instruction.{column}", [], found[:SHOWN])


def check_frames(p, rows, truths):
    """A frame and those above it name the three layers as functions, with the file and the line."""
    table = lambda name: {r["id"]: r for r in p.rows(name)}
    frames, places, files, functions = (table(t) for t in ("StackFrame", "StackFrameFileLocation", "StackFrameFileName",
                                                            "StackFrameFunctionName"))
    seen, wrong = set(), []
    for row, true in zip(rows, truths):
        if true is None or not true["bir_id"] or (row["stack_frame_ids"], true["bir_id"]) in seen:
            continue
        seen.add((row["stack_frame_ids"], true["bir_id"]))
        chain, at = [], row["stack_frame_ids"].strip("[]")
        while at != "0" and len(chain) < 10:
            place = places[str(frames[at]["file_location_id"])]
            chain.append((functions[str(place["function_name_id"])]["name"],
                          f"{files[str(place['file_name_id'])]['name']}:{place['line_number']}"))
            at = frames[at]["parent_frame_id"]
        if [c[0] for c in chain] != [true["penguin_name"], true["hlo_name"], true["framework_name"]] or chain[0][1] != true["source"]:
            wrong.append((chain, true))
    p.equal("stack frames", [], wrong[:SHOWN])


def check_kernels(p, truths):
    instructions = {(r["pcore_idx"], r["kernel_instruction_name"]): r for r in p.rows("KernelInstructions")}
    frames = {r["stack_frame_id"]: r for r in p.rows("KernelStackFrames")}
    variables = {r["iteration_variable_id"]: r for r in p.rows("KernelIterationVariables")}

    def chain(rows, at, parent, text):
        out = []
        while at is not None:
            out.append(text(rows[at]))
            at = rows[at][parent]
        return "/".join(reversed(out)), len(out)

    wrong, wanted = [], {(int(t["sg"]), t["kernel_instruction"]): t for t in truths if t and t["kernel_instruction"]}
    for key, true in wanted.items():
        r = instructions[key]
        functions, depth = chain(frames, r["stack_frame_id"], "parent_stack_frame_id", lambda f: f["fully_qualified_function_name"])
        loops, nesting = chain(variables, r["iteration_variables_id"], "parent_iteration_variable_id",
                               lambda v: f"{v['variable_name']}={v['variable_value']}")
        if (functions, depth, loops, nesting, f"{r['file_path']}:{r['line_number']}") != (
                true["nki_frames"], r["stack_frame_depth"], true["nki_variables"], r["iteration_variable_depth"], true["nki_source"]):
            wrong.append((r, true))
    p.equal("kernel frames and loop variables", [], wrong[:SHOWN])


def check_row(where, row, sums, exact):
    """Differences of one row from its sums, as sentences."""
    got, want, out = spans_of(row), sums.merged(), []
    if (row["start_ts"], row["end_ts"]) != (sums.start, sums.end):
        out.append(f"{where}: from {row['start_ts']} to {row['end_ts']}, expected {sums.start} to {sums.end}")
    # Spans below it may have been joined over a gap before they were brought together.
    if exact and len(sums.spans) <= SPANS_MAX and got != want:
        out.append(f"{where}: spans {got[:SHOWN]}, expected {want[:SHOWN]}")
    if len(got) > SPANS_MAX or [sum(c) for c in zip(*(s[2:] for s in got))] != [sum(c) for c in zip(*(s[2:] for s in want))]:
        out.append(f"{where}: {len(got)} spans with other sums")
    if any(a[1] >= b[0] for a, b in zip(got, got[1:])) or not covers(got, want):
        out.append(f"{where}: spans overlap or lack some of the time")
    out += [f"{where}: {name} {row[name]}, expected {value}" for name, value in sums.total.items() if (row[name] or 0) != value]
    return out


def covers(got, want):
    i = 0
    for begin, end, *_ in want:
        while i < len(got) and got[i][1] < end:
            i += 1
        if i == len(got) or got[i][0] > begin:
            return False
    return True


def check_counts(where, row, sums):
    return [f"{where}: {engine} {row[f'{engine.lower()}_engine_instruction_count']}, expected {sums.engines[engine]}"
            for engine in ("Tensor", "Scalar", "Sync", "GpSimd", "Vector")
            if row[f"{engine.lower()}_engine_instruction_count"] != sums.engines[engine]]


def check_layer(p, layer, sums, exact):
    got = p.rows(TABLES[layer])
    found = {key_in_table(layer, r, None): r for r in got}
    p.differ(f"{TABLES[layer]}'s rows", list(sums), [key_in_table(layer, r, None) for r in got])
    starts = [r["start_ts"] for r in got]
    p.equal(f"{TABLES[layer]} is sorted by start_ts", True, starts == sorted(starts))
    p.equal(f"{TABLES[layer]}.id", list(range(len(got))), [r["id"] for r in got])
    wrong = []
    for key, row in found.items():
        if key in sums:
            wrong += check_row(f"{TABLES[layer]} {key}", row, sums[key], exact[layer])
            wrong += check_counts(f"{TABLES[layer]} {key}", row, sums[key]) if layer == "framework" else []
    p.equal(TABLES[layer], [], wrong[:SHOWN])


def percent(elements, cores, busy, meta):
    whole = meta["tensor_engine_num_rows"] * meta["tensor_engine_num_cols"] * cores * busy * meta["tensor_engine_clock_freq"]
    return 100 * elements / whole if whole else 0


def check_nodes(p, sums, exact):
    meta = p.rows("Metadata")[0]
    got = {r["path"]: r for r in p.rows("FrameworkNode")}
    p.differ("FrameworkNode's paths", list(sums), list(got))
    wrong = []
    for path, row in got.items():
        s = sums.get(path)
        if s is None:
            continue
        wrong += check_row(f"FrameworkNode {path}", row, s, exact) + check_counts(f"FrameworkNode {path}", row, s)
        spans = spans_of(row)
        busy = sum(b - a for a, b, *_ in spans)
        elements, transposed = sum(x[2] for x in spans), sum(x[3] for x in spans)
        for name, part in (("hfu", elements), ("mfu", elements - transposed)):
            if not math.isclose(row[name], percent(part, len(s.cores), busy, meta), rel_tol=1e-4, abs_tol=1e-6):
                wrong.append(f"FrameworkNode {path}: {name} {row[name]}")
        hbm = [100 * x[4] / ((x[1] - x[0]) * 1e-9) / meta["hbm_ddr_bandwidth"] if x[1] > x[0] else 0 for x in spans]
        if not all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6) for a, b in zip(numbers(row["mbu_per_interval"]), hbm)):
            wrong.append(f"FrameworkNode {path}: mbu_per_interval {row['mbu_per_interval'][:80]}")
        parent = path.rpartition("/")[0]
        if row["node_name"] != path.rpartition("/")[2] or row["parent_name"] != parent.rpartition("/")[2]:
            wrong.append(f"FrameworkNode {path}: called {row['node_name']} below {row['parent_name']}")
    p.equal("FrameworkNode", [], wrong[:SHOWN])


def check(p):
    rows, truth = p.rows("Instruction", COLUMNS), program(p)
    if not truth:
        return
    truths = [truth.get((r["pcore_idx"] or 0, r["engine"], r["compiler_pc"])) for r in rows]
    for row, begin in zip(rows, p.begins(rows)):
        row["begin"] = begin
    check_columns(p, rows, truths)
    check_frames(p, rows, truths)
    check_kernels(p, truths)
    sums = {layer: defaultdict(Sums) for layer in LAYERS}
    nodes = defaultdict(Sums)
    for row, true in zip(rows, truths):
        if true is None or not true["bir_id"]:
            continue
        for layer, key in keys_of(true).items():
            sums[layer][key].add(row, true)
        segments = true["framework_name"].split("/")
        for depth in range(len(segments)):
            nodes["/".join(segments[:depth + 1])].add(row, true)
    exact, whole = {}, True
    for layer in LAYERS:
        exact[layer] = whole
        check_layer(p, layer, sums[layer], exact)
        whole = whole and all(len(s.merged()) <= SPANS_MAX for s in sums[layer].values())
    check_nodes(p, nodes, whole)


def attribution(p):
    """Share of the instructions of compute engines that have a source line, by engine and in all."""
    total, named = defaultdict(int), defaultdict(int)
    for r in p.rows("Instruction", ["engine", "nki_source_location", "bir_debug_info_source_location"]):
        for key in (r["engine"], "all"):
            total[key] += 1
            named[key] += r["nki_source_location"] is not None or r["bir_debug_info_source_location"] is not None
    return {key: named[key] / total[key] for key in total}
