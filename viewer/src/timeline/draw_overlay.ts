// The layers above the events: what is selected and what depends on it, what was found, annotations, the box, the pointer.

import type { Packed } from "../api/packed";
import type { Dependencies, Dependency, Range } from "../api/types";
import type { Annotation } from "../state/annotations";
import { type Box, sameEvent } from "../state/profile";
import { dependencyStyle } from "./color";
import type { TimelineData } from "./data";
import { prepare, toneColor } from "./draw_frame";
import { type Known, type Place, placesOf } from "./hit";
import { BORDERED, type MarkShape, markShape, stripShare } from "./marks";
import { AXIS_HEIGHT, FONT, headHeight, type PlacedRow, placedRows, type Scene, xOf } from "./scene";

const MAX_LINKS = 200;
/** Strips for matches that lie dense: their least height, and the most, as a share of the track's. */
const STRIP_LEAST = 2;
const STRIP_MOST = 0.45;

export interface Highlight {
  known: Known;
  kind: string;
  /** Does it come before the selected event? */
  before: boolean;
  /** A curve leads to it: of a transfer's packets only to the first on each track. */
  linked: boolean;
}

function packetHighlights({ packets = [], transfers = [] }: Dependencies): Highlight[] {
  const before = new Set(transfers.filter((t) => t.direction === "in").map((t) => t.id));
  const seen = new Set<string>();
  return packets.flatMap(({ transfer, id, start_ts, end_ts, track }) => {
    if (track === null) return [];
    const place = `${transfer} ${track}`;
    const linked = !seen.has(place);
    seen.add(place);
    const known = { table: "DmaPacket", id, start_ts, end_ts, tracks: [track] };
    return [{ known, kind: "TRANSFER", before: before.has(transfer), linked }];
  });
}

/** What the selected event is linked to. The transfers of an instruction are blue, whatever their edge is called. */
export function highlightsOf(dependencies: Dependencies | null): Highlight[] {
  if (!dependencies) return [];
  const list = (items: Dependency[], before: boolean, kind?: string) =>
    items.map((known) => ({ known, kind: kind ?? known.kind, before, linked: true }));
  const transfers = dependencies.transfers ?? [];
  return [
    ...list(dependencies.predecessors ?? [], true),
    ...list(dependencies.successors ?? [], false),
    ...list(
      transfers.filter((t) => t.direction === "in"),
      true,
      "TRANSFER",
    ),
    ...list(
      transfers.filter((t) => t.direction !== "in"),
      false,
      "TRANSFER",
    ),
    ...packetHighlights(dependencies),
    ...list(dependencies.starters ?? [], true, "DMA_TRIGGER"),
    ...list(dependencies.dependents ?? [], false),
  ];
}

export interface OverlayInput {
  data: TimelineData;
  selected: Known | null;
  highlights: Highlight[];
  hits: Known[];
  marks: Packed | null;
  lit: Packed | null;
  focused: Known | null;
  annotations: Annotation[];
  dragged: number | null;
  box: Box | null;
  drawing: { x0: number; y0: number; x1: number; y1: number } | null;
  zooming: Range | null;
}

function outline(context: CanvasRenderingContext2D, place: Place, color: string, width: number, fill = 0): void {
  const left = place.x0 - width / 2;
  const wide = Math.max(place.x1 - place.x0, 3) + width;
  context.save();
  context.beginPath();
  context.rect(-10, place.clipTop, 1e5, place.clipBottom - place.clipTop);
  context.clip();
  if (fill > 0) {
    context.globalAlpha = fill;
    context.fillStyle = color;
    context.fillRect(left, place.top, wide, place.height);
    context.globalAlpha = 1;
  }
  context.strokeStyle = color;
  context.lineWidth = width;
  context.strokeRect(left, place.top - width / 2, wide, place.height + width);
  context.restore();
}

function middle(place: Place): number {
  return place.top + place.height / 2;
}

