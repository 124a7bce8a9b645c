// The lowest layer: axis, lanes of bands, rows with their events and plots, and the reasons of tracks that have nothing.

import type { Bands } from "../api/types";
import { type Band, type BandLane, lossesOf } from "./bands";
import type { TimelineData } from "./data";
import {
  Coverage,
  type DrawCount,
  drawEvents,
  type Piece,
  piecesOf,
  type SortedEvents,
  sortEvents,
} from "./draw_events";
import { drawSeries } from "./draw_series";
import { fitted } from "./draw_text";
import { span, ticks, tickText } from "./scale";
import { AXIS_HEIGHT, FONT, headHeight, LANE_HEIGHT, type PlacedRow, placedRows, type Scene, xOf } from "./scene";
import type { Settings } from "./tracks";

const CHAR_WIDTH = 6.4;
const TEXT_HEIGHT = 18;

/** An opaque canvas is copied to the screen, not blended with what lies below it. */
export function prepare(canvas: HTMLCanvasElement, scene: Scene, opaque = false): CanvasRenderingContext2D {
  const width = Math.max(Math.round(scene.width * scene.ratio), 1);
  const height = Math.max(Math.round(scene.height * scene.ratio), 1);
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d", { alpha: !opaque })!;
  context.setTransform(scene.ratio, 0, 0, scene.ratio, 0, 0);
  context.clearRect(0, 0, scene.width, scene.height);
  return context;
}

/** Runs with the context in device pixels, for what must lie on them. */
function inPixels(context: CanvasRenderingContext2D, draw: () => void): void {
  context.save();
  context.setTransform(1, 0, 0, 1, 0, 0);
  draw();
  context.restore();
}

export function drawAxis(context: CanvasRenderingContext2D, scene: Scene): void {
  const { step, at } = ticks(scene.view, scene.width);
  context.fillStyle = scene.theme.ground;
  context.fillRect(0, 0, scene.width, headHeight(scene));
  context.font = FONT;
  context.textBaseline = "middle";
  for (const time of at) {
    const x = Math.round(xOf(scene, time)) + 0.5;
    context.fillStyle = scene.theme.line;
    context.fillRect(x, AXIS_HEIGHT - 7, 1, 7);
    context.fillStyle = scene.theme.muted;
    const text = tickText(time, step, span(scene.view));
    if (x + 4 + text.length * CHAR_WIDTH < scene.width) context.fillText(text, x + 4, AXIS_HEIGHT / 2 - 1);
  }
  context.fillStyle = scene.theme.line;
  context.fillRect(0, AXIS_HEIGHT - 1, scene.width, 1);
}

export function drawGrid(context: CanvasRenderingContext2D, scene: Scene): void {
  context.fillStyle = scene.theme.line;
  context.globalAlpha = 0.45;
  for (const time of ticks(scene.view, scene.width).at)
    context.fillRect(Math.round(xOf(scene, time)), headHeight(scene), 1, scene.height);
  context.globalAlpha = 1;
}

export function toneColor(scene: Pick<Scene, "theme">, band: Pick<Band, "tone">): string {
  const { theme } = scene;
  return { amber: theme.amber, loss: theme.danger, error: theme.danger, calm: theme.muted, region: theme.accent }[
    band.tone
  ];
}

/** Where the bands of a lane lie on the screen. */
function placedBands(scene: Scene, lane: BandLane): { band: Band; left: number; width: number }[] {
  return lane.bands.flatMap((band) => {
    const x0 = xOf(scene, band.from);
    const x1 = Math.max(xOf(scene, band.to), x0 + 2);
    if (x1 < 0 || x0 > scene.width) return [];
    const left = Math.max(x0, -2);
    return [{ band, left, width: Math.min(x1, scene.width + 2) - left }];
  });
}

/** All grounds, then all edges, then all names: a canvas takes many rectangles of one colour faster than it changes colours. */
function drawLane(context: CanvasRenderingContext2D, scene: Scene, lane: BandLane, top: number): void {
  const placed = placedBands(scene, lane);
  context.globalAlpha = lane.tone === "calm" ? 0.2 : lane.tone === "region" ? 0.28 : 0.34;
  for (const { band, left, width } of placed) {
    if (width <= 2) continue; // no more than its edge
    context.fillStyle = toneColor(scene, band);
    context.fillRect(left, top + 2, width, LANE_HEIGHT - 3);
  }
  context.globalAlpha = 1;
  for (const { band, left, width } of placed) {
    context.fillStyle = toneColor(scene, band);
    context.fillRect(left, top + 2, Math.min(2, width), LANE_HEIGHT - 3);
  }
  context.font = FONT;
  context.textBaseline = "middle";
  context.fillStyle = scene.theme.text;
  for (const { band, left, width } of placed) {
    const text = fitted(context, FONT, band.label, width - 10);
    if (text !== "") context.fillText(text, left + 6, top + LANE_HEIGHT / 2 + 1);
  }
}

