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

/** The line's corners: a value holds for its stretch; where the next one is farther, the line is at 0 between them. */
function cornersOf(line: Line, plot: Lines, end: number): { x: number; y: number }[] {
  return line.points.flatMap((point, i) => {
    const next = line.points[i + 1]?.x ?? end;
    const until = Math.min(point.x + plot.stretch, next);
    const held = [point, { x: until, y: point.y }];
    return until < next ? [...held, { x: until, y: 0 }, { x: next, y: 0 }] : held;
  });
}

function valueAt(line: Line, plot: Lines, time: number): number {
  const point = line.points.find((one) => one.x <= time && time < one.x + plot.stretch);
  return point?.y ?? 0;
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
  const pathOf = (corners: { x: number; y: number }[]) =>
    corners.map(({ x, y }, i) => `${i === 0 ? "M" : "L"}${xOf(x).toFixed(1)} ${yOf(y).toFixed(1)}`).join("");
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDTH;
    setTime(x < LEFT ? null : extent.from + ((x - LEFT) / inner.width) * span(extent));
  };
  return (
    <>
      <p class="plot-legend">
        {lines.map((line, i) => {
          const value = time === null ? null : valueAt(line, plot, time);
          return (
            <span key={line.name}>
              {lines.length > 1 && (
                <svg width="12" height="10" aria-hidden="true" class="plot-svg">
                  <rect class={`part${i}`} width="12" height="10" />
                </svg>
              )}{" "}
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
          <path key={line.name} class={`line${i}`} d={pathOf(cornersOf(line, plot, extent.to))} />
        ))}
        {time !== null && <line class="cursor" x1={xOf(time)} x2={xOf(time)} y1={TOP} y2={HEIGHT - BOTTOM} />}
      </svg>
    </>
  );
}