function link(context: CanvasRenderingContext2D, scene: Scene, from: Place, to: Place, color: string): void {
  const x0 = Math.min(Math.max(from.x1, -20), scene.width + 20);
  const x1 = Math.min(Math.max(to.x0, -20), scene.width + 20);
  const bend = Math.max(Math.abs(x1 - x0) / 2, 14);
  context.beginPath();
  context.moveTo(x0, middle(from));
  context.bezierCurveTo(x0 + bend, middle(from), x1 - bend, middle(to), x1, middle(to));
  context.strokeStyle = color;
  context.globalAlpha = 0.5;
  context.lineWidth = 1;
  context.stroke();
  context.globalAlpha = 1;
}

function onScreen(scene: Scene, place: Place): boolean {
  return place.x1 >= -2 && place.x0 <= scene.width + 2;
}

function drawHighlights(context: CanvasRenderingContext2D, scene: Scene, input: OverlayInput): void {
  const own = input.selected ? placesOf(scene, input.data, input.selected) : [];
  let links = 0;
  for (const highlight of input.highlights) {
    const { color } = dependencyStyle(highlight.kind);
    const places = placesOf(scene, input.data, highlight.known).filter((place) => onScreen(scene, place));
    for (const place of places) outline(context, place, color, 2, 0.25);
    const [place] = places;
    const [mine] = own;
    if (place && mine && highlight.linked && links++ < MAX_LINKS) {
      if (highlight.before) link(context, scene, place, mine, color);
      else link(context, scene, mine, place, color);
    }
  }
  for (const place of own) if (onScreen(scene, place)) outline(context, place, scene.theme.text, 2.5);
}

function drawFound(context: CanvasRenderingContext2D, scene: Scene, input: OverlayInput): void {
  if (input.lit) drawMarks(context, scene, input.lit, scene.theme.accent);
  if (input.marks) drawMarks(context, scene, input.marks, scene.theme.found);
  for (const hit of input.hits) {
    if (sameEvent(hit, input.focused)) continue;
    for (const place of placesOf(scene, input.data, hit))
      if (onScreen(scene, place) && (!input.marks || place.x1 - place.x0 >= BORDERED))
        outline(context, place, scene.theme.found, 2);
  }
}

function drawFocused(context: CanvasRenderingContext2D, scene: Scene, input: OverlayInput): void {
  if (!input.focused) return;
  for (const place of placesOf(scene, input.data, input.focused))
    if (onScreen(scene, place)) outline(context, place, scene.theme.focused, 3);
}

/** Lines above and below where matches lie dense; the lower one grows with their number, and what they mark stays in sight. */
function drawStrips(
  context: CanvasRenderingContext2D,
  placed: PlacedRow,
  strips: MarkShape["strips"],
  most: number,
  color: string,
): void {
  const { top, clipTop, clipBottom } = placed;
  const bottom = top + placed.row.height - 1;
  const room = placed.row.height * STRIP_MOST - STRIP_LEAST;
  context.save();
  context.beginPath();
  context.rect(-10, clipTop, 1e5, clipBottom - clipTop);
  context.clip();
  context.beginPath();
  for (const { x0, x1, count } of strips) {
    const tall = STRIP_LEAST + Math.round(Math.max(room, 0) * stripShare(count, most));
    context.rect(x0, top, x1 - x0, STRIP_LEAST);
    context.rect(x0, bottom - tall, x1 - x0, tall);
  }
  context.fillStyle = color;
  context.fill();
  context.restore();
}

function drawMarks(context: CanvasRenderingContext2D, scene: Scene, marks: Packed, color: string): void {
  const tracks = new Map(marks.tracks.map((track) => [track.id, track]));
  const shapes: [PlacedRow, MarkShape][] = placedRows(scene).flatMap((placed) => {
    const track = tracks.get(placed.row.track.id);
    return track ? [[placed, markShape(track, scene.view, scene.width)]] : [];
  });
  let most = 1;
  for (const [, { strips }] of shapes) for (const { count } of strips) most = Math.max(most, count);
  for (const [placed, { boxes, strips }] of shapes) {
    const { clipTop, clipBottom } = placed;
    const border = (x0: number, x1: number) =>
      outline(context, { x0, x1, top: placed.top + 2, height: placed.row.height - 4, clipTop, clipBottom }, color, 2);
    for (const [x0, x1] of boxes) border(x0, x1);
    for (const { x0, x1, alone } of strips) if (alone) border(x0, x1);
    const dense = strips.filter(({ alone }) => !alone);
    drawStrips(context, placed, dense, most, color);
  }
}

