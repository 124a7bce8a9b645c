// The first and the last event of a track, and the one at a time: what keys go to.

import type { Column, PackedTrack } from "../api/packed";
import type { ProfileApi } from "../api/profile";
import type { EventRef, Range, Track } from "../api/types";
import type { Settings } from "./tracks";

const WIDTH = 512;
/** Each question narrows the window by that much; more of them than this means that something is odd. */
const MAX_ASKED = 12;

export interface Found extends EventRef {
  start_ts: number;
  end_ts: number;
  track: string;
}

type Api = Pick<ProfileApi, "timeline">;

/** A window that begins with the first event of what the buckets stand for, or ends with the last. */
function narrowed(row: PackedTrack, range: Range, last: boolean): Range | null {
  const bucket = row.columns.get("start");
  const first = row.columns.get("first");
  if (!bucket || !first || row.n === 0) return null;
  const i = last ? row.n - 1 : 0;
  const from = Math.max(last ? bucket[i]! : first[i]!, range.from);
  const to = Math.min(bucket[i]! + Math.max(row.bucketNs, 1), range.to);
  return to > from ? { from, to } : { from, to: from + 1 };
}

function eventAt(row: PackedTrack, track: Track, i: number): Found | null {
  const [start, end, id]: (Column | undefined)[] = ["start", "end", "id"].map((name) => row.columns.get(name));
  if (!start || !end || !id || track.table === null || id[i]! < 0) return null;
  return { table: track.table, id: id[i]!, start_ts: start[i]!, end_ts: end[i]!, track: track.id };
}

/** The first event of a track that begins in a range, or the last; null: there is none that has details. */
export async function endOf(
  api: Api,
  track: Track,
  settings: Settings,
  range: Range,
  last: boolean,
  signal: AbortSignal,
): Promise<Found | null> {
  if (track.form !== "events" || track.table === null) return null;
  let now: Range = { from: Math.floor(range.from), to: Math.ceil(range.to) + 1 };
  for (let asked = 0; asked < MAX_ASKED; asked++) {
    const ask = { ...now, width: WIDTH, groups: [], tracks: [track.id], dma: settings.dma, split: settings.split };
    const row = (await api.timeline(ask, signal)).tracks.find((other) => other.id === track.id);
    if (!row || row.n === 0) return null;
    if (row.mode === "events") {
      // What began before the window is in it too where it lasts into it.
      const start = row.columns.get("start")!;
      let i = last ? row.n - 1 : 0;
      while (!last && i < row.n && start[i]! < now.from) i++;
      return i < row.n && start[i]! >= now.from ? eventAt(row, track, i) : null;
    }
    const next = narrowed(row, now, last);
    if (!next || (next.from === now.from && next.to === now.to)) return null;
    now = next;
  }
  return null;
}
