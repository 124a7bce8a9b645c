// Regions or instances side by side, with how far each is from the one chosen as base.

import { useState } from "preact/hooks";
import type { RegionRow } from "../../api/regions";
import { DeltaCell } from "../../compare/DeltaCell";
import { fieldTitle } from "../../ui/values";
import { compared, keyOf } from "./compare";

function titleOf({ path, pcore, instance, instances }: RegionRow): string {
  const core = pcore === null ? "" : ` nc${pcore}`;
  if (instance !== null) return `${path} #${instance}${core}`;
  return instances > 1 ? `${path}${core}, mean of ${instances}` : path + core;
}

export function Comparison({ rows, onClear }: { rows: RegionRow[]; onClear(): void }) {
  const [wanted, setWanted] = useState<string | null>(null);
  const base = Math.max(
    rows.findIndex((row) => keyOf(row) === wanted),
    0,
  );
  return (
    <section aria-label="Comparison of regions">
      <div class="toolbar">
        <h4>Comparison</h4>
        <label>
          Base{" "}
          <select value={keyOf(rows[base]!)} onChange={(event) => setWanted(event.currentTarget.value)}>
            {rows.map((row) => (
              <option key={keyOf(row)} value={keyOf(row)}>
                {titleOf(row)}
              </option>
            ))}
          </select>
        </label>
        <span class="space" />
        <button type="button" onClick={onClear}>
          Clear
        </button>
      </div>
      <table class="results region-compare">
        <thead>
          <tr>
            <th scope="col">One time through it</th>
            {rows.map((row) => (
              <th key={keyOf(row)} scope="col" class="number">
                {titleOf(row)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {compared(rows).map(({ figure, values }) => (
            <tr key={figure} data-figure={figure}>
              <th scope="row">{fieldTitle(figure)}</th>
              {values.map((value, i) => (
                <DeltaCell key={keyOf(rows[i]!)} field={figure} base={values[base]} value={value} isBase={i === base} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
