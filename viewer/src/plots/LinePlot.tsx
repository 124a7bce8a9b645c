// Values over time as steps, one line per core.

import { useState } from "preact/hooks";
import { niceTop, span, ticks, tickText, timeText } from "../timeline/scale";
import { amount, type Row, unitText } from "./BarPlot";
import type { Lines } from "./queries";

const WIDTH = 640;
const HEIGHT = 230;
const LEFT = 66;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 24;

interface Line {
  name: string;
  points: { x: number; y: number }[];
}

function linesOf(rows: Row[], plot: Lines): Line[] {
  const lines = new Map<string, Line>();
  for (const row of rows) {
    const name = plot.line === null ? "" : `nc${row[plot.line]}`;
    const line = lines.get(name) ?? { name, points: [] };
    line.points.push({ x: amount(row[plot.x]), y: amount(row[plot.y]) });
    lines.set(name, line);
  }
  return [...lines.values()];
}

/** A value holds from its time to the next one's. */
function pathOf(line: Line, xOf: (x: number) => number, yOf: (y: number) => number, end: number): string {
  const parts: string[] = [];
  line.points.forEach((point, i) => {
    const next = line.points[i + 1]?.x ?? end;
    const y = yOf(point.y).toFixed(1);
    parts.push(`${i === 0 ? "M" : "L"}${xOf(point.x).toFixed(1)} ${y}L${xOf(next).toFixed(1)} ${y}`);
  });
  return parts.join("");
}

function valueAt(line: Line, time: number): number | null {
  let found: number | null = null;
  for (const point of line.points) {
    if (point.x > time) break;
    found = point.y;
  }
  return found;
}

interface Props {
  rows: Row[];
  plot: Lines;
  title: string;
  extent: { from: number; to: number };
}

function Axes({ extent, top, plot }: { extent: Props["extent"]; top: number; plot: Lines }) {
  const { at, step } = ticks(extent, WIDTH - LEFT - RIGHT);
  const xOf = (x: number) => LEFT + ((x - extent.from) / span(extent)) * (WIDTH - LEFT - RIGHT);
  return (
    <>
      {[0, 0.25, 0.5, 0.75, 1].map((share) => {
        const y = HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
        return (
          <g key={share}>
            <line class="grid-line" x1={LEFT} x2={WIDTH - RIGHT} y1={y} y2={y} />
            <text class="name" x={LEFT - 6} y={y}>
              {unitText(plot.unit, share * top)}
            </text>
          </g>
        );
      })}
      {at.map((time) => (
        <text key={time} class="tick" x={xOf(time)} y={HEIGHT - 8}>
          {tickText(time, step, span(extent))}
        </text>
      ))}
    </>
  );
}

export function LinePlot({ rows, plot, title, extent }: Props) {
  const [time, setTime] = useState<number | null>(null);
  const lines = linesOf(rows, plot);
  const top = niceTop(Math.max(...rows.map((row) => amount(row[plot.y])), 0));
  const inner = { width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM };
  const xOf = (x: number) => LEFT + ((x - extent.from) / span(extent)) * inner.width;
  const yOf = (y: number) => HEIGHT - BOTTOM - (y / top) * inner.height;
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDTH;
    setTime(x < LEFT ? null : extent.from + ((x - LEFT) / inner.width) * span(extent));
  };
  return (
    <>
      <p class="plot-legend">
        {lines.map((line, i) => {
          const value = time === null ? null : valueAt(line, time);
          return (
            <span key={line.name}>
              <svg width="12" height="10" aria-hidden="true" class="plot-svg">
                <rect class={`part${i}`} width="12" height="10" />
              </svg>{" "}
              {line.name} {value !== null && unitText(plot.unit, value)}
            </span>
          );
        })}
        {time !== null && <span class="muted">at {timeText(time)}</span>}
      </p>
      <svg
        class="plot-svg"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={title}
        onPointerMove={point}
        onPointerLeave={() => setTime(null)}
      >
        <Axes extent={extent} top={top} plot={plot} />
        {lines.map((line, i) => (
          <path key={line.name} class={`line${i}`} d={pathOf(line, xOf, yOf, extent.to)} />
        ))}
        {time !== null && <line class="cursor" x1={xOf(time)} x2={xOf(time)} y1={TOP} y2={HEIGHT - BOTTOM} />}
      </svg>
    </>
  );
}
