// A value over days, small: a point for each day that has captures.

import { niceTop } from "../timeline/scale";

const WIDTH = 200;
const HEIGHT = 34;
const SIDE = 4;

interface Props {
  days: string[];
  values: (number | null)[];
  /** Profiles behind each value, for its hint. */
  counts: number[];
  unit: string;
  title: string;
}

export function Sparkline({ days, values, counts, unit, title }: Props) {
  const top = niceTop(Math.max(...values.map((value) => value ?? 0), 0));
  const xOf = (i: number) => SIDE + (i / Math.max(days.length - 1, 1)) * (WIDTH - 2 * SIDE);
  const yOf = (value: number) => HEIGHT - SIDE - (value / top) * (HEIGHT - 2 * SIDE);
  let path = "";
  let before: number | null = null;
  values.forEach((value, i) => {
    // Days without a capture in between are bridged by a line: it is the trend that is looked for.
    if (value !== null) path += `${before === null ? "M" : "L"}${xOf(i).toFixed(1)} ${yOf(value).toFixed(1)}`;
    before = value ?? before;
  });
  const week = xOf(days.length - 7.5);
  return (
    <svg
      class="plot-svg spark"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      width={WIDTH}
      height={HEIGHT}
      role="img"
      aria-label={title}
    >
      {days.length > 7 && <rect class="week" x={week} y={0} width={WIDTH - week} height={HEIGHT} />}
      <path class="line0" d={path || "M0 0"} />
      {values.map(
        (value, i) =>
          value !== null && (
            <circle
              key={days[i]}
              class="dot"
              cx={xOf(i)}
              cy={yOf(value)}
              r={2.2}
              data-day={days[i]}
              data-value={String(value)}
            >
              <title>{`${days[i]}: ${value.toPrecision(4)}${unit}, ${counts[i]} profiles`}</title>
            </circle>
          ),
      )}
    </svg>
  );
}
