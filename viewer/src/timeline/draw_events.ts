// Events on their tracks. What is narrower than a few pixels goes into one line of coverage per track, so that a million events cost
// what their pixels cost and none of them vanishes; wider ones are drawn as boxes with their names.

import type { Range } from "../api/types";
import { ColorTable, colorOf, css, isLight } from "./color";
import { type EventData, rowsIn } from "./data";
import { fitted } from "./draw_text";
import { span } from "./scale";
import { FONT, type PlacedRow, type Scene } from "./scene";

const WIDE = 3;
const TEXT_WIDTH = 30;
/** However little of a pixel an event covers, it is seen. */
const FAINTEST = 0.42;

/** How many events were drawn, and how: for the tests. */
export interface DrawCount {
  wide: number;
  narrow: number;
}

/** A line of pixels for each row, in one image: it goes to the canvas in one piece, and from there into each row's height. */
export class Coverage {
  private cover = new Float32Array(0);
  private most = new Float32Array(0);
  private color = new Uint32Array(0);
  private image: ImageData | null = null;
  private pixels = new Uint32Array(0);
  private readonly canvas = document.createElement("canvas");
  private readonly filled: boolean[] = [];
  private width = 0;

  begin(width: number, rows: number): void {
    this.filled.length = 0;
    if (width === this.width && rows <= this.canvas.height && this.image) return;
    this.width = width;
    this.cover = new Float32Array(width);
    this.most = new Float32Array(width);
    this.color = new Uint32Array(width);
    this.canvas.width = Math.max(width, 1);
    this.canvas.height = Math.max(rows, 1);
    this.image = new ImageData(this.canvas.width, this.canvas.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  /** From x0 to x1 (device pixels) something of this colour, a pixel of a ColorTable, covers so much of each pixel. */
  add(x0: number, x1: number, density: number, color: number): void {
    const first = Math.max(Math.floor(x0), 0);
    const last = Math.min(Math.max(Math.ceil(x1) - 1, Math.floor(x0)), this.width - 1);
    for (let x = first; x <= last; x++) {
      const part = Math.max((Math.min(x1, x + 1) - Math.max(x0, x)) * density, 0.001);
      this.cover[x]! += part;
      if (part > this.most[x]!) {
        this.most[x] = part;
        this.color[x] = color;
      }
    }
  }

  /** What was added since the last line becomes the next one; returns its number. */
  line(): number {
    const row = this.filled.length;
    let any = false;
    for (let x = 0, at = row * this.width; x < this.width; x++, at++) {
      const cover = this.cover[x]!;
      if (cover === 0) {
        this.pixels[at] = 0;
        continue;
      }
      any = true;
      const alpha = 255 * (FAINTEST + (1 - FAINTEST) * Math.min(cover, 1));
      this.pixels[at] = this.color[x]! | (Math.round(alpha) << 24);
    }
    if (any) {
      this.cover.fill(0);
      this.most.fill(0);
    }
    this.filled.push(any);
    return row;
  }

  /** All lines are there. */
  end(): void {
    const rows = this.filled.length;
    if (this.filled.includes(true))
      this.canvas.getContext("2d")!.putImageData(this.image!, 0, 0, 0, 0, this.width, rows);
  }

  draw(context: CanvasRenderingContext2D, row: number, y: number, height: number): void {
    if (this.filled[row]) context.drawImage(this.canvas, 0, row, this.width, 1, 0, y, this.width, height);
  }
}

interface Wide {
  index: number;
  x0: number;
  x1: number;
}

function density(data: EventData, i: number): number {
  if (!data.busy || !data.count || data.count[i] === 1) return 1;
  const length = data.end[i]! - data.start[i]!;
  return length > 0 ? Math.min(data.busy[i]! / length, 1) : 1;
}

/** Events that are drawn from one time to another; beside that others are. */
export interface Piece extends Range {
  data: EventData;
}

/**
 * What is drawn of a track: its window, and beside that, while the window for this view is on its way, what is known of the whole
 * profile.
 */
export function piecesOf(
  view: Range,
  found: { data: EventData; range: Range } | null,
  base: EventData | null,
): Piece[] {
  const from = Math.max(found?.range.from ?? view.to, view.from);
  const to = Math.min(found?.range.to ?? view.to, view.to);
  if (!base || (found && from === view.from && to === view.to)) return found ? [{ ...view, data: found.data }] : [];
  if (!found || from >= to) return [{ ...view, data: base }];
  const all = [
    { from: view.from, to: from, data: base },
    { from: to, to: view.to, data: base },
    { from, to, data: found.data },
  ];
  return all.filter((piece) => piece.from < piece.to);
}

/** Sorts the events of a piece into narrow ones, which it adds to the coverage, and wide ones, which it returns. */
function sortOut(scene: Scene, { data, from, to }: Piece, coverage: Coverage, count: DrawCount): Wide[] {
  const perNs = (scene.width * scene.ratio) / span(scene.view);
  const ends = [(from - scene.view.from) * perNs, (to - scene.view.from) * perNs] as const;
  const wideAt = WIDE * scene.ratio;
  const colors = new ColorTable(data.dict);
  const [first, last] = rowsIn(data, from, to);
  const wide: Wide[] = [];
  for (let i = first; i < last; i++) {
    const x0 = (data.start[i]! - scene.view.from) * perNs;
    const x1 = (data.end[i]! - scene.view.from) * perNs;
    const single = data.exact || data.count?.[i] === 1;
    if (single && x1 - x0 >= wideAt) wide.push({ index: i, x0, x1 });
    else if (x1 >= ends[0] && x0 <= ends[1])
      coverage.add(Math.max(x0, ends[0]), Math.min(x1, ends[1]), density(data, i), colors.pixel(data.color[i]!));
  }
  count.wide += wide.length;
  count.narrow += last - first - wide.length;
  return wide;
}

function drawWide(
  context: CanvasRenderingContext2D,
  scene: Scene,
  data: EventData,
  wide: Wide[],
  top: number,
  height: number,
  waits: boolean,
): void {
  const { ratio } = scene;
  const perNs = (scene.width * ratio) / span(scene.view);
  const laneHeight = height / data.lanes;
  const font = FONT.replace("11px", `${Math.round(11 * ratio)}px`);
  context.font = font;
  context.textBaseline = "middle";
  for (const { index, x0, x1 } of wide) {
    const color = colorOf(data.dict[data.color[index]!] ?? "");
    const left = Math.max(x0, -4);
    const right = Math.min(x1, scene.width * ratio + 4);
    const y = top + (data.lane?.[index] ?? 0) * laneHeight;
    const gap = right - left > 5 * ratio ? ratio : 0;
    const tall = laneHeight - (data.lanes > 1 ? ratio : 0);
    const wait = waits && data.wait ? Math.min(data.wait[index]! * perNs, x1 - x0) : 0;
    const work = Math.max(x0 + wait, left);
    if (work > left) {
      // The part in which the instruction only waits.
      context.fillStyle = css(color, scene.theme.dark ? 0.28 : 0.3);
      context.fillRect(left, y + tall * 0.3, Math.min(work, right) - left, tall * 0.4);
    }
    context.fillStyle = css(color);
    if (right > work) context.fillRect(work, y, Math.max(right - work - gap, ratio), tall);
    drawName(context, data.dict[data.label[index]!] ?? "", { x: work, width: right - work, y, tall }, isLight(color), {
      font,
      ratio,
    });
  }
}

function drawName(
  context: CanvasRenderingContext2D,
  name: string,
  box: { x: number; width: number; y: number; tall: number },
  light: boolean,
  { font, ratio }: { font: string; ratio: number },
): void {
  if (box.width < TEXT_WIDTH * ratio || box.tall < 10 * ratio) return;
  const text = fitted(context, font, name, box.width - 7 * ratio);
  if (text === "") return;
  context.fillStyle = light ? "#10151a" : "#ffffff";
  context.fillText(text, box.x + 4 * ratio, box.y + box.tall / 2 + ratio / 2);
}

/** The events of a row, ready to be drawn. */
export interface SortedEvents {
  wide: { data: EventData; events: Wide[] }[];
  line: number;
}

export function sortEvents(scene: Scene, pieces: Piece[], coverage: Coverage, count: DrawCount): SortedEvents {
  const wide = pieces.map((piece) => ({ data: piece.data, events: sortOut(scene, piece, coverage, count) }));
  return { wide: wide.filter(({ events }) => events.length > 0), line: coverage.line() };
}

export function drawEvents(
  context: CanvasRenderingContext2D,
  scene: Scene,
  placed: PlacedRow,
  { wide, line }: SortedEvents,
  coverage: Coverage,
  waits: boolean,
): void {
  const { ratio } = scene;
  const top = Math.round((placed.top + 2) * ratio);
  const height = Math.max(Math.round((placed.row.height - 4) * ratio), ratio);
  context.imageSmoothingEnabled = false;
  coverage.draw(context, line, top, height);
  for (const { data, events } of wide) drawWide(context, scene, data, events, top, height, waits);
}
