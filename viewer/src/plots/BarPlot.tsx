// Bars that lie, one below the other, with their names and values: drawn as SVG, hints on hover and for readers of the screen.

import { bytesText, flopsText, niceTop, rateText, timeText } from "../timeline/scale";
import { fieldTitle, valueText } from "../ui/values";
import type { Bars, Lines } from "./queries";

export type Row = Record<string, unknown>;

const NAMES = 150;
const WIDTH = 640;
const VALUES = 84;
const BAR = 18;
const GAP = 6;
const TOP = 6;

export function amount(value: unknown): number {
  const number = typeof value === "number" ? value : Number(value ?? 0);
  return Number.isFinite(number) ? number : 0;
}

export function unitText(unit: Bars["unit"] | Lines["unit"], value: number): string {
  switch (unit) {
    case "flops":
      return flopsText(value);
    case "bytes":
      return bytesText(value);
    case "ns":
      return timeText(value);
    case "bytes_per_second":
      return rateText(value);
    case "percent":
      return `${Math.round(value * 100) / 100} %`;
  }
}

function nameOf(row: Row, columns: string[]): string {
  return columns
    .map((column) => {
      if (column === "pcore_idx") return `(nc${row[column]})`;
      if (column === "engine_idx") return `DMA-E${row[column]}`;
      if (column === "size_bytes") return bytesText(amount(row[column]));
      return String(row[column] ?? "–");
    })
    .join(" ")
    .replace(" (nc", "(nc");
}

interface BarProps {
  row: Row;
  y: number;
  top: number;
  plot: Bars;
}

function Bar({ row, y, top, plot }: BarProps) {
  const scale = (WIDTH - NAMES - VALUES) / top;
  const name = nameOf(row, plot.name);
  const sum = plot.parts.reduce((total, part) => total + amount(row[part.column]), 0);
  let x = NAMES;
  const rects = plot.parts.map((part, i) => {
    const width = amount(row[part.column]) * scale;
    const rect = <rect key={part.column} class={`part${i}`} x={x} y={y} width={Math.max(width, 0)} height={BAR} />;
    x += width;
    return rect;
  });
  const hints = [...plot.parts.map((part) => `${part.title}: ${unitText(plot.unit, amount(row[part.column]))}`)];
  for (const column of plot.more) hints.push(`${fieldTitle(column)}: ${valueText(column, row[column])}`);
  const middle = y + BAR / 2;
  return (
    <g data-bar={name} data-value={String(sum)}>
      <title>{[name, ...hints].join("\n")}</title>
      <rect class="row" x={0} y={y - GAP / 2} width={WIDTH} height={BAR + GAP} />
      <text class="name" x={NAMES - 8} y={middle}>
        {name.length > 24 ? `${name.slice(0, 23)}…` : name}
      </text>
      {rects}
      <text class="value" x={x + 6} y={middle}>
        {unitText(plot.unit, sum)}
      </text>
    </g>
  );
}

export function BarPlot({ rows, plot, title }: { rows: Row[]; plot: Bars; title: string }) {
  const sums = rows.map((row) => plot.parts.reduce((total, part) => total + amount(row[part.column]), 0));
  const top = niceTop(Math.max(...sums, 0));
  const height = TOP + rows.length * (BAR + GAP);
  return (
    <>
      {plot.parts.length > 1 && (
        <p class="plot-legend">
          {plot.parts.map((part, i) => (
            <span key={part.column}>
              <svg width="12" height="10" aria-hidden="true" class="plot-svg">
                <rect class={`part${i}`} width="12" height="10" />
              </svg>{" "}
              {part.title}
            </span>
          ))}
        </p>
      )}
      <svg class="plot-svg" viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={title}>
        {rows.map((row, i) => (
          <Bar key={i} row={row} y={TOP + i * (BAR + GAP)} top={top} plot={plot} />
        ))}
      </svg>
    </>
  );
}
