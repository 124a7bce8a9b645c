// Which tracks are shown, in which order and how high. What the user arranged holds for every profile that has such tracks.

import type { DmaMode, Track } from "../api/types";

export interface Settings {
  dma: DmaMode;
  split: boolean;
  bands: boolean;
  waits: boolean;
}

export interface TrackPrefs {
  order: string[];
  pinned: string[];
  hidden: string[];
  /** Tracks of groups that are hidden by themselves, but wanted. */
  shown: string[];
  heights: Record<string, number>;
}

export const DEFAULT_SETTINGS: Settings = { dma: "engine", split: false, bands: true, waits: true };
export const NO_PREFS: TrackPrefs = { order: [], pinned: [], hidden: [], shown: [], heights: {} };

/** The three modes, by the names that the vendor's viewer gives them. */
export const DMA_MODES: { mode: DmaMode; name: string; means: string }[] = [
  {
    mode: "engine",
    name: "Non-aggregated and group by engine",
    means: "One track per DMA engine. Each event is a single DMA packet.",
  },
  {
    mode: "queue",
    name: "Non-aggregated",
    means: "One track per DMA queue on each engine. Each event is a single DMA packet.",
  },
  {
    mode: "aggregated",
    name: "Aggregated",
    means:
      "One track per DMA queue. Each event is a whole DMA transfer, from its first packet's start to its last one's end.",
  },
];

export const GROUP_NAMES: Record<string, string> = {
  engine: "Engines",
  flops: "FLOPs utilization",
  dma: "DMA",
  throughput: "DMA and HBM throughput",
  host_dma: "Host-device DMA",
  collective: "Collectives",
  memory: "On-chip memory",
  pending: "Pending DMA",
  semaphore: "Semaphores",
  throttle: "Throttling",
  error: "Errors",
};

/** Hundreds of them, of use to few: shown on request. */
const HIDDEN_GROUPS = new Set(["semaphore"]);

export const MIN_HEIGHT = 12;
export const MAX_HEIGHT = 240;
export const GROUP_GAP = 5;

export interface Row {
  track: Track;
  y: number;
  height: number;
}

export interface Rows {
  pinned: Row[];
  rest: Row[];
  pinnedHeight: number;
  restHeight: number;
}

export function matches(track: Track, settings: Settings): boolean {
  if (track.dma !== null && track.dma !== settings.dma) return false;
  if (track.split === null) return true;
  return settings.split ? track.split !== "joined" : track.split === "joined";
}

export function isHidden(track: Track, prefs: TrackPrefs): boolean {
  if (prefs.pinned.includes(track.id)) return false;
  if (HIDDEN_GROUPS.has(track.group)) return !prefs.shown.includes(track.id);
  return prefs.hidden.includes(track.id);
}

export function setHidden(prefs: TrackPrefs, tracks: Track[], hide: boolean): TrackPrefs {
  const ids = new Set(tracks.map((track) => track.id));
  const quiet = new Set(tracks.filter((track) => HIDDEN_GROUPS.has(track.group)).map((track) => track.id));
  const hidden = prefs.hidden.filter((id) => !ids.has(id));
  const shown = prefs.shown.filter((id) => !ids.has(id));
  for (const id of ids) {
    if (hide && !quiet.has(id)) hidden.push(id);
    if (!hide && quiet.has(id)) shown.push(id);
  }
  return { ...prefs, hidden, shown, pinned: hide ? prefs.pinned.filter((id) => !ids.has(id)) : prefs.pinned };
}

export function setPinned(prefs: TrackPrefs, id: string, pin: boolean): TrackPrefs {
  const pinned = prefs.pinned.filter((other) => other !== id);
  return { ...prefs, pinned: pin ? [...pinned, id] : pinned };
}

export function setHeight(prefs: TrackPrefs, id: string, height: number): TrackPrefs {
  const bounded = Math.round(Math.min(Math.max(height, MIN_HEIGHT), MAX_HEIGHT));
  return { ...prefs, heights: { ...prefs.heights, [id]: bounded } };
}

/** The tracks in the user's order; those that the order does not know stand behind the one that they follow by nature. */
export function arranged(tracks: Track[], order: string[]): Track[] {
  if (order.length === 0) return tracks;
  const byId = new Map(tracks.map((track) => [track.id, track]));
  const out = order.flatMap((id) => byId.get(id) ?? []);
  const placed = new Set(out);
  tracks.forEach((track, i) => {
    if (placed.has(track)) return;
    const before = tracks[i - 1];
    out.splice(before ? out.indexOf(before) + 1 : 0, 0, track);
    placed.add(track);
  });
  return out;
}

/** Puts a track where another one stands: before it when moving up, behind it when moving down. */
export function moved(prefs: TrackPrefs, tracks: Track[], id: string, target: string): TrackPrefs {
  if (id === target) return prefs;
  if (prefs.pinned.includes(id) && prefs.pinned.includes(target))
    return { ...prefs, pinned: movedTo(prefs.pinned, id, target) };
  const order = arranged(tracks, prefs.order).map((track) => track.id);
  return { ...prefs, order: movedTo(order, id, target) };
}

function movedTo(list: string[], id: string, target: string): string[] {
  const from = list.indexOf(id);
  const to = list.indexOf(target);
  if (from < 0 || to < 0) return list;
  const out = list.filter((other) => other !== id);
  out.splice(out.indexOf(target) + (from < to ? 1 : 0), 0, id);
  return out;
}

export function defaultHeight(track: Track): number {
  if (track.absent !== null) return 20;
  if (track.form === "series") return 40;
  if (track.group === "engine") return 24;
  if (track.group === "dma") return track.dma === "aggregated" ? 26 : 16;
  return 20;
}

/** Pinned tracks take at most `room` pixels: what does not fit stands with the others, which have to be reached too. */
export function layoutRows(
  tracks: Track[],
  settings: Settings,
  prefs: TrackPrefs,
  room = Number.POSITIVE_INFINITY,
): Rows {
  const wanted = arranged(tracks, prefs.order).filter((track) => matches(track, settings) && !isHidden(track, prefs));
  const pinnedTracks = prefs.pinned.flatMap((id) => wanted.find((track) => track.id === id) ?? []);
  const place = (list: Track[]) => {
    let y = 0;
    let group = list[0]?.group;
    const rows = list.map((track) => {
      if (track.group !== group) y += GROUP_GAP;
      group = track.group;
      const row = { track, y, height: prefs.heights[track.id] ?? defaultHeight(track) };
      y += row.height;
      return row;
    });
    return { rows, height: y };
  };
  const placed = place(pinnedTracks);
  const pinned = placed.rows.filter(({ y, height }) => y + height <= room);
  const isPinned = new Set(pinned.map(({ track }) => track));
  const rest = place(wanted.filter((track) => !isPinned.has(track)));
  const last = pinned[pinned.length - 1];
  return { pinned, rest: rest.rows, pinnedHeight: last ? last.y + last.height : 0, restHeight: rest.height };
}
