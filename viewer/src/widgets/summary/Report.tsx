// An answer of figures, whatever they are: scalars as lines, lists of rows as tables, groups with their names.

import { fieldTitle, valueText } from "../../ui/values";

const MAX_ROWS = 100;
const MAX_DEPTH = 4;

type Figures = Record<string, unknown>;

function isFigures(value: unknown): value is Figures {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isRows(value: unknown): value is Figures[] {
  return Array.isArray(value) && value.length > 0 && value.every(isFigures);
}

function Rows({ rows }: { rows: Figures[] }) {
  const columns = [...new Set(rows.slice(0, MAX_ROWS).flatMap((row) => Object.keys(row)))].filter((name) =>
    rows.some((row) => row[name] !== null && !isFigures(row[name])),
  );
  const isNumber = (name: string) => rows.some((row) => typeof row[name] === "number");
  return (
    <table class="results">
      <thead>
        <tr>
          {columns.map((name) => (
            <th key={name} scope="col" class={isNumber(name) ? "number" : ""} title={name}>
              {fieldTitle(name)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.slice(0, MAX_ROWS).map((row, i) => (
          <tr key={i}>
            {columns.map((name) => (
              <td key={name} class={isNumber(name) ? "number" : ""}>
                {valueText(name, row[name])}
              </td>
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
                <th scope="row" title={name}>
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
