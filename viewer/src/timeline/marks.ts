// Marks of many events on one track: where single ones are, and how dense they lie where a pixel holds several.

import type { PackedTrack } from "../api/packed";
import type { Range } from "../api/types";

/** A match narrower than this is a strip: borders of many would hide what they mark. */
export const BORDERED = 6;
/** One that has nothing so many pixels around it stands alone, and has a border however narrow it is. */
const ALONE = 4;

export interface MarkShape {
  /** Wide enough for a border of their own: [x0, x1]. */
  boxes: [number, number][];
  /** Pixel columns of narrow ones, in order: first, behind the last, how many in the fullest of them. */
  strips: { x0: number; x1: number; count: number; alone: boolean }[];
}

/** How many narrow marks begin in each pixel column, at least 1 where one reaches to; wide ones go to boxes. */
function columnsOf(track: PackedTrack, view: Range, width: number, boxes: [number, number][]): Uint32Array {
  const columns = new Uint32Array(Math.max(Math.ceil(width), 1));
  const reached = new Uint8Array(columns.length);
  const start = track.columns.get("start");
  const end = track.columns.get("end");
  const counts = track.columns.get("count");
  if (!start || !end) return columns;
  const perNs = width / (view.to - view.from);
  for (let i = 0; i < track.n; i++) {
    const x0 = (start[i]! - view.from) * perNs;
    const x1 = (end[i]! - view.from) * perNs;
    if (x1 < 0 || x0 >= width) continue;
    const count = counts?.[i] || 1;
    if (x1 - x0 >= BORDERED && count === 1) {
      boxes.push([x0, x1]);
      continue;
    }
    const first = Math.max(Math.floor(x0), 0);
    columns[first]! += count;
    reached.fill(1, first, Math.min(Math.ceil(x1), columns.length));
  }
  for (let x = 0; x < columns.length; x++) columns[x] = Math.max(columns[x]!, reached[x]!);
  return columns;
}

export function markShape(track: PackedTrack, view: Range, width: number): MarkShape {
  const boxes: [number, number][] = [];
  const columns = columnsOf(track, view, width, boxes);
  const strips: MarkShape["strips"] = [];
  let filled = Number.NEGATIVE_INFINITY; // behind the last column that has something
  for (let x = 0; x < columns.length; ) {
    const count = columns[x]!;
    let behind = x + 1;
    while (behind < columns.length && columns[behind] === count) behind++;
    if (count > 0) {
      const before = strips[strips.length - 1];
      const apart = x - filled >= ALONE;
      if (before && !apart) before.alone = false;
      strips.push({ x0: x, x1: behind, count, alone: apart && behind - x < BORDERED });
      filled = behind;
    }
    x = behind;
  }
  return { boxes, strips };
}

/** The height of a strip for so many, of the one that stands for most: 0 to 1, by powers. */
export function stripShare(count: number, most: number): number {
  return most <= 1 ? 0 : Math.log(count) / Math.log(most);
}
