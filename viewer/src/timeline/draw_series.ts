// Values over time as small plots: the envelope of least and greatest per pixel, and the line of the last value in each.

import type { Track } from "../api/types";
import type { SeriesData } from "./data";
import { bytesText, groupDigits, niceTop, rateText } from "./scale";
import { FONT, type PlacedRow, type Scene, xOf } from "./scene";

/** Averages since the start run on between samples; all other values hold until the next one. */
function isLine(track: Track): boolean {
  return track.label.includes("Cumulative");
}

export function valueText(value: number, unit: Track["unit"]): string {
  if (unit === "percent") return `${value >= 10 || value === 0 ? Math.round(value * 10) / 10 : value.toPrecision(2)} %`;
  if (unit === "bytes_per_second") return rateText(value);
  return Number.isInteger(value) ? groupDigits(value) : value.toPrecision(4);
}

export { bytesText };

export function indexAt(data: SeriesData, time: number): number {
  let low = 0;
  let high = data.n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (data.at[middle]! <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export function scaleTop(track: Track, data: SeriesData): number {
  const top = niceTop(data.top);
  return track.unit === "percent" ? Math.min(top, Math.max(100, data.top)) : top;
}

/** What moves the line by less is not drawn: a stroke of a thousand points takes as long as many tracks of events. */
const LEAST_MOVE = 0.2;

/** The line through the rows of a window, without the points on which it only goes on; returns where it ends. */
function traceLine(
  context: CanvasRenderingContext2D,
  scene: Scene,
  data: SeriesData,
  [first, last]: [number, number],
  yOf: (value: number) => number,
  line: boolean,
): number {
  let y = 0;
  let left: [number, number] | null = null;
  for (let i = first; i < last; i++) {
    const x = xOf(scene, data.at[i]!);
    const next = yOf(data.last[i]!);
    if (i === first) {
      context.moveTo(Math.max(x, -1), next);
      y = next;
    } else if (Math.abs(next - y) < LEAST_MOVE && i + 1 < last) {
      left = [x, next];
    } else {
      if (!line) context.lineTo(x, y);
      else if (left) context.lineTo(...left);
      context.lineTo(x, next);
      y = next;
      left = null;
    }
  }
  return y;
}

export function drawSeries(context: CanvasRenderingContext2D, scene: Scene, placed: PlacedRow, data: SeriesData): void {
  const { track, height } = placed.row;
  const top = scaleTop(track, data);
  const base = placed.top + height - 2;
  const scale = (height - 6) / top;
  const first = Math.max(indexAt(data, scene.view.from), 0);
  const last = Math.min(indexAt(data, scene.view.to) + 2, data.n);
  const yOf = (value: number) => base - Math.min(Math.max(value, 0), top) * scale;

  context.beginPath();
  const line = isLine(track);
  const y = traceLine(context, scene, data, [first, last], yOf, line);
  // The next sample lies beyond what was asked for: until there the last value holds, of averages nearly so.
  const known = Math.min(data.to, scene.view.to);
  const edge = Math.min(xOf(scene, Math.max(data.at[last - 1] ?? 0, known)), scene.width + 1);
  const end = line ? Math.max(edge, xOf(scene, data.at[last - 1] ?? 0)) : edge;
  if (last > first) context.lineTo(end, y);
  context.strokeStyle = scene.theme.accent;
  context.lineWidth = 1;
  context.stroke();
  if (last > first) {
    context.lineTo(end, base);
    context.lineTo(Math.max(xOf(scene, data.at[first]!), -1), base);
    context.globalAlpha = 0.16;
    context.fillStyle = scene.theme.accent;
    context.fill();
    context.globalAlpha = 1;
  }
  drawEnvelope(context, scene, data, [first, last], yOf);
  context.font = FONT;
  context.textBaseline = "top";
  context.textAlign = "right";
  const text = valueText(top, track.unit);
  // Readable also where the line runs through it.
  const wide = context.measureText(text).width;
  context.fillStyle = scene.theme.row;
  context.fillRect(scene.width - 7 - wide, placed.top + 1, wide + 4, 14);
  context.fillStyle = scene.theme.muted;
  context.fillText(text, scene.width - 5, placed.top + 3);
  context.textAlign = "left";
}

function drawEnvelope(
  context: CanvasRenderingContext2D,
  scene: Scene,
  data: SeriesData,
  [first, last]: [number, number],
  yOf: (value: number) => number,
): void {
  context.globalAlpha = 0.42;
  context.fillStyle = scene.theme.accent;
  let from = 0;
  let to = 0;
  let high = 0;
  let low = 0;
  const flush = () => {
    if (to > from && low - high >= 1.5) context.fillRect(from, high, Math.max(to - from, 1), low - high);
  };
  for (let i = first; i < last; i++) {
    const [nextHigh, nextLow] = [yOf(data.max[i]!), yOf(data.min[i]!)];
    const x = xOf(scene, data.at[i]!);
    const end = xOf(scene, data.at[i]! + data.step);
    // Neighbours of one height are one rectangle.
    const goesOn = x - to < 0.01 && Math.abs(nextHigh - high) < LEAST_MOVE && Math.abs(nextLow - low) < LEAST_MOVE;
    if (!goesOn) {
      flush();
      [from, high, low] = [x, nextHigh, nextLow];
    }
    to = end;
  }
  flush();
  context.globalAlpha = 1;
}
