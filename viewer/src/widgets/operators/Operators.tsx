// The Operator Table: framework layers and operators with their figures; rows unfold, columns sort, a click shows the events.

import { useEffect, useMemo, useState } from "preact/hooks";
import { figuresOf, type OperatorRow } from "../../api/operators";
import type { Profile } from "../../state/profile";
import { useStore } from "../../state/store";
import { colorOf, css } from "../../timeline/color";
import { fieldTitle, valueText } from "../../ui/values";
import type { WidgetProps } from "../registry";
import { Operators, type Shown, type Sort, shownRows } from "./tree";

const REST_MS = 250;

function Head({ columns, sort, onSort }: { columns: string[]; sort: Sort; onSort(column: string): void }) {
  const mark = (column: string) => (sort.column !== column ? "" : sort.descending ? " ▾" : " ▴");
  const order = (column: string) =>
    sort.column !== column ? "none" : sort.descending ? ("descending" as const) : ("ascending" as const);
  return (
    <thead>
      <tr>
        {["name", ...columns].map((column) => (
          <th key={column} scope="col" class={column === "name" ? "" : "number"} aria-sort={order(column)}>
            <button type="button" class="plain" title={column} onClick={() => onSort(column)}>
              {column === "name" ? "Operator" : fieldTitle(column)}
              {mark(column)}
            </button>
          </th>
        ))}
      </tr>
    </thead>
  );
}

interface RowProps {
  shown: Shown;
  columns: string[];
  open: boolean;
  current: boolean;
  onToggle(key: string): void;
  onShow(row: OperatorRow): void;
}

export function Indent({ depth }: { depth: number }) {
  return <span class="indent" style={{ width: `${depth * 14}px` }} />;
}

function Row({ shown, columns, open, current, onToggle, onShow }: RowProps) {
  const { row, key, depth } = shown;
  return (
    <tr class={current ? "current" : ""} data-path={row.path} data-kind={row.kind}>
      <td class="operator-name">
        <Indent depth={depth} />
        {row.expandable ? (
          <button
            type="button"
            class="tiny"
            aria-label={`${open ? "Fold" : "Unfold"} ${row.path}`}
            aria-expanded={open}
            onClick={() => onToggle(key)}
          >
            {open ? "▾" : "▸"}
          </button>
        ) : (
          <span class="no-fold" />
        )}
        {row.kind === "framework" && <span class="dot" style={{ background: css(colorOf(row.path)) }} />}
        <button type="button" class="plain" title={`${row.path}: show its events`} onClick={() => onShow(row)}>
          {row.name}
        </button>
      </td>
      {columns.map((column) => (
        <td key={column} class="number">
          {valueText(column, row[column])}
        </td>
      ))}
    </tr>
  );
}

/** Its events are found like any search's: bordered on the timeline, paged in Search and in Event Details. */
export function showOperator(profile: Profile, row: OperatorRow): void {
  void profile.find({ category: "operator", field: "row", match: "exact", value: row.id });
}

function useRange(profile: Profile, operators: Operators, only: boolean): void {
  const view = useStore(profile.view);
  useEffect(() => {
    if (!only) {
      operators.look(null);
      return;
    }
    const timer = setTimeout(() => operators.look(view), REST_MS);
    return () => clearTimeout(timer);
  }, [operators, only, only ? view : null]);
}

export function OperatorsWidget({ profile }: WidgetProps) {
  const operators = useMemo(() => new Operators(profile.api), [profile]);
  useEffect(() => () => operators.close(), [operators]);
  const tree = useStore(operators.tree);
  const search = useStore(profile.search);
  const [only, setOnly] = useState(false);
  useRange(profile, operators, only);
  const top = tree.branches.get("");
  const rows = shownRows(tree);
  const columns = figuresOf(rows.map(({ row }) => row));
  const shownId = search.query?.field === "row" ? search.query.value : null;
  const errors = [...tree.branches.values()].flatMap((branch) => branch.error ?? []);
  return (
    <div class="operators">
      <div class="toolbar">
        <input
          type="search"
          placeholder="Filter by name"
          aria-label="Filter operators"
          maxLength={500}
          value={tree.filter}
          onInput={(event) => operators.filterBy(event.currentTarget.value)}
        />
        <label class="switch">
          <input type="checkbox" checked={only} onChange={(event) => setOnly(event.currentTarget.checked)} />
          only what the timeline shows
        </label>
        <span class="space" />
        {shownId !== null && (
          <button type="button" onClick={() => profile.clearSearch()}>
            Clear highlight
          </button>
        )}
      </div>
      {errors[0] && <p class="error">{errors[0]}</p>}
      {!top && <p class="muted">Loading…</p>}
      {top?.rows && rows.length === 0 && !errors[0] && (
        <p class="muted hint">
          {tree.filter
            ? "No operator matches."
            : "This profile names no framework operators: its program has no debug information."}
        </p>
      )}
      {rows.length > 0 && (
        <div class="scroll">
          <table class="results">
            <Head columns={columns} sort={tree.sort} onSort={(column) => operators.sortBy(column)} />
            <tbody>
              {rows.map((shown) => (
                <Row
                  key={shown.key}
                  shown={shown}
                  columns={columns}
                  open={tree.open.has(shown.key)}
                  current={shown.row.id === shownId}
                  onToggle={(key) => operators.toggle(key)}
                  onShow={(row) => showOperator(profile, row)}
                />
              ))}
            </tbody>
          </table>
          {top?.more && <p class="muted">There are more; filter to see them.</p>}
        </div>
      )}
    </div>
  );
}
