// Rows of the operator table. Beyond the names that place a row in the tree they hold figures.

export interface OperatorRow {
  /** Opaque; names the row to this server. */
  id: string;
  kind: "framework" | "hlo" | "opcode" | "none";
  name: string;
  path: string;
  hlo: string | null;
  expandable: boolean;
  start_ts: number | null;
  end_ts: number | null;
  [figure: string]: unknown;
}

export interface OperatorsAnswer {
  /** Rows of this level, those of other pages too. */
  total: number;
  rows: OperatorRow[];
}

export const OPERATOR_ROWS = 1000;

/** Names the same row in several profiles, whose ids may differ. */
export function keyOf(row: OperatorRow): string {
  return [row.kind, row.path, row.hlo ?? "", row.kind === "opcode" ? row.name : ""].join("\t");
}

const PLACE = new Set(["id", "parent", "kind", "name", "path", "hlo", "expandable", "start_ts", "end_ts"]);

/** What one looks for first. */
const FIRST = ["active_ns", "share_percent", "time_ns", "wait_ns", "mfu_percent", "hfu_percent", "instructions"];

/** Columns of figures; those that are not among the first, in the order in which the server gives them. */
export function figuresOf(rows: OperatorRow[]): string[] {
  const names = new Set<string>();
  for (const row of rows)
    for (const [name, value] of Object.entries(row)) if (!PLACE.has(name) && typeof value === "number") names.add(name);
  const first = FIRST.filter((name) => names.delete(name));
  return [...first, ...names];
}