function drawLanes(context: CanvasRenderingContext2D, scene: Scene): void {
  for (const [i, lane] of scene.lanes.entries()) drawLane(context, scene, lane, AXIS_HEIGHT + i * LANE_HEIGHT);
  context.fillStyle = scene.theme.line;
  context.fillRect(0, headHeight(scene) - 1, scene.width, 1);
}

function hatch(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  color: string,
): void {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = color;
  context.globalAlpha = 0.38;
  context.lineWidth = 1.5;
  context.beginPath();
  for (let at = x - height; at < x + width; at += 7) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
  context.restore();
}

function drawReason(context: CanvasRenderingContext2D, scene: Scene, placed: PlacedRow, reason: string): void {
  context.font = FONT;
  context.textBaseline = "middle";
  context.fillStyle = scene.theme.muted;
  context.fillText(reason, 8, placed.top + placed.row.height / 2 + 0.5, scene.width - 16);
}

export interface FrameInput {
  data: TimelineData;
  bands: Bands | null;
  settings: Settings;
}

const coverage = new Coverage();

function piecesFor({ row }: PlacedRow, scene: Scene, data: TimelineData): Piece[] {
  const { id, absent, form } = row.track;
  if (absent !== null || form !== "events") return [];
  return piecesOf(scene.view, data.eventsOf(id), data.baseOf(id));
}

function sortRows(scene: Scene, rows: PlacedRow[], data: TimelineData, count: DrawCount): (SortedEvents | null)[] {
  coverage.begin(Math.round(scene.width * scene.ratio), rows.length);
  const sorted = rows.map((placed) => {
    const pieces = piecesFor(placed, scene, data);
    return pieces.length > 0 ? sortEvents(scene, pieces, coverage, count) : null;
  });
  coverage.end();
  return sorted;
}

function drawRow(
  context: CanvasRenderingContext2D,
  scene: Scene,
  placed: PlacedRow,
  input: FrameInput,
  events: SortedEvents | null,
): void {
  const { row } = placed;
  const { track } = row;
  if (track.absent !== null) {
    drawReason(context, scene, placed, track.absent);
    return;
  }
  for (const loss of lossesOf(input.bands, track.label, track.group, track.pcore)) {
    const x0 = Math.max(xOf(scene, loss.from), -8);
    const x1 = Math.min(Math.max(xOf(scene, loss.to), x0 + 2), scene.width + 8);
    if (x1 > 0 && x0 < scene.width) hatch(context, x0, placed.top, x1 - x0, row.height - 1, scene.theme.danger);
  }
  const series = track.form === "series" ? input.data.seriesOf(track.id) : null;
  if (series) drawSeries(context, scene, placed, series);
  if (events) inPixels(context, () => drawEvents(context, scene, placed, events, coverage, input.settings.waits));
}

/** Rows that are whole in sight need no clip, unless they are lower than the text in them. */
function clippedTo(context: CanvasRenderingContext2D, scene: Scene, placed: PlacedRow, draw: () => void): void {
  const { top, row, clipTop, clipBottom } = placed;
  if (top >= clipTop && top + row.height <= clipBottom && row.height >= TEXT_HEIGHT) {
    draw();
    return;
  }
  context.save();
  context.beginPath();
  context.rect(0, clipTop, scene.width, clipBottom - clipTop);
  context.clip();
  draw();
  context.restore();
}

function drawGround(context: CanvasRenderingContext2D, scene: Scene, placed: PlacedRow): void {
  context.fillStyle = scene.theme.row;
  context.fillRect(0, placed.top, scene.width, placed.row.height - 1);
}

export function drawFrame(canvas: HTMLCanvasElement, scene: Scene, input: FrameInput): DrawCount {
  const rows = placedRows(scene);
  const count: DrawCount = { wide: 0, narrow: 0 };
  const sorted = sortRows(scene, rows, input.data, count);
  const context = prepare(canvas, scene, true);
  context.fillStyle = scene.theme.ground;
  context.fillRect(0, 0, scene.width, scene.height);
  for (const placed of rows) clippedTo(context, scene, placed, () => drawGround(context, scene, placed));
  drawGrid(context, scene);
  for (const [i, placed] of rows.entries())
    clippedTo(context, scene, placed, () => drawRow(context, scene, placed, input, sorted[i]!));
  drawAxis(context, scene);
  drawLanes(context, scene);
  return count;
}