function drawTints(context: CanvasRenderingContext2D, scene: Scene): void {
  const top = headHeight(scene);
  for (const lane of scene.lanes) {
    if (!lane.tint) continue;
    for (const band of lane.bands) {
      const x0 = Math.max(xOf(scene, band.from), 0);
      const x1 = Math.min(xOf(scene, band.to), scene.width);
      if (x1 <= x0) continue;
      context.fillStyle = toneColor(scene, band);
      context.globalAlpha = scene.theme.dark ? 0.07 : 0.1;
      context.fillRect(x0, top, x1 - x0, scene.height - top);
      context.globalAlpha = 1;
    }
  }
}

function drawAnnotations(context: CanvasRenderingContext2D, scene: Scene, input: OverlayInput): void {
  context.font = FONT;
  context.textBaseline = "middle";
  for (const annotation of input.annotations) {
    const x = Math.round(xOf(scene, annotation.ts)) + 0.5;
    if (x < -100 || x > scene.width + 2) continue;
    context.strokeStyle = scene.theme.accent;
    context.lineWidth = annotation.id === input.dragged ? 2 : 1;
    context.setLineDash([5, 3]);
    context.beginPath();
    context.moveTo(x, AXIS_HEIGHT - 4);
    context.lineTo(x, scene.height);
    context.stroke();
    context.setLineDash([]);
    const width = Math.min(context.measureText(annotation.name).width, 160) + 10;
    context.fillStyle = scene.theme.accent;
    context.fillRect(x, 2, width, AXIS_HEIGHT - 8);
    context.fillStyle = scene.theme.ground;
    context.fillText(annotation.name, x + 5, AXIS_HEIGHT / 2 - 1, 160);
  }
}

function drawBox(context: CanvasRenderingContext2D, scene: Scene, input: OverlayInput): void {
  context.strokeStyle = scene.theme.accent;
  context.fillStyle = scene.theme.accent;
  context.lineWidth = 1.5;
  const rect = (x: number, y: number, width: number, height: number) => {
    context.globalAlpha = 0.12;
    context.fillRect(x, y, width, height);
    context.globalAlpha = 1;
    context.strokeRect(x, y, width, height);
  };
  if (input.drawing) {
    const { x0, y0, x1, y1 } = input.drawing;
    rect(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0));
  } else if (input.box) {
    const ids = new Set(input.box.tracks);
    const x0 = xOf(scene, input.box.from);
    const width = xOf(scene, input.box.to) - x0;
    for (const placed of placedRows(scene))
      if (ids.has(placed.row.track.id)) rect(x0, placed.top, width, placed.row.height - 1);
  }
  if (input.zooming) {
    const x0 = xOf(scene, input.zooming.from);
    rect(x0, 0, xOf(scene, input.zooming.to) - x0, scene.height);
  }
}

function isBlank(scene: Scene, input: OverlayInput): boolean {
  const things = [input.highlights, input.hits, input.annotations, scene.lanes.filter((lane) => lane.tint)];
  const { selected, focused, marks, lit, box, drawing, zooming } = input;
  return (
    things.every((list) => list.length === 0) && !(selected || focused || marks || lit || box || drawing || zooming)
  );
}

/** While nothing is on it the layer is neither drawn nor shown: it would be copied and blended for each frame below it. */
export function drawOverlay(canvas: HTMLCanvasElement, scene: Scene, input: OverlayInput): void {
  const blank = isBlank(scene, input);
  if (blank && canvas.style.visibility === "hidden") return;
  const context = prepare(canvas, scene);
  canvas.style.visibility = blank ? "hidden" : "visible";
  if (blank) return;
  drawTints(context, scene);
  drawFound(context, scene, input);
  drawHighlights(context, scene, input);
  drawFocused(context, scene, input);
  drawBox(context, scene, input);
  drawAnnotations(context, scene, input);
}
