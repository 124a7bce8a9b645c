// A value, and how it differs from the base's.

import { valueText } from "../ui/values";
import { deltaOf, judged, type Value } from "./figures";

interface Props {
  field: string;
  base: Value | undefined;
  value: Value | undefined;
  isBase: boolean;
  /** How far the base's own captures lie apart; a difference within it is noise. */
  spread?: number | null;
}

function deltaText(field: string, delta: number, percent: number | null): string {
  const sign = delta > 0 ? "+" : delta < 0 ? "\u2212" : "\u00b1";
  const amount = valueText(field, Math.abs(delta));
  return percent === null
    ? `${sign}${amount}`
    : `${sign}${amount} (${sign}${Math.abs(Math.round(percent * 10) / 10)} %)`;
}

export function DeltaCell({ field, base, value, isBase, spread }: Props) {
  const delta = isBase ? null : deltaOf(base, value);
  const noise = delta !== null && typeof spread === "number" && Math.abs(delta.delta) <= spread;
  const judgement = delta === null || noise ? "plain" : judged(field, delta.delta);
  return (
    <td class="number">
      <span>{value === null || value === undefined ? "–" : valueText(field, value)}</span>
      {delta !== null && (
        <small
          class={`delta ${judgement}`}
          title={noise ? "No more than the captures of one side differ among themselves" : undefined}
        >
          {noise ? "within noise" : deltaText(field, delta.delta, delta.percent)}
        </small>
      )}
    </td>
  );
}
