// The operator tree as far as it was unfolded: which rows are asked for, and in which order they are shown.

import { Latest } from "../../api/client";
import { keyOf, OPERATOR_ROWS, type OperatorRow } from "../../api/operators";
import type { ProfileApi } from "../../api/profile";
import type { Range } from "../../api/types";
import { messageOf, Store } from "../../state/store";

export interface Sort {
  column: string;
  descending: boolean;
}

export interface Branch {
  rows: OperatorRow[] | null;
  more: boolean;
  error: string | null;
}

export interface Tree {
  /** By key of the parent; "" is the top. */
  branches: Map<string, Branch>;
  open: Set<string>;
  sort: Sort;
  filter: string;
}

export interface Shown {
  row: OperatorRow;
  key: string;
  depth: number;
}

export function compareRows(sort: Sort): (a: OperatorRow, b: OperatorRow) => number {
  const sign = sort.descending ? -1 : 1;
  return (a, b) => {
    const [x, y] = [a[sort.column], b[sort.column]];
    if (typeof x === "number" && typeof y === "number") return sign * (x - y);
    if (typeof x === "number") return -1; // what has no figure stands last, whatever the direction
    if (typeof y === "number") return 1;
    return sign * String(x ?? "").localeCompare(String(y ?? ""), undefined, { numeric: true });
  };
}

/** The rows in the order of the table: each parent's children sorted below it. */
export function shownRows(tree: Tree): Shown[] {
  const out: Shown[] = [];
  const order = compareRows(tree.sort);
  const walk = (parent: string, depth: number) => {
    for (const row of [...(tree.branches.get(parent)?.rows ?? [])].sort(order)) {
      const key = keyOf(row);
      out.push({ row, key, depth });
      if (tree.open.has(key)) walk(key, depth + 1);
    }
  };
  walk("", 0);
  return out;
}

export class Operators {
  readonly tree = new Store<Tree>({
    branches: new Map(),
    open: new Set(),
    sort: { column: "active_ns", descending: true },
    filter: "",
  });
  private readonly latest = new Map<string, Latest>();
  private readonly ids = new Map<string, string>();
  private range: Range | null = null;

  constructor(private readonly api: ProfileApi) {}

  /** Asks for the top, and for what was unfolded, within another range of time; null: the whole profile. */
  look(range: Range | null): void {
    this.range = range;
    this.load("");
    for (const key of this.tree.value.open) this.load(key);
  }

  /** Does nothing where this profile has no such row. */
  toggle(key: string): void {
    const open = new Set(this.tree.value.open);
    if (!open.delete(key)) {
      open.add(key);
      if (!this.tree.value.branches.get(key)?.rows) this.load(key);
    }
    this.tree.update((tree) => ({ ...tree, open }));
  }

  sortBy(column: string): void {
    this.tree.update((tree) => {
      const descending = tree.sort.column === column ? !tree.sort.descending : column !== "name";
      return { ...tree, sort: { column, descending } };
    });
    // Where not all rows came, the server chooses which: those at the top of the new order.
    for (const [key, branch] of this.tree.value.branches) if (branch.more) this.load(key);
  }

  filterBy(filter: string): void {
    if (filter === this.tree.value.filter) return;
    this.tree.update((tree) => ({ ...tree, filter }));
    this.look(this.range);
  }

  private set(key: string, branch: Branch): void {
    for (const row of branch.rows ?? []) this.ids.set(keyOf(row), row.id);
    this.tree.update((tree) => ({ ...tree, branches: new Map(tree.branches).set(key, branch) }));
  }

  private load(key: string): void {
    const parent = key === "" ? null : this.ids.get(key);
    if (parent === undefined) return;
    const latest = this.latest.get(key) ?? new Latest();
    this.latest.set(key, latest);
    const { sort, filter } = this.tree.value;
    latest
      .run((signal) => this.api.operators({ parent, sort, filter, size: OPERATOR_ROWS, range: this.range }, signal))
      .then((answer) => {
        if (answer) this.set(key, { rows: answer.rows, more: answer.total > answer.rows.length, error: null });
      })
      .catch((error: unknown) => this.set(key, { rows: [], more: false, error: messageOf(error) }));
  }

  close(): void {
    for (const latest of this.latest.values()) latest.cancel();
  }
}
