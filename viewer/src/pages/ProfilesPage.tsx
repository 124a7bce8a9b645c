// The Profile Manager: the profiles that the server has, chosen by checkboxes for what Actions offers.

import { useEffect, useState } from "preact/hooks";
import { fleetAddress } from "../fleet/question";
import { type ProfileRow, useProfiles } from "../state/profiles";
import { compareAddress, MAX_COMPARED, profileAddress, ranksAddress, sqlAddress, summaryAddress } from "../state/route";
import { Menu } from "../ui/Menu";
import { ThemeButton } from "../ui/ThemeButton";

function matching(rows: ProfileRow[], text: string): ProfileRow[] {
  const wanted = text.toLowerCase();
  return rows.filter((row) => `${row.name} ${row.job ?? ""} ${row.host ?? ""}`.toLowerCase().includes(wanted));
}

function isReady(row: ProfileRow): boolean {
  return row.state === undefined || row.state === "ready";
}

function Actions({ chosen, onClear }: { chosen: string[]; onClear(): void }) {
  const [first] = chosen;
  const few = chosen.length < 2;
  const many = chosen.length > MAX_COMPARED;
  const go = (address: string) => {
    location.hash = address;
  };
  return (
    <Menu label="Actions">
      <button
        type="button"
        role="menuitem"
        disabled={few || many}
        title={few ? "Check two or more profiles" : many ? `At most ${MAX_COMPARED}` : ""}
        onClick={() => go(compareAddress(chosen))}
      >
        Compare profiles
      </button>
      <button
        type="button"
        role="menuitem"
        disabled={chosen.length !== 1}
        onClick={() => first && go(summaryAddress(first))}
      >
        Summary
      </button>
      <button
        type="button"
        role="menuitem"
        disabled={chosen.length !== 1}
        onClick={() => first && go(sqlAddress(first))}
      >
        SQL
      </button>
      <hr />
      <button type="button" role="menuitem" disabled={chosen.length === 0} onClick={onClear}>
        Clear selection
      </button>
    </Menu>
  );
}

interface RowProps {
  row: ProfileRow;
  checked: boolean;
  onCheck(on: boolean): void;
}

function Row({ row, checked, onCheck }: RowProps) {
  return (
    <tr class={checked ? "current" : ""}>
      <td>
        <input
          type="checkbox"
          aria-label={`Select ${row.name}`}
          checked={checked}
          disabled={!isReady(row)}
          onChange={(event) => onCheck(event.currentTarget.checked)}
        />
      </td>
      <td>
        <a href={row.kind === "ranks" ? ranksAddress(row.name) : profileAddress(row.name)}>{row.name}</a>
      </td>
      <td>{row.state ?? ""}</td>
      <td>{row.job ?? ""}</td>
      <td>{row.host ?? ""}</td>
      <td class="number">{row.rank ?? ""}</td>
      <td>
        <a href={summaryAddress(row.name)} aria-label={`Summary of ${row.name}`}>
          Summary
        </a>{" "}
        <a href={sqlAddress(row.name)} aria-label={`SQL on ${row.name}`}>
          SQL
        </a>
      </td>
    </tr>
  );
}

function Head({ all, some, onAll }: { all: boolean; some: boolean; onAll(on: boolean): void }) {
  return (
    <thead>
      <tr>
        <th scope="col">
          <input
            type="checkbox"
            aria-label="Select all"
            checked={all}
            indeterminate={some && !all}
            onChange={(event) => onAll(event.currentTarget.checked)}
          />
        </th>
        <th scope="col">Profile</th>
        <th scope="col">State</th>
        <th scope="col">Job</th>
        <th scope="col">Host</th>
        <th scope="col" class="number">
          Rank
        </th>
        <th scope="col">Open</th>
      </tr>
    </thead>
  );
}

export function ProfilesPage() {
  const [text, setText] = useState("");
  const [checked, setChecked] = useState<ReadonlySet<string>>(new Set());
  const { rows, error } = useProfiles();
  const shown = rows ? matching(rows, text) : null;
  useEffect(() => {
    document.title = "Profiles – kymo";
  }, []);
  const check = (names: string[], on: boolean) => {
    const next = new Set(checked);
    for (const name of names) {
      if (on) next.add(name);
      else next.delete(name);
    }
    setChecked(next);
  };
  const ready = shown?.filter(isReady).map((row) => row.name) ?? [];
  const chosen = rows?.map((row) => row.name).filter((name) => checked.has(name)) ?? [];
  return (
    <>
      <header class="bar">
        <span class="home">kymo</span>
        <h1>Profiles</h1>
        <span class="space" />
        <a href={fleetAddress()}>Fleet</a>
        <a href={sqlAddress(null)}>SQL</a>
        <ThemeButton />
      </header>
      <main class="profiles">
        <div class="toolbar">
          <input
            type="search"
            placeholder="Filter by name, job or host"
            aria-label="Filter"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <span class="muted">{chosen.length > 0 && `${chosen.length} selected`}</span>
          <Actions chosen={chosen} onClear={() => setChecked(new Set())} />
        </div>
        {error && <p class="error">{error}</p>}
        {shown && shown.length === 0 && <p class="muted">No profile.</p>}
        {shown && shown.length > 0 && (
          <table class="results">
            <Head
              all={ready.length > 0 && ready.every((name) => checked.has(name))}
              some={ready.some((name) => checked.has(name))}
              onAll={(on) => check(ready, on)}
            />
            <tbody>
              {shown.map((row) => (
                <Row key={row.name} row={row} checked={checked.has(row.name)} onCheck={(on) => check([row.name], on)} />
              ))}
            </tbody>
          </table>
        )}
      </main>
    </>
  );
}
