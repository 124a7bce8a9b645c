// Lanes of ranks: collectives from arrival to end, the waiting in them pale, how busy the rank is below; error bounds as whiskers.

import type { Skew } from "../api/ranks";
import { colorOf } from "../timeline/color";
import { drawAxis, drawGrid, prepare } from "../timeline/draw_frame";
import { exactText } from "../timeline/scale";
import { AXIS_HEIGHT, FONT, type Scene, xOf } from "../timeline/scene";
import type { Arrivals, Busy, LanesData } from "./lanes";
import type { Hover, PlacedRank } from "./view";

export interface Drawn {
  collectives: number;
  /** Error bounds wide enough to be seen. */
  whiskers: number;
  lanes: number;
  busy: boolean;
}

interface Input {
  rows: PlacedRank[];
  height: number;
  data: LanesData;
  chosen: Skew | null;
}

type Context = CanvasRenderingContext2D;

const WHISKER_LEAST = 0.75;
/** Share of a collective, from its first arrival on, that was waiting for the last. */
const LOUD = 0.05;

function css(name: string): string {
  const [r, g, b] = colorOf(name);
  return `rgb(${r} ${g} ${b})`;
}

function fill(context: Context, scene: Scene, x0: number, x1: number, y: number, height: number): void {
  const left = Math.max(x0, -2);
  const right = Math.min(x1, scene.width + 2);
  if (right > left) context.fillRect(left, y, right - left, height);
}

function drawGround(context: Context, scene: Scene, row: PlacedRank, index: number, height: number): void {
  const { rank, top } = row;
  context.fillStyle = index % 2 ? scene.theme.rowAlt : scene.theme.row;
  context.fillRect(0, top, scene.width, height - 1);
  if (rank.from === null || rank.to === null) return;
  // Beside its capture nothing is known of a rank.
  context.fillStyle = scene.theme.line;
  context.globalAlpha = 0.55;
  fill(context, scene, 0, xOf(scene, rank.from), top, height - 1);
  fill(context, scene, xOf(scene, rank.to), scene.width, top, height - 1);
  context.globalAlpha = 1;
}

function drawBusy(context: Context, scene: Scene, busy: Busy, bottom: number, height: number): void {
  context.fillStyle = scene.theme.muted;
  context.globalAlpha = 0.6;
  for (let i = 0; i < busy.n; i++) {
    const x0 = xOf(scene, busy.start[i]!);
    const x1 = Math.max(xOf(scene, busy.start[i]! + busy.length[i]!), x0 + 1);
    const tall = busy.share[i]! * height;
    if (x1 >= 0 && x0 <= scene.width) fill(context, scene, x0, x1, bottom - tall, tall);
  }
  context.globalAlpha = 1;
}

function drawWhisker(context: Context, scene: Scene, at: number, error: number, y: number): boolean {
  const half = (error / (scene.view.to - scene.view.from)) * scene.width;
  if (error < 0 || half < WHISKER_LEAST) return false;
  const x = xOf(scene, at);
  // With an edge of the ground's colour: operations have any colour.
  for (const [color, more] of [
    [scene.theme.ground, 1],
    [scene.theme.text, 0],
  ] as const) {
    context.fillStyle = color;
    context.fillRect(x - half - more, y - 0.75 - more, 2 * (half + more), 1.5 + 2 * more);
    for (const side of [-half, half])
      context.fillRect(x + side - 0.75 - more, y - 4 - more, 1.5 + 2 * more, 8 + 2 * more);
  }
  return true;
}

function drawLast(context: Context, scene: Scene, x: number, y: number, size: number): void {
  context.fillStyle = scene.theme.danger;
  context.beginPath();
  context.moveTo(x, y + size);
  context.lineTo(x - size * 0.7, y);
  context.lineTo(x + size * 0.7, y);
  context.fill();
}

