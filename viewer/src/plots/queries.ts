// The plots of the summary page: each is a question in SQL, which one can open, and a way to draw its rows.

export interface Bars {
  form: "bars";
  /** Columns whose values are put together to the bar's name. */
  name: string[];
  /** Columns that are stacked, and what they are called. */
  parts: { column: string; title: string }[];
  unit: "flops" | "bytes" | "ns" | "bytes_per_second";
  /** Columns that the bar's hint names too. */
  more: string[];
}

export interface Lines {
  form: "lines";
  x: string;
  y: string;
  /** Column that tells lines apart. */
  line: string | null;
  /** How long a value holds; where no other follows, it is 0 then. */
  stretch: number;
  unit: "bytes_per_second" | "percent";
}

export interface Plot {
  id: string;
  title: string;
  means: string;
  /** Tables without which there is nothing to ask. */
  tables: string[];
  sql: string;
  draw: Bars | Lines;
}

/** Points of a plot over time. */
const POINTS = 300;

function stretchOf(length: number): number {
  return Math.max(Math.ceil(length / POINTS), 1);
}

/** Rates over time from a running sum of bytes: what came in each of some hundred stretches, by their length. */
function rateSql(table: string, width: number): string {
  return `-- bytes that came in each stretch of ${width} ns, as a rate; stretches in which none came are not there
with totals as (
  select pcore_idx, timestamp // ${width} as n, max(total_transfer_bytes) as total
  from ${table}
  group by all
)
select pcore_idx, n * ${width} as timestamp,
       (total - lag(total, 1, 0) over (partition by pcore_idx order by n)) * 1e9 / ${width} as bytes_per_second
from totals
order by pcore_idx, n`;
}

function flopsSql(cores: number): string {
  const core = cores > 1 ? "pcore_idx, " : "";
  return `-- floating-point operations of each engine; those of transposes apart
select engine, ${core}count(*) as instructions,
       coalesce(sum(raw_flops - flops_transpose), 0) as model_flops,
       coalesce(sum(flops_transpose), 0) as transpose_flops,
       sum(duration_ns) as time_ns
from Instruction
group by all
order by engine${cores > 1 ? ", pcore_idx" : ""}`;
}

export function plotsOf(length: number, cores: number): Plot[] {
  const core = cores > 1 ? ["pcore_idx"] : [];
  const stretch = stretchOf(length);
  return [
    {
      id: "flops",
      title: "FLOPs by engine",
      means: "Floating-point operations of the instructions of each engine.",
      tables: ["Instruction"],
      sql: flopsSql(cores),
      draw: {
        form: "bars",
        name: ["engine", ...core],
        parts: [
          { column: "model_flops", title: "without transposes" },
          { column: "transpose_flops", title: "transposes" },
        ],
        unit: "flops",
        more: ["instructions", "time_ns"],
      },
    },
    {
      id: "hbm",
      title: "Memory bandwidth",
      means: "Rate at which HBM is read and written, over time.",
      tables: ["HbmUsage"],
      sql: rateSql("HbmUsage", stretch),
      draw: {
        form: "lines",
        x: "timestamp",
        y: "bytes_per_second",
        line: cores > 1 ? "pcore_idx" : null,
        stretch,
        unit: "bytes_per_second",
      },
    },
    {
      id: "dma",
      title: "DMA per engine",
      means: "Bytes that each DMA engine moved.",
      tables: ["DmaPacket"],
      sql: `-- what each DMA engine moved
select engine_idx, ${cores > 1 ? "pcore_idx, " : ""}sum(transfer_bytes) as bytes, count(*) as packets,
       sum(duration_ns) as packet_time_ns, avg(transfer_bytes) as average_bytes
from DmaPacket
group by all
order by ${cores > 1 ? "pcore_idx, " : ""}engine_idx`,
      draw: {
        form: "bars",
        name: ["engine_idx", ...core],
        parts: [{ column: "bytes", title: "bytes" }],
        unit: "bytes",
        more: ["packets", "packet_time_ns", "average_bytes"],
      },
    },
    {
      id: "collectives",
      title: "Collectives",
      means: "Time that collective operations took, all of a kind and size together.",
      tables: ["CcOp"],
      sql: `-- collectives by kind and size
select operation, greatest(input_size, output_size) as size_bytes, count(*) as operations,
       sum(duration_ns) as time_ns, min(duration_ns) as shortest_ns, max(duration_ns) as longest_ns,
       avg(algorithm_bandwidth) as algorithm_bandwidth
from CcOp
group by all
order by time_ns desc
limit 20`,
      draw: {
        form: "bars",
        name: ["operation", "size_bytes"],
        parts: [{ column: "time_ns", title: "time" }],
        unit: "ns",
        more: ["operations", "shortest_ns", "longest_ns", "algorithm_bandwidth"],
      },
    },
  ];
}
