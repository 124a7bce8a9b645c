// Synchronized time range: a begin and an end for all timelines at once.

import { useState } from "preact/hooks";
import type { ZoomSync } from "./sync";

type Unit = "ns" | "percent";

export function RangeForm({ sync }: { sync: ZoomSync }) {
  const [from, setFrom] = useState("0");
  const [to, setTo] = useState("100");
  const [unit, setUnit] = useState<Unit>("percent");
  const [low, high] = [Number(from), Number(to)];
  const isRange = from.trim() !== "" && to.trim() !== "" && Number.isFinite(low) && Number.isFinite(high) && low < high;
  // What lies outside every profile would show nothing.
  const good = isRange && sync.meets(low, high, unit);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (good) sync.setRange(low, high, unit);
  };
  const why = isRange && !good ? "No profile has anything in this range" : "Set all timelines to this range";
  return (
    <form class="range-form" aria-label="Synchronized time range" onSubmit={submit}>
      <input
        type="text"
        inputMode="decimal"
        aria-label="Range from"
        maxLength={20}
        value={from}
        onInput={(event) => setFrom(event.currentTarget.value)}
      />
      –
      <input
        type="text"
        inputMode="decimal"
        aria-label="Range to"
        maxLength={20}
        value={to}
        onInput={(event) => setTo(event.currentTarget.value)}
      />
      <select aria-label="Range unit" value={unit} onChange={(event) => setUnit(event.currentTarget.value as Unit)}>
        <option value="percent">%</option>
        <option value="ns">ns</option>
      </select>
      <button type="submit" disabled={!good} title={why}>
        Synchronize
      </button>
    </form>
  );
}
