// The schema beside the editor: tables that unfold into their columns; a click puts a name where the cursor is.

import { useEffect, useState } from "preact/hooks";
import { isAbort } from "../api/client";
import { type Loaded, messageOf, nothing } from "../state/store";
import { type SchemaTable, schemaOf } from "./schema";

function useSchema(profile: string | null): Loaded<SchemaTable[]> {
  const [state, setState] = useState<Loaded<SchemaTable[]>>(nothing());
  useEffect(() => {
    if (profile === null) return;
    const abort = new AbortController();
    setState({ value: null, busy: true, error: null });
    schemaOf(profile, abort.signal)
      .then((value) => setState({ value, busy: false, error: null }))
      .catch((error: unknown) => {
        if (!isAbort(error)) setState({ value: null, busy: false, error: messageOf(error) });
      });
    return () => abort.abort();
  }, [profile]);
  return state;
}

interface TableProps {
  table: SchemaTable;
  wanted: string;
  onPick(name: string): void;
}

function Table({ table, wanted, onPick }: TableProps) {
  const [open, setOpen] = useState(false);
  const found = wanted !== "" && !table.name.toLowerCase().includes(wanted);
  const columns = found ? table.columns.filter((column) => column.name.toLowerCase().includes(wanted)) : table.columns;
  const shown = open || found;
  return (
    <li>
      <div class="schema-table">
        <button
          type="button"
          class="tiny"
          aria-label={`Columns of ${table.name}`}
          aria-expanded={shown}
          onClick={() => setOpen(!open)}
        >
          {shown ? "▾" : "▸"}
        </button>
        <button type="button" class="plain" title={table.means || "Insert its name"} onClick={() => onPick(table.name)}>
          {table.name}
        </button>
        <span class="muted">{table.columns.length}</span>
      </div>
      {shown && (
        <ul>
          {columns.map((column) => (
            <li key={column.name} class="schema-column" title={[column.means, column.unit].filter(Boolean).join("; ")}>
              <button type="button" class="plain" onClick={() => onPick(column.name)}>
                {column.name}
              </button>
              <span class="muted">{column.type.toLowerCase()}</span>
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}

export function SchemaPanel({ profile, onPick }: { profile: string | null; onPick(name: string): void }) {
  const { value, busy, error } = useSchema(profile);
  const [filter, setFilter] = useState("");
  const wanted = filter.trim().toLowerCase();
  const tables = value?.filter(
    (table) =>
      table.name.toLowerCase().includes(wanted) ||
      table.columns.some((column) => column.name.toLowerCase().includes(wanted)),
  );
  return (
    <section class="schema" aria-label="Schema">
      <h2>Tables</h2>
      <input
        type="search"
        placeholder="Filter tables and columns"
        aria-label="Filter tables and columns"
        value={filter}
        onInput={(event) => setFilter(event.currentTarget.value)}
      />
      {error && <p class="error">{error}</p>}
      {busy && <p class="muted">Loading…</p>}
      <ul class="schema-list">
        {tables?.map((table) => (
          <Table key={table.name} table={table} wanted={wanted} onPick={onPick} />
        ))}
      </ul>
    </section>
  );
}
