// Summaries of several profiles as one table, with deltas against the base.

import { useEffect, useState } from "preact/hooks";
import { Latest } from "../api/client";
import type { Range } from "../api/types";
import { type Loaded, messageOf, nothing } from "../state/store";
import { fieldHint, fieldTitle } from "../ui/values";
import { DeltaCell } from "./DeltaCell";
import { type FigureRow, figureRows } from "./figures";
import type { Member } from "./sync";

type Figures = Record<string, unknown>;

const REST_MS = 200;
const MAX_SHOWN = 400;

function summaries(members: Member[], ranges: Range[], signal: AbortSignal): Promise<Figures[]> {
  return Promise.all(members.map(({ profile }, i) => profile.api.summary(ranges[i]!, null, signal)));
}

export function useSummaries(members: Member[], ranges: Range[]): Loaded<Figures[]> {
  const [state, setState] = useState<Loaded<Figures[]>>(nothing());
  const [latest] = useState(() => new Latest());
  const key = JSON.stringify(ranges.map((range) => [Math.floor(range.from), Math.ceil(range.to)]));
  useEffect(() => {
    setState((before) => ({ ...before, busy: true }));
    const timer = setTimeout(() => {
      latest
        .run((signal) => summaries(members, ranges, signal))
        .then((value) => value && setState({ value, busy: false, error: null }))
        .catch((error: unknown) => setState({ value: null, busy: false, error: messageOf(error) }));
    }, REST_MS);
    return () => {
      clearTimeout(timer);
      latest.cancel();
    };
  }, [key, members]);
  return state;
}

interface Props {
  title: string;
  /** What the figures are over. */
  about: string;
  members: Member[];
  ranges: Range[];
  base: number;
}

interface GroupProps {
  rows: FigureRow[];
  names: string[];
  base: number;
}

function Group({ rows, base }: GroupProps) {
  const [first] = rows;
  return (
    <>
      {first!.group && (
        <tr class="group">
          <th colSpan={first!.values.length + 1} scope="rowgroup">
            {fieldTitle(first!.group)}
          </th>
        </tr>
      )}
      {rows.map((row) => (
        <tr key={`${row.of} ${row.field}`}>
          <th scope="row" title={fieldHint(row.field)}>
            {row.of && <span>{row.of} </span>}
            <span class="muted">{fieldTitle(row.field)}</span>
          </th>
          {row.values.map((value, i) => (
            <DeltaCell key={i} field={row.field} base={row.values[base]} value={value} isBase={i === base} />
          ))}
        </tr>
      ))}
    </>
  );
}

function grouped(rows: FigureRow[]): FigureRow[][] {
  const groups = new Map<string, FigureRow[]>();
  for (const row of rows) groups.set(row.group, [...(groups.get(row.group) ?? []), row]);
  return [...groups.values()];
}

/** The window itself stands above the timelines already. */
function isWindow(row: FigureRow): boolean {
  return row.group === "" && (row.field === "from" || row.field === "to");
}

function differs(row: FigureRow): boolean {
  return row.values.some((value) => value !== row.values[0]);
}

export function CompareFigures({ title, about, members, ranges, base }: Props) {
  const { value, busy, error } = useSummaries(members, ranges);
  const [onlyChanged, setOnlyChanged] = useState(false);
  const [filter, setFilter] = useState("");
  const names = members.map(({ profile }) => profile.name);
  const wanted = filter.trim().toLowerCase();
  const rows = value
    ? figureRows(value)
        .filter((row) => !isWindow(row))
        .filter((row) => !onlyChanged || differs(row))
        .filter((row) => `${row.group} ${row.of} ${fieldTitle(row.field)}`.toLowerCase().includes(wanted))
    : [];
  return (
    <section class="compare-panel" aria-label={title}>
      <header class="toolbar">
        <h2>{title}</h2>
        <span class="space" />
        <label class="switch">
          <input
            type="checkbox"
            checked={onlyChanged}
            onChange={(event) => setOnlyChanged(event.currentTarget.checked)}
          />
          only what differs
        </label>
        <input
          type="search"
          placeholder="Filter"
          aria-label={`Filter ${title}`}
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      </header>
      <p class="muted about">{about}</p>
      {error && <p class="error">{error}</p>}
      {!value && busy && <p class="muted">Loading…</p>}
      {value && (
        <div class={`scroll ${busy ? "stale" : ""}`}>
          <table class="results compare-table">
            <thead>
              <tr>
                <th scope="col">Figure</th>
                {names.map((name, i) => (
                  <th key={name} scope="col" class="number">
                    {name}
                    {i === base && <small> base</small>}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {grouped(rows.slice(0, MAX_SHOWN)).map((group) => (
                <Group key={group[0]!.group} rows={group} names={names} base={base} />
              ))}
            </tbody>
          </table>
          {rows.length > MAX_SHOWN && <p class="muted">{rows.length - MAX_SHOWN} more; filter to see them.</p>}
        </div>
      )}
    </section>
  );
}
