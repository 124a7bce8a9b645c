// Sides of captures against each other: throttling, opcodes, operators and the summary, and whether a difference is more than noise.

import { useEffect, useState } from "preact/hooks";
import { Latest } from "../api/client";
import { type CompareAnswer, type CompareDelta, type CompareList, type CompareRow, compare } from "../api/compare";
import { type Loaded, messageOf, nothing } from "../state/store";
import { bytesText, groupDigits, timeText } from "../timeline/scale";
import { fieldTitle } from "../ui/values";
import { judged } from "./figures";
import { sidesOf } from "./sides";

const LISTS: { list: CompareList; title: string }[] = [
  { list: "opcodes", title: "Opcodes" },
  { list: "throttles", title: "Throttling" },
  { list: "operators", title: "Operators" },
  { list: "summary", title: "Summary" },
];

const MAX_SHOWN = 300;

function useCompare(sides: string[][]): Loaded<CompareAnswer> {
  const [state, setState] = useState<Loaded<CompareAnswer>>(nothing());
  const [latest] = useState(() => new Latest());
  useEffect(() => {
    if (sides.length < 2) {
      setState(nothing());
      return;
    }
    setState((before) => ({ ...before, busy: true, error: null }));
    latest
      .run((signal) => compare(sides, signal))
      .then((value) => value && setState({ value, busy: false, error: null }))
      .catch((error: unknown) => setState({ value: null, busy: false, error: messageOf(error) }));
    return () => latest.cancel();
  }, [JSON.stringify(sides)]);
  return state;
}

function amountText(unit: CompareRow["unit"], value: number): string {
  if (unit === "ns") return timeText(value);
  if (unit === "s") return timeText(value * 1e9);
  if (unit === "bytes") return bytesText(value);
  if (unit === "percent") return `${Math.round(value * 100) / 100} %`;
  return Number.isInteger(value) ? groupDigits(value) : String(Number(value.toPrecision(5)));
}

function signed(unit: CompareRow["unit"], value: number): string {
  return `${value > 0 ? "+" : value < 0 ? "\u2212" : "±"}${amountText(unit, Math.abs(value))}`;
}

function Delta({ row, delta }: { row: CompareRow; delta: CompareDelta }) {
  const { abs, rel, differs, spread } = delta;
  if (differs === false)
    return (
      <small
        class="delta"
        title={`No more than the ${amountText(row.unit, spread ?? 0)} that captures of one side lie apart`}
      >
        within noise
      </small>
    );
  const share = rel === null ? "" : ` (${signed("percent", rel * 100)})`;
  const hint =
    differs === null
      ? "One capture on a side: the noise is not known"
      : "More than the captures of either side lie apart";
  return (
    <small class={`delta ${judged(row.field, abs)}`} title={hint}>
      {signed(row.unit, abs)}
      {share}
      {differs === true && " ✓"}
    </small>
  );
}

function Row({ row }: { row: CompareRow }) {
  return (
    <tr>
      <th scope="row">
        {row.key} {row.field !== row.key && <span class="muted">{fieldTitle(row.field)}</span>}
      </th>
      {row.sides.map((side, i) => (
        <td key={i} class="number">
          <span title={side?.values.map((value) => (value === null ? "–" : amountText(row.unit, value))).join(", ")}>
            {side ? amountText(row.unit, side.mean) : "–"}
          </span>
          {row.deltas[i] && <Delta row={row} delta={row.deltas[i]} />}
        </td>
      ))}
    </tr>
  );
}

interface ChoiceProps {
  names: string[];
  base: number;
  side: number[];
  onSide(profile: number, side: number): void;
}

/** Which side each profile is a capture of. */
function SideChoice({ names, base, side, onSide }: ChoiceProps) {
  return (
    <div class="side-choice">
      {names.map((name, i) => (
        <label key={name}>
          {name} is a capture of{" "}
          <select
            aria-label={`Side of ${name}`}
            disabled={i === base}
            value={String(side[i])}
            onChange={(event) => onSide(i, Number(event.currentTarget.value))}
          >
            {names.map((_, n) => (
              <option key={n} value={String(n)}>
                {n === base ? "the base" : `side ${String.fromCharCode(65 + n)}`}
              </option>
            ))}
          </select>
        </label>
      ))}
    </div>
  );
}

function Table({ rows, sides }: { rows: CompareRow[]; sides: string[][] }) {
  return (
    <div class="scroll">
      <table class="results compare-table">
        <thead>
          <tr>
            <th scope="col">Figure</th>
            {sides.map((side, i) => (
              <th key={i} scope="col" class="number">
                {side.join(", ")}
                <small>
                  {i === 0 && " base"}
                  {side.length > 1 && `, mean of ${side.length}`}
                </small>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MAX_SHOWN).map((row) => (
            <Row key={`${row.key} ${row.field}`} row={row} />
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <p class="muted hint">None.</p>}
      {rows.length > MAX_SHOWN && <p class="muted">{rows.length - MAX_SHOWN} more; filter to see them.</p>}
    </div>
  );
}

export function CompareSides({ names, base }: { names: string[]; base: number }) {
  const [side, setSide] = useState(() => names.map((_, i) => i));
  const [list, setList] = useState<CompareList>("opcodes");
  const [filter, setFilter] = useState("");
  const own = side.map((n, i) => (i === base ? base : n));
  const sides = sidesOf(names, own, base);
  const { value, busy, error } = useCompare(sides);
  const wanted = filter.trim().toLowerCase();
  const rows =
    value?.[list].filter((row) => `${row.key} ${fieldTitle(row.field)}`.toLowerCase().includes(wanted)) ?? [];
  return (
    <section class="compare-panel wide" aria-label="Differences and noise">
      <header class="toolbar">
        <h2>Differences and noise</h2>
        <div class="tabs" role="tablist">
          {LISTS.map((one) => (
            <button
              key={one.list}
              type="button"
              role="tab"
              aria-selected={list === one.list}
              onClick={() => setList(one.list)}
            >
              {one.title}
            </button>
          ))}
        </div>
        <span class="space" />
        <input
          type="search"
          placeholder="Filter"
          aria-label="Filter Differences and noise"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      </header>
      {names.length > 2 && (
        <SideChoice
          names={names}
          base={base}
          side={own}
          onSide={(profile, n) => setSide(own.map((before, i) => (i === profile ? n : before)))}
        />
      )}
      {sides.length < 2 && (
        <p class="muted hint">All profiles are captures of the base: there is nothing to compare it with.</p>
      )}
      {list === "summary" && (
        <p class="muted about">
          Of the table Summary: its shares are of total time, from the first execution’s start to the last one’s end.
        </p>
      )}
      {value?.left_out?.map(({ profile, tables }) => (
        <p key={profile} class="error">
          {profile}: without {tables.replaceAll(",", ", ")}, of which files are damaged.
        </p>
      ))}
      {error && <p class="error">{error}</p>}
      {busy && !value && <p class="muted">Loading…</p>}
      {value && sides.length > 1 && <Table rows={rows} sides={sides} />}
    </section>
  );
}
