// Rows that SQL gave, as they are: values are not rounded, and text is only text.

import { useState } from "preact/hooks";
import { csvOf, type SqlAnswer } from "../api/sql";
import { groupDigits } from "../timeline/scale";
import { copyText, download } from "../ui/copy";

/** Rows drawn at once; the copy has them all. */
const PAGE = 200;

const NUMBER = /INT|DECIMAL|DOUBLE|FLOAT|REAL/i;

function cellText(value: unknown): string {
  if (value === null || value === undefined) return "NULL";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function Tools({ answer, name, ms }: { answer: SqlAnswer; name: string; ms: number }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    setCopied(await copyText(csvOf(answer)));
    setTimeout(() => setCopied(false), 1500);
  };
  const rows = answer.rows.length;
  return (
    <div class="toolbar">
      <span class="muted" role="status">
        {groupDigits(rows)} {rows === 1 ? "row" : "rows"}
        {answer.truncated && ", cut at the limit"}, {Math.round(ms)} ms
      </span>
      <span class="space" />
      <button type="button" onClick={() => void copy()}>
        {copied ? "Copied" : "Copy as CSV"}
      </button>
      <button type="button" onClick={() => download(`${name}.csv`, "text/csv", csvOf(answer))}>
        Download CSV
      </button>
    </div>
  );
}

export function ResultTable({ answer, name, ms }: { answer: SqlAnswer; name: string; ms: number }) {
  const [page, setPage] = useState(0);
  const pages = Math.max(Math.ceil(answer.rows.length / PAGE), 1);
  const current = Math.min(page, pages - 1);
  const rows = answer.rows.slice(current * PAGE, (current + 1) * PAGE);
  const numeric = answer.columns.map((column) => NUMBER.test(column.type));
  return (
    <section class="sql-result" aria-label="Result">
      <Tools answer={answer} name={name} ms={ms} />
      {pages > 1 && (
        <nav class="paging" aria-label="Pages of the result">
          <button type="button" disabled={current === 0} onClick={() => setPage(current - 1)}>
            ‹ Previous
          </button>
          <span>
            Rows {groupDigits(current * PAGE + 1)} to {groupDigits(current * PAGE + rows.length)}
          </span>
          <button type="button" disabled={current + 1 === pages} onClick={() => setPage(current + 1)}>
            Next ›
          </button>
        </nav>
      )}
      <div class="scroll">
        <table class="results grid-lines">
          <thead>
            <tr>
              {answer.columns.map((column, i) => (
                <th key={i} scope="col" class={numeric[i] ? "number" : ""} title={column.type}>
                  {column.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, i) => (
              <tr key={current * PAGE + i}>
                {row.map((value, j) => (
                  <td key={j} class={`${numeric[j] ? "number" : ""} ${value === null ? "muted" : ""}`}>
                    {cellText(value)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
