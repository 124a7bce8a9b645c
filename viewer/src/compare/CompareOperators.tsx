// Operators of all profiles in one tree, one column per profile, with deltas against the base.

import { useEffect, useMemo, useState } from "preact/hooks";
import { figuresOf, keyOf, type OperatorRow } from "../api/operators";
import { fieldTitle } from "../ui/values";
import { Indent } from "../widgets/operators/Operators";
import { Operators, type Tree } from "../widgets/operators/tree";
import { DeltaCell } from "./DeltaCell";
import { deltaOf, type Value } from "./figures";
import type { Member } from "./sync";

interface Merged {
  key: string;
  path: string;
  name: string;
  expandable: boolean;
  depth: number;
  rows: (OperatorRow | null)[];
}

function useTrees(members: Member[]): { all: Operators[]; trees: Tree[] } {
  const all = useMemo(() => members.map(({ profile }) => new Operators(profile.api)), [members]);
  const [trees, setTrees] = useState(() => all.map((one) => one.tree.value));
  useEffect(() => {
    const read = () => setTrees(all.map((one) => one.tree.value));
    const ends = all.map((one) => one.tree.watch(read));
    for (const one of all) one.look(null);
    return () => {
      for (const end of ends) end();
      for (const one of all) one.close();
    };
  }, [all]);
  return { all, trees };
}

/** Rows of one parent, those of the same path together, the greatest figure or the greatest change first. */
function mergedLevel(trees: Tree[], parent: string, depth: number): Merged[] {
  const rows = new Map<string, Merged>();
  trees.forEach((tree, i) => {
    for (const row of tree.branches.get(parent)?.rows ?? []) {
      const key = keyOf(row);
      const { path, name } = row;
      const merged = rows.get(key) ?? { key, path, name, expandable: false, depth, rows: trees.map(() => null) };
      merged.expandable ||= row.expandable;
      merged.rows[i] = row;
      rows.set(key, merged);
    }
  });
  return [...rows.values()];
}

function figure(row: OperatorRow | null, field: string): Value {
  const value = row?.[field];
  return typeof value === "number" ? value : null;
}

export type CompareOrder = "change" | "value" | "name";

export function ordered(list: Merged[], field: string, base: number, order: CompareOrder): Merged[] {
  const most = (merged: Merged) => {
    const values = merged.rows.map((row) => figure(row, field));
    if (order === "value") return Math.max(...values.map((value) => (typeof value === "number" ? value : 0)));
    return Math.max(...values.map((value) => Math.abs(deltaOf(values[base] ?? 0, value ?? 0)?.delta ?? 0)));
  };
  if (order === "name") return [...list].sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
  return [...list].sort((a, b) => most(b) - most(a) || a.name.localeCompare(b.name));
}

function visible(trees: Tree[], open: Set<string>, field: string, base: number, order: CompareOrder): Merged[] {
  const out: Merged[] = [];
  const walk = (parent: string, depth: number) => {
    for (const merged of ordered(mergedLevel(trees, parent, depth), field, base, order)) {
      out.push(merged);
      if (open.has(merged.key)) walk(merged.key, depth + 1);
    }
  };
  walk("", 0);
  return out;
}

interface ToolsProps {
  fields: string[];
  field: string;
  order: CompareOrder;
  onField(name: string): void;
  onOrder(order: CompareOrder): void;
  onFilter(text: string): void;
}

function Tools({ fields, field, order, onField, onOrder, onFilter }: ToolsProps) {
  return (
    <>
      <select aria-label="Figure" value={field} onChange={(event) => onField(event.currentTarget.value)}>
        {fields.map((name) => (
          <option key={name} value={name}>
            {fieldTitle(name)}
          </option>
        ))}
      </select>
      <select
        aria-label="Order of operators"
        value={order}
        onChange={(event) => onOrder(event.currentTarget.value as CompareOrder)}
      >
        <option value="change">greatest change first</option>
        <option value="value">greatest first</option>
        <option value="name">by name</option>
      </select>
      <input
        type="search"
        placeholder="Filter"
        aria-label="Filter operators"
        maxLength={500}
        onInput={(event) => onFilter(event.currentTarget.value)}
      />
    </>
  );
}

export function CompareOperators({ members, base }: { members: Member[]; base: number }) {
  const { all, trees } = useTrees(members);
  const [open, setOpen] = useState<Set<string>>(new Set());
  const [chosen, setField] = useState<string | null>(null);
  const [order, setOrder] = useState<CompareOrder>("change");
  const fields = figuresOf(trees.flatMap((tree) => tree.branches.get("")?.rows ?? []));
  const field = chosen ?? fields.find((name) => name === "active_ns") ?? fields[0] ?? "";
  const rows = visible(trees, open, field, base, order);
  const toggle = (key: string) => {
    const next = new Set(open);
    if (!next.delete(key)) next.add(key);
    setOpen(next);
    for (const one of all) if (one.tree.value.open.has(key) !== next.has(key)) one.toggle(key);
  };
  const errors = trees.flatMap((tree) => tree.branches.get("")?.error ?? []);
  return (
    <section class="compare-panel wide" aria-label="Compare Operator Table">
      <header class="toolbar">
        <h2>Compare Operator Table</h2>
        <span class="space" />
        <Tools
          fields={fields}
          field={field}
          order={order}
          onField={setField}
          onOrder={setOrder}
          onFilter={(text) => {
            for (const one of all) one.filterBy(text);
          }}
        />
      </header>
      {errors[0] && <p class="error">{errors[0]}</p>}
      <div class="scroll">
        <table class="results compare-table">
          <thead>
            <tr>
              <th scope="col">Operator</th>
              {members.map(({ profile }, i) => (
                <th key={profile.name} scope="col" class="number">
                  {profile.name}
                  {i === base && <small> base</small>}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.key} data-path={row.path}>
                <td class="operator-name">
                  <Indent depth={row.depth} />
                  {row.expandable ? (
                    <button
                      type="button"
                      class="tiny"
                      aria-label={`${open.has(row.key) ? "Fold" : "Unfold"} ${row.path}`}
                      aria-expanded={open.has(row.key)}
                      onClick={() => toggle(row.key)}
                    >
                      {open.has(row.key) ? "▾" : "▸"}
                    </button>
                  ) : (
                    <span class="no-fold" />
                  )}
                  <span title={row.path}>{row.name}</span>
                </td>
                {row.rows.map((one, i) => (
                  <DeltaCell
                    key={i}
                    field={field}
                    base={figure(row.rows[base] ?? null, field)}
                    value={figure(one, field)}
                    isBase={i === base}
                  />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
