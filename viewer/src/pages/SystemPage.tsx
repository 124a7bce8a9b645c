// A system trace: what ran on the host around the device profiles. It has no events of engines for a timeline, but tables to ask.

import type { Overview } from "../api/types";
import { sqlAddress } from "../state/route";
import { groupDigits } from "../timeline/scale";
import { TopBar } from "../ui/TopBar";

export function SystemPage({ name, overview }: { name: string; overview: Overview }) {
  const tables = Object.entries(overview.tables).sort(([a], [b]) => (a < b ? -1 : 1));
  return (
    <>
      <TopBar title={name} about={<span class="muted">system trace</span>}>
        <a href={sqlAddress(name)}>SQL</a>
      </TopBar>
      <main class="message">
        <p>
          This is a system trace: what host and runtime did around the device profiles. The timeline shows device
          profiles; of this one the tables can be asked.
        </p>
        <table class="results">
          <thead>
            <tr>
              <th scope="col">Table</th>
              <th scope="col" class="number">
                Rows
              </th>
            </tr>
          </thead>
          <tbody>
            {tables.map(([table, rows]) => (
              <tr key={table}>
                <td>
                  <a href={sqlAddress(name, `select * from ${table}`)}>{table}</a>
                </td>
                <td class="number">{groupDigits(rows)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </main>
    </>
  );
}