function drawArrivals(context: Context, scene: Scene, came: Arrivals, y: number, height: number, drawn: Drawn): void {
  const size = Math.min(height * 0.6, 8);
  for (let i = 0; i < came.n; i++) {
    const x0 = xOf(scene, came.start[i]!);
    const x1 = Math.max(xOf(scene, came.end[i]!), x0 + 1);
    if (x1 < -size || x0 > scene.width + size) continue;
    const together = Math.min(Math.max(xOf(scene, came.start[i]! + came.wait[i]!), x0), x1);
    context.fillStyle = css(came.operation[i]!);
    context.globalAlpha = 0.35;
    fill(context, scene, x0, together, y, height);
    context.globalAlpha = 1;
    fill(context, scene, Math.min(together, x1 - 1), x1, y, height);
    context.fillRect(x0, y, 1, height);
    drawn.collectives += came.count[i]!;
    if (drawWhisker(context, scene, came.start[i]!, came.error[i]!, y + height / 2)) drawn.whiskers++;
    if (came.last[i] && came.late[i]! > Math.max(came.error[i]!, 0)) {
      // Somebody is always the last: it is told loudly where others had to wait for long.
      const whole = came.end[i]! - came.start[i]! + came.late[i]!;
      context.globalAlpha = came.late[i]! > whole * LOUD ? 1 : 0.3;
      drawLast(context, scene, x0, y - 1, size);
      context.globalAlpha = 1;
    }
  }
}

/** From the first arrival to the last, over all lanes; each rank's own arrival as a line. */
function drawChosen(context: Context, scene: Scene, chosen: Skew, rows: PlacedRank[], height: number): void {
  if (chosen.first === null || chosen.last === null) return;
  const x0 = xOf(scene, chosen.first);
  const x1 = Math.max(xOf(scene, chosen.last), x0 + 1);
  context.fillStyle = scene.theme.accent;
  context.globalAlpha = 0.14;
  fill(context, scene, x0, x1, AXIS_HEIGHT, scene.height);
  context.globalAlpha = 1;
  for (const { rank, top } of rows) {
    const arrival = chosen.arrivals?.find((one) => one.profile === rank.profile);
    if (!arrival || arrival.at === null) continue;
    const x = xOf(scene, arrival.at);
    context.fillStyle = rank.profile === chosen.last_profile ? scene.theme.danger : scene.theme.accent;
    context.fillRect(x - 1, top, 2, height - 1);
  }
}

export function drawLanes(canvas: HTMLCanvasElement, scene: Scene, input: Input): Drawn {
  const context = prepare(canvas, scene);
  const { rows, height, data, chosen } = input;
  const drawn: Drawn = { collectives: 0, whiskers: 0, lanes: 0, busy: false };
  drawGrid(context, scene);
  rows.forEach((row, i) => {
    const lane = data.laneOf(row.rank.profile);
    drawGround(context, scene, row, i, height);
    if (!lane) return;
    drawn.lanes++;
    drawBusy(context, scene, lane.busy, row.top + height - 2, height * 0.3);
    drawArrivals(context, scene, lane.arrivals, row.top + height * 0.22, height * 0.44, drawn);
  });
  if (chosen) drawChosen(context, scene, chosen, rows, height);
  drawAxis(context, scene);
  return drawn;
}

/** The pointer's time in every lane, as wide as that rank's clock may be off. */
export function drawCursor(
  canvas: HTMLCanvasElement,
  scene: Scene,
  { rows, height, hover }: { rows: PlacedRank[]; height: number; hover: Hover | null },
): void {
  const context = prepare(canvas, scene);
  if (!hover) return;
  const x = xOf(scene, hover.time);
  for (const { rank, top } of rows) {
    if (rank.error_ns === null) continue;
    const half = Math.max((rank.error_ns / (scene.view.to - scene.view.from)) * scene.width, 0.5);
    context.fillStyle = scene.theme.amber;
    context.globalAlpha = 0.4;
    const y = Math.max(top, AXIS_HEIGHT);
    if (top + height > y) context.fillRect(x - half, y, 2 * half, top + height - 1 - y);
    context.globalAlpha = 1;
  }
  context.fillStyle = scene.theme.text;
  context.fillRect(Math.round(x), 0, 1, scene.height);
  context.font = FONT;
  context.textBaseline = "middle";
  const text = exactText(hover.time);
  const width = context.measureText(text).width + 8;
  const left = Math.min(Math.max(x + 3, 0), scene.width - width);
  context.fillStyle = scene.theme.ground;
  context.fillRect(left, 1, width, AXIS_HEIGHT - 4);
  context.fillStyle = scene.theme.text;
  context.fillText(text, left + 4, AXIS_HEIGHT / 2);
}
