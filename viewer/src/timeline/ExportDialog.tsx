// Export to CSV: the events of the visible range, one file per table, sampled as the timeline draws or complete.

import { useState } from "preact/hooks";
import type { Range } from "../api/types";
import type { Profile } from "../state/profile";
import { useStore } from "../state/store";
import { Dialog } from "../ui/Dialog";
import { exactText, groupDigits } from "./scale";

interface Choice {
  name: string;
  table: string;
  means: string;
}

export const EXPORTS: Choice[] = [
  { name: "Instructions", table: "Instruction", means: "Compute engine instructions." },
  {
    name: "DMA transfers (aggregated by queue)",
    table: "DmaPacketAggregated",
    means: "DMA activity aggregated per queue.",
  },
  { name: "DMA packets (individual)", table: "DmaPacket", means: "Individual DMA packets." },
  { name: "Collective (CC) ops", table: "CcInstruction", means: "Collective communication operations." },
  { name: "Semaphore updates", table: "SemaphoreUpdate", means: "Semaphore sets and waits." },
];

/** Browsers take several downloads of one click only when they are a moment apart. */
const APART_MS = 400;

function cut(view: Range, extent: Range): Range {
  return { from: Math.max(Math.floor(view.from), extent.from), to: Math.min(Math.ceil(view.to), extent.to) };
}

function start(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}

interface Props {
  profile: Profile;
  /** Pixels that the timeline has: the resolution of a sampled export. */
  width: number;
  onClose(): void;
}

export function ExportDialog({ profile, width, onClose }: Props) {
  const { tables } = profile.overview;
  const view = useStore(profile.view);
  const range = cut(view, profile.extent);
  const [chosen, setChosen] = useState(() => new Set(EXPORTS.filter(({ table }) => tables[table]).map((e) => e.table)));
  const [sampled, setSampled] = useState(true);
  const choose = (table: string, on: boolean) => {
    const next = new Set(chosen);
    if (on) next.add(table);
    else next.delete(table);
    setChosen(next);
  };
  const run = () => {
    const mode = sampled ? "sampled" : "complete";
    [...chosen].forEach((table, i) => {
      const url = profile.api.url("export", { tables: table, ...range, mode, width: Math.max(Math.round(width), 1) });
      setTimeout(() => start(url, `${table}.csv`), i * APART_MS);
    });
    onClose();
  };
  return (
    <Dialog title="Export to CSV" onClose={onClose}>
      <p class="muted">
        Events from {exactText(range.from)} to {exactText(range.to)}, one file per table. Zoom to choose another range.
      </p>
      <fieldset>
        <legend>Tables</legend>
        {EXPORTS.map(({ name, table, means }) => (
          <label key={table} class="switch">
            <input
              type="checkbox"
              checked={chosen.has(table)}
              disabled={!tables[table]}
              onChange={(event) => choose(table, event.currentTarget.checked)}
            />
            <span>
              {name}
              <small>
                {table}.csv. {means} {tables[table] ? `${groupDigits(tables[table])} in the profile.` : "None here."}
              </small>
            </span>
          </label>
        ))}
      </fieldset>
      <label class="switch">
        <input type="checkbox" checked={sampled} onChange={(event) => setSampled(event.currentTarget.checked)} />
        <span>
          Sample at the timeline’s resolution
          <small>About one event per pixel and track. Without it, every event in the range.</small>
        </span>
      </label>
      <footer>
        <button type="button" class="primary" disabled={chosen.size === 0} onClick={run}>
          Export
        </button>
      </footer>
    </Dialog>
  );
}
