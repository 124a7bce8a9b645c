// Figures of several profiles side by side: whatever a summary holds becomes rows with a name and one value per profile.

export type Value = number | string | boolean | null;

export interface FigureRow {
  group: string;
  /** Name of the column, from which its unit is known. */
  field: string;
  /** What tells rows of a list apart, such as the engine and the opcode. */
  of: string;
  values: Value[];
}

type Figures = Record<string, unknown>;

function isFigures(value: unknown): value is Figures {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isPlain(value: unknown): value is Value {
  return value === null || ["number", "string", "boolean"].includes(typeof value);
}

interface Leaf {
  group: string;
  field: string;
  of: string;
  value: Value;
}

/** Identifies a row of a list: its texts, and what is an index by its name. */
function keyOf(row: Figures): [string, string[]] {
  const names = Object.keys(row).filter(
    (name) => typeof row[name] === "string" || /(^|_)(idx|pcore|core|engine|opcode|id)$/.test(name),
  );
  return [names.map((name) => (typeof row[name] === "string" ? row[name] : `${name} ${row[name]}`)).join(" "), names];
}

function leaves(figures: Figures, group: string, of: string, skip: string[], out: Leaf[]): void {
  for (const [field, value] of Object.entries(figures)) {
    if (skip.includes(field)) continue;
    const inner = group === "" ? field : `${group} ${field}`;
    if (isPlain(value)) out.push({ group, field, of, value });
    else if (isFigures(value)) leaves(value, inner, of, [], out);
    else if (Array.isArray(value))
      for (const row of value.filter(isFigures)) {
        const [key, names] = keyOf(row);
        leaves(row, inner, key, names, out);
      }
  }
}

/** One row per figure that any of the profiles has, in the order in which they come. */
export function figureRows(list: (Figures | null)[]): FigureRow[] {
  const rows = new Map<string, FigureRow>();
  list.forEach((figures, i) => {
    if (!figures) return;
    const found: Leaf[] = [];
    leaves(figures, "", "", [], found);
    for (const { group, field, of, value } of found) {
      const key = JSON.stringify([group, of, field]);
      const row = rows.get(key) ?? { group, field, of, values: list.map(() => null) };
      if (row.values[i] === null) row.values[i] = value;
      rows.set(key, row);
    }
  });
  return [...rows.values()].filter((row) => row.values.some((value) => value !== null));
}

export type Judgement = "better" | "worse" | "plain";

/** Less time, fewer waits and throttles are better; more of a utilisation or of a rate is. Amounts of work are neither. */
const LESS = /_ns$|(^|_)(time|duration|waits?|throttle[ds]?|throttling|delay|stall|spill)(_|$)/;
const MORE = /mfu|hfu|mbu|throughput|bandwidth|util/;

export function judged(field: string, delta: number): Judgement {
  if (delta === 0) return "plain";
  if (MORE.test(field)) return delta > 0 ? "better" : "worse";
  if (LESS.test(field)) return delta < 0 ? "better" : "worse";
  return "plain";
}

export interface Delta {
  delta: number;
  /** In percent of the base; null where the base is 0. */
  percent: number | null;
}

export function deltaOf(base: Value | undefined, value: Value | undefined): Delta | null {
  if (typeof base !== "number" || typeof value !== "number") return null;
  const delta = value - base;
  return { delta, percent: base === 0 ? null : (delta / Math.abs(base)) * 100 };
}
