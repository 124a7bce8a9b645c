// A summary in categories: what the server answers, in the order in which one looks for it, each with its main figure.

import { timeText } from "../../timeline/scale";
import { valueText } from "../../ui/values";

export type Figures = Record<string, unknown>;

export interface Table {
  title: string | null;
  rows: Figures[];
  /** In this order; null: as they come. */
  columns: string[] | null;
}

export interface Section {
  id: string;
  title: string;
  /** What one sees of it while it is folded. */
  headline: string;
  lines: Figures;
  tables: Table[];
  /** Is it folded until somebody unfolds it? */
  folded: boolean;
}

const ENGINES = ["Tensor", "Vector", "Scalar", "GpSimd", "Sync"];
const ENGINE_COLUMNS = [
  "pcore",
  "active_percent",
  "active_ns",
  "wait_ns",
  "instructions",
  "mfu_percent",
  "hfu_percent",
];

export function isFigures(value: unknown): value is Figures {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isRows(value: unknown): value is Figures[] {
  return Array.isArray(value) && value.length > 0 && value.every(isFigures);
}

/** Takes parts out of an answer; what nobody took is shown all the same. */
class Parts {
  private readonly taken = new Set<string>();

  constructor(private readonly answer: Figures) {}

  lines(...names: string[]): Figures {
    const out: Figures = {};
    for (const name of names) {
      this.taken.add(name);
      if (this.answer[name] !== undefined) out[name] = this.answer[name];
    }
    return out;
  }

  group(name: string): Figures {
    this.taken.add(name);
    const value = this.answer[name];
    return isFigures(value) ? value : {};
  }

  rows(name: string): Figures[] {
    this.taken.add(name);
    const value = this.answer[name];
    return isRows(value) ? value : [];
  }

  rest(): Figures {
    const left = Object.entries(this.answer).filter(
      ([name, value]) => !this.taken.has(name) && !(Array.isArray(value) && value.length === 0),
    );
    return Object.fromEntries(left);
  }
}

function table(rows: Figures[], title: string | null = null, columns: string[] | null = null): Table[] {
  return rows.length > 0 ? [{ title, rows, columns }] : [];
}

/** By name as people count: E4 before E10. */
function byName(rows: Figures[], name: string): Figures[] {
  return [...rows].sort((a, b) => String(a[name]).localeCompare(String(b[name]), undefined, { numeric: true }));
}

function sum(rows: Figures[], name: string): number {
  return rows.reduce((total, row) => total + (typeof row[name] === "number" ? row[name] : 0), 0);
}

function greatest(rows: Figures[], name: string): Figures | null {
  return rows.reduce<Figures | null>(
    (best, row) => (!best || Number(row[name]) > Number(best[name]) ? row : best),
    null,
  );
}

/** "11.4 % mfu, 13.4 % hfu": of what is known. */
function told(figures: Figures, names: [string, string][]): string {
  return names
    .filter(([name]) => typeof figures[name] === "number")
    .map(([name, what]) => `${valueText(name, figures[name])} ${what}`.trim())
    .join(", ");
}

function engineSections(engines: Figures[], opcodes: Figures[]): Section[] {
  const names = [...new Set([...ENGINES, ...engines.map((row) => String(row.engine))])];
  return names.flatMap((name) => {
    const rows = engines.filter((row) => row.engine === name);
    if (rows.length === 0) return [];
    const active = rows.map((row) => valueText("active_percent", row.active_percent)).join(", ");
    const without = ({ engine: _, ...row }: Figures) => row;
    return [
      {
        id: `engine.${name}`,
        title: `${name} engine`,
        headline: `active ${active}`,
        lines: {},
        tables: [
          ...table(rows.map(without), null, [...ENGINE_COLUMNS, "time_ns", "hardware_flops"]),
          ...table(opcodes.filter((row) => row.engine === name).map(without), "Its opcodes with the most time"),
        ],
        folded: true,
      },
    ];
  });
}

function dmaSection(dma: Figures, queues: Figures[]): Section {
  const headline = told(dma, [
    ["packet_bytes", ""],
    ["bytes_per_second", ""],
    ["active_percent", "active"],
  ]);
  return { id: "dma", title: "DMA", headline, lines: dma, tables: table(queues, "Queues"), folded: false };
}

function waitSection(waits: Figures[]): Section {
  const most = greatest(waits, "wait_ns");
  const headline = most
    ? `${timeText(sum(waits, "wait_ns"))}, most of it ${String(most.dependency_type ?? "unknown")}`
    : "";
  return { id: "waits", title: "Waits by cause", headline, lines: {}, tables: table(waits), folded: false };
}

function throttleSection(throttling: Figures[], errors: unknown): Section {
  const parts = [
    throttling.length > 0 ? `throttled ${timeText(sum(throttling, "time_ns"))}` : "not throttled",
    typeof errors === "number" && errors > 0 ? `${errors} ${errors === 1 ? "error" : "errors"}` : "",
  ];
  const lines: Figures = errors === undefined ? {} : { errors };
  const headline = parts.filter(Boolean).join(", ");
  return {
    id: "throttling",
    title: "Throttling and errors",
    headline,
    lines,
    tables: table(throttling),
    folded: false,
  };
}

function plain(id: string, title: string, headline: string, lines: Figures, tables: Table[], folded = false): Section {
  return { id, title, headline, lines, tables, folded };
}

export function sectionsOf(answer: Figures): Section[] {
  const parts = new Parts(answer);
  const engines = parts.rows("engines");
  const opcodes = parts.rows("opcodes");
  const flops = parts.group("flops");
  const memory = parts.group("memory");
  const host = parts.group("host_dma");
  const collectives = parts.rows("collectives");
  const operators = parts.rows("operators");
  const tracks = byName(parts.rows("tracks"), "track");
  const overview = parts.lines("duration_ns", "instructions", "events", "from", "to");
  const busiest = greatest(engines, "active_percent");
  const flopsText = told(flops, [
    ["mfu_percent", "MFU"],
    ["hfu_percent", "HFU"],
  ]);
  const memoryText = told(memory, [
    ["hbm_read_bytes", "read from HBM"],
    ["hbm_write_bytes", "written"],
  ]);
  const firstOperator =
    String(operators[0]?.operator ?? "")
      .split("/")
      .pop() ?? "";
  const all = [
    plain(
      "overview",
      "Overview",
      told(overview, [
        ["duration_ns", ""],
        ["instructions", "instructions"],
      ]),
      overview,
      [],
    ),
    plain("tracks", "Tracks of the box", `${tracks.length} tracks`, {}, table(tracks)),
    plain("compute", "Compute", flopsText, flops, []),
    plain(
      "engines",
      "NeuronCore engines",
      busiest ? `${String(busiest.engine)} is the busiest, ${valueText("active_percent", busiest.active_percent)}` : "",
      {},
      table(engines, null, ["engine", ...ENGINE_COLUMNS]),
    ),
    ...engineSections(engines, opcodes),
    plain("memory", "Memory", memoryText, memory, []),
    dmaSection(parts.group("dma"), parts.rows("queues")),
    plain(
      "host_dma",
      "Host-device DMA",
      told(host, [
        ["transfer_bytes", ""],
        ["bytes_per_second", ""],
      ]),
      host,
      [],
    ),
    plain("collectives", "Collectives", timeText(sum(collectives, "time_ns")), {}, table(collectives)),
    waitSection(parts.rows("waits")),
    throttleSection(parts.rows("throttling"), parts.lines("errors").errors),
    plain("operators", "Operators with the most time", firstOperator, {}, table(operators), true),
  ];
  const rest = parts.rest();
  const shown = all.filter(({ lines, tables }) => Object.keys(lines).length > 0 || tables.length > 0);
  if (Object.keys(rest).length > 0) shown.push(plain("rest", "Further figures", "", rest, []));
  return shown;
}
