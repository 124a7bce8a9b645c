// Values of table columns as text. The unit is in the column's name (collector/query/SERVE.md and the schema).

import { bytesText, exactText, flopsText, groupDigits, rateText, timeText } from "../timeline/scale";

const INSTANTS = new Set(["timestamp", "trigger", "completion", "from", "to"]);
const BYTES = /(_bytes|_size)$/;
const DURATIONS = /_(ns|delay)$/;

function numberText(name: string, value: number): string {
  if (/_ts$/.test(name) || INSTANTS.has(name)) return exactText(value);
  if (DURATIONS.test(name) || name === "duration") return timeText(value);
  if (/_percent$/.test(name)) return `${Math.round(value * 100) / 100} %`;
  if (BYTES.test(name)) return bytesText(value);
  if (/_flops$/.test(name)) return flopsText(value);
  if (/throughput|bandwidth|bytes_per_second/.test(name)) return rateText(value);
  if (/_(id|idx)$|^(id|pc|level)$/.test(name)) return String(value);
  return Number.isInteger(value) ? groupDigits(value) : String(Number(value.toPrecision(6)));
}

export function valueText(name: string, value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return numberText(name, value);
  if (Array.isArray(value)) return value.length ? value.map((item) => valueText("", item)).join(", ") : "–";
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

const ONE_ARRAY = "of the peak of one PE array, as in the tables Summary and FlopsUsage: two cores' work adds up";
const HINTS: Record<string, string> = { mfu_percent: ONE_ARRAY, hfu_percent: ONE_ARRAY };

/** The column's name, and what it is of where that is not clear. */
export function fieldHint(name: string): string {
  return HINTS[name] ? `${name}, ${HINTS[name]}` : name;
}

/** evt_wait_time_ns → evt wait time: the unit is in the value. */
export function fieldTitle(name: string): string {
  return name
    .replace(/_(ns|bytes|percent|ts)$/, (_, unit) => (unit === "bytes" || unit === "ts" ? ` ${unit}` : ""))
    .replace(/_/g, " ");
}
