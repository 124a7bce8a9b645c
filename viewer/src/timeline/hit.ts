// What lies under the pointer, and where an event that is known by its key lies on the screen.

import type { Dependency, EventRef, Track } from "../api/types";
import { type EventData, rowsIn, type TimelineData } from "./data";
import { type PlacedRow, placedRows, rowAt, type Scene, timeOf, xOf } from "./scene";

export interface Hit {
  placed: PlacedRow;
  track: Track;
  data: EventData;
  index: number;
}

const REACH = 2;
/** So many rows are looked at for one pointer move; more lie under one pixel only when zoomed far out. */
const MAX_LOOKED = 20000;
/** What lies in another lane counts only where this one has nothing. */
const BESIDE = 1e18;

export function hitAt(scene: Scene, data: TimelineData, x: number, y: number): Hit | null {
  const placed = rowAt(scene, y);
  if (placed?.row.track.form !== "events") return null;
  const found = data.eventsOf(placed.row.track.id);
  if (!found) return null;
  const index = nearest(scene, found.data, x, (y - placed.top - 2) / Math.max(placed.row.height - 4, 1));
  return index < 0 ? null : { placed, track: placed.row.track, data: found.data, index };
}

/** The shortest event that covers the pointer's place, else the nearest within a pixel or two. */
function nearest(scene: Scene, data: EventData, x: number, share: number): number {
  const from = timeOf(scene, x - REACH);
  const to = timeOf(scene, x + REACH);
  const time = timeOf(scene, x);
  const lane = Math.min(Math.max(Math.floor(share * data.lanes), 0), data.lanes - 1);
  const [first, last] = rowsIn(data, from, to);
  let best = -1;
  let bestScore = Number.POSITIVE_INFINITY;
  for (let i = Math.max(first, last - MAX_LOOKED); i < last; i++) {
    if (data.end[i]! < from) continue;
    const beside = data.lane && data.lane[i] !== lane ? BESIDE : 0;
    const apart = Math.max(data.start[i]! - time, time - data.end[i]!, 0);
    const score = beside + apart * 1e6 + (data.end[i]! - data.start[i]!);
    if (score < bestScore) {
      bestScore = score;
      best = i;
    }
  }
  return best;
}

export function refOf(hit: Hit): EventRef | null {
  const id = hit.data.id[hit.index]!;
  return id < 0 || hit.track.table === null ? null : { table: hit.track.table, id };
}

/** The start or end of an event nearest to a time, within so many pixels; the time itself where there is none. */
export function snapped(
  scene: Scene,
  data: TimelineData,
  x: number,
  y: number,
  pixels = 8,
): { time: number; snapped: boolean } {
  const time = timeOf(scene, x);
  const from = timeOf(scene, x - pixels);
  const to = timeOf(scene, x + pixels);
  const under = rowAt(scene, y);
  const rows = under ? [under, ...placedRows(scene)] : placedRows(scene);
  let best: number | null = null;
  for (const placed of rows) {
    const found = data.eventsOf(placed.row.track.id);
    if (!found) continue;
    best = edge(found.data, from, to, time, best);
    if (best !== null && placed === under) break; // what the pointer is on wins over nearer edges elsewhere
  }
  return best === null ? { time: Math.round(time), snapped: false } : { time: best, snapped: true };
}

function edge(data: EventData, from: number, to: number, time: number, before: number | null): number | null {
  let best = before;
  const [first, last] = rowsIn(data, from, to);
  for (let i = Math.max(first, last - MAX_LOOKED); i < last; i++) {
    for (const at of [data.start[i]!, data.end[i]!]) {
      if (at < from || at > to) continue;
      if (best === null || Math.abs(at - time) < Math.abs(best - time)) best = at;
    }
  }
  return best;
}

export interface Place {
  x0: number;
  x1: number;
  top: number;
  height: number;
  clipTop: number;
  clipBottom: number;
}

/** An event that is known by its key, and by the tracks that show it where these are known. */
export type Known = EventRef & Pick<Dependency, "start_ts" | "end_ts"> & { tracks?: string[] };

function box(scene: Scene, placed: PlacedRow, start: number, end: number, lane: [number, number]): Place {
  const height = (placed.row.height - 4) / lane[1];
  const x0 = xOf(scene, Math.min(start, end));
  return {
    x0,
    x1: Math.max(xOf(scene, end), x0 + 1),
    top: placed.top + 2 + lane[0] * height,
    height,
    clipTop: placed.clipTop,
    clipBottom: placed.clipBottom,
  };
}

/** Its number among the events of a track that are drawn; -1: it is not among them, such as in a bucket of many. */
function indexIn(data: EventData, known: Known): number {
  const [first, last] = rowsIn(data, known.start_ts, known.end_ts);
  for (let i = first; i < last; i++) if (data.id[i] === known.id) return i;
  return -1;
}

/** Where an event is drawn: as that on its track, or in its place there among others that are one bucket. */
export function placesOf(scene: Scene, data: TimelineData, known: Known): Place[] {
  const rows = placedRows(scene);
  const named = rows.filter((placed) => known.tracks?.includes(placed.row.track.id));
  const out: Place[] = [];
  for (const placed of named.length > 0 ? named : rows) {
    const { track } = placed.row;
    if (track.table !== known.table) continue;
    const found = data.eventsOf(track.id)?.data;
    const i = found ? indexIn(found, known) : -1;
    // An instruction is where it works, not where it waits.
    if (found && i >= 0)
      out.push(
        box(scene, placed, found.start[i]! + (found.wait?.[i] ?? 0), found.end[i]!, [
          found.lane?.[i] ?? 0,
          found.lanes,
        ]),
      );
    else if (named.length > 0) out.push(box(scene, placed, known.start_ts, known.end_ts, [0, 1]));
  }
  return out;
}
