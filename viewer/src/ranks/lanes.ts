// What lanes show: arrivals at collectives and how busy the rank is, asked for only where it is seen.

import type { Packed, PackedTrack } from "../api/packed";
import type { RanksApi } from "../api/ranks";
import type { Range } from "../api/types";
import { messageOf } from "../state/store";
import { clamped, span } from "../timeline/scale";
import { serves } from "../timeline/windows";

/** Members of one question. */
const CHUNK = 16;
const MAX_WIDTH = 8192;

export interface Arrivals {
  n: number;
  id: Float64Array;
  start: Float64Array;
  end: Float64Array;
  late: Float64Array;
  wait: Float64Array;
  /** -1: no bound. */
  error: Float64Array;
  last: Uint8Array;
  count: Uint32Array;
  operation: string[];
}

export interface Busy {
  n: number;
  start: Float64Array;
  length: Float64Array;
  share: Float64Array;
  engine: string[];
}

export interface Lane {
  range: Range;
  nsPerPixel: number;
  arrivals: Arrivals;
  busy: Busy;
}

function column(track: PackedTrack | undefined, name: string): Float64Array {
  return (track?.columns.get(name) as Float64Array | undefined) ?? new Float64Array(0);
}

function texts(track: PackedTrack | undefined, dict: string[]): string[] {
  const labels = track?.columns.get("label") as Uint32Array | undefined;
  return labels ? Array.from(labels, (at) => dict[at] ?? "") : [];
}

export function laneOf(packed: Packed, profile: string, nsPerPixel: number): Lane {
  const came = packed.tracks.find(({ id }) => id === `collective:${profile}`);
  const busy = packed.tracks.find(({ id }) => id === `busy:${profile}`);
  return {
    range: { from: packed.from, to: packed.to },
    nsPerPixel,
    arrivals: {
      n: came?.n ?? 0,
      id: column(came, "id"),
      start: column(came, "start"),
      end: column(came, "end"),
      late: column(came, "late"),
      wait: column(came, "wait"),
      error: column(came, "error"),
      last: (came?.columns.get("last") as Uint8Array | undefined) ?? new Uint8Array(0),
      count: (came?.columns.get("count") as Uint32Array | undefined) ?? new Uint32Array(0),
      operation: texts(came, packed.dict),
    },
    busy: {
      n: busy?.n ?? 0,
      start: column(busy, "start"),
      length: column(busy, "length"),
      share: column(busy, "share"),
      engine: texts(busy, packed.dict),
    },
  };
}

export class LanesData {
  private readonly lanes = new Map<string, Lane>();
  private abort: AbortController | null = null;
  private asked = "";
  private waiting = 0;

  constructor(
    private readonly api: RanksApi,
    private readonly extent: Range,
    private readonly changed: () => void,
    private readonly failed: (message: string | null) => void,
  ) {}

  laneOf(profile: string): Lane | null {
    return this.lanes.get(profile) ?? null;
  }

  get busy(): boolean {
    return this.waiting > 0;
  }

  /** Asks for those of these members that lack what the view needs; what is under way for another view is given up. */
  need(view: Range, width: number, profiles: string[]): void {
    if (width < 1) return;
    const nsPerPixel = span(view) / width;
    const missing = profiles.filter((name) => {
      const lane = this.lanes.get(name);
      return !lane || !serves({ ...lane.range, nsPerPixel: lane.nsPerPixel, exact: false }, view, nsPerPixel);
    });
    const key = JSON.stringify([missing, Math.round(Math.log2(nsPerPixel) * 2), missing.length && view.from]);
    if (missing.length === 0 || key === this.asked) return;
    this.asked = key;
    this.ask(view, width, missing);
  }

  private ask(view: Range, width: number, profiles: string[]): void {
    this.abort?.abort();
    const mine = new AbortController();
    this.abort = mine;
    this.failed(null);
    const half = span(view) / 2;
    const wide = clamped({ from: view.from - half, to: view.to + half }, this.extent);
    const range = {
      from: Math.floor(Math.min(wide.from, view.from)),
      to: Math.ceil(Math.max(wide.to, view.to)),
    };
    const pixels = Math.min(Math.max(Math.ceil((width * span(range)) / span(view)), 1), MAX_WIDTH);
    const chunks = Array.from({ length: Math.ceil(profiles.length / CHUNK) }, (_, i) =>
      profiles.slice(i * CHUNK, (i + 1) * CHUNK),
    );
    this.waiting = chunks.length;
    for (const chunk of chunks)
      this.api
        .lanes(range, pixels, chunk, mine.signal)
        .then((packed) => {
          for (const name of chunk) this.lanes.set(name, laneOf(packed, name, span(range) / pixels));
        })
        .catch((error: unknown) => {
          if (this.abort !== mine) return;
          this.asked = "";
          this.failed(messageOf(error));
        })
        .finally(() => {
          if (this.abort !== mine) return;
          this.waiting--;
          this.changed();
        });
    this.changed();
  }

  close(): void {
    this.abort?.abort();
    this.abort = null;
  }
}
