// An answer of figures, whatever they are: scalars as lines, lists of rows as tables, groups with their names.

import { fieldHint, fieldTitle, valueText } from "../../ui/values";
import { type Figures, isFigures, isRows } from "./categories";

const MAX_ROWS = 100;
const MAX_DEPTH = 4;

/** A share is drawn as well: one sees at once which row has most. */
function Cell({ name, value, number }: { name: string; value: unknown; number: boolean }) {
  const share = /_percent$/.test(name) && typeof value === "number" ? Math.min(Math.max(value, 0), 100) : null;
  return (
    <td class={number ? "number" : ""}>
      {valueText(name, value)}
      {share !== null && (
        <span class="share" aria-hidden="true">
          <span style={{ width: `${share}%` }} />
        </span>
      )}
    </td>
  );
}

/** active_percent and active_ns stand beside each other: then the unit tells them apart. */
function titleOf(name: string, columns: string[]): string {
  const title = fieldTitle(name);
  const alone = columns.every((other) => other === name || fieldTitle(other) !== title);
  if (alone) return title;
  return name.endsWith("_percent") ? `${title} %` : name.endsWith("_ns") ? `${title} time` : title;
}

export function Rows({ rows, columns: wanted = null }: { rows: Figures[]; columns?: string[] | null }) {
  const names = wanted ?? [...new Set(rows.slice(0, MAX_ROWS).flatMap((row) => Object.keys(row)))];
  const columns = names.filter((name) =>
    rows.some((row) => row[name] !== null && row[name] !== undefined && !isFigures(row[name])),
  );
  const isNumber = (name: string) => rows.some((row) => typeof row[name] === "number");
  return (
    <table class="results">
      <thead>
        <tr>
          {columns.map((name) => (
            <th key={name} scope="col" class={isNumber(name) ? "number" : ""} title={name}>
              {titleOf(name, columns)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.slice(0, MAX_ROWS).map((row, i) => (
          <tr key={i}>
            {columns.map((name) => (
              <Cell key={name} name={name} value={row[name]} number={isNumber(name)} />
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Report({ value, depth = 0 }: { value: Figures; depth?: number }) {
  const entries = Object.entries(value);
  const lines = entries.filter(([, item]) => !isFigures(item) && !isRows(item));
  const groups = entries.filter(([, item]) => isFigures(item) || isRows(item));
  return (
    <>
      {lines.length > 0 && (
        <table class="fields">
          <tbody>
            {lines.map(([name, item]) => (
              <tr key={name}>
                <th scope="row" title={fieldHint(name)}>
                  {fieldTitle(name)}
                </th>
                <td title={String(item)}>{valueText(name, item)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {depth < MAX_DEPTH &&
        groups.map(([name, item]) => (
          <section key={name} class="report-group">
            <h4>{fieldTitle(name)}</h4>
            {isRows(item) ? <Rows rows={item} /> : <Report value={item as Figures} depth={depth + 1} />}
          </section>
        ))}
    </>
  );
}
