// What is drawn: windows of events and series from the server, and which part of them a view needs.

import { Latest } from "../api/client";
import type { Column, Packed, PackedTrack } from "../api/packed";
import type { ProfileApi } from "../api/profile";
import type { Range } from "../api/types";
import { messageOf } from "../state/store";
import { clamped, padded, span } from "./scale";
import type { Settings } from "./tracks";

export interface EventData {
  exact: boolean;
  n: number;
  start: Float64Array;
  end: Float64Array;
  /** Running maximum of end: with the order by start it finds a window by halving. */
  reach: Float64Array;
  id: Float64Array;
  label: Uint32Array;
  color: Uint32Array;
  bytes: Float64Array | null;
  wait: Float64Array | null;
  count: Uint32Array | null;
  busy: Float64Array | null;
  longest: Float64Array | null;
  /** Of a packet: the transfer that it belongs to. */
  transfer: Float64Array | null;
  lane: Uint8Array | null;
  lanes: number;
  dict: string[];
}

export interface SeriesData {
  n: number;
  at: Float64Array;
  min: Float64Array;
  max: Float64Array;
  last: Float64Array;
  parts: { name: string; last: Float64Array }[];
  step: number;
  top: number;
}

export interface WindowData {
  range: Range;
  nsPerPixel: number;
  exact: boolean;
  events: Map<string, EventData>;
  series: Map<string, SeriesData>;
}

const MAX_LANES = 4;
const MAX_WIDTH = 16384;

function f64(track: PackedTrack, name: string): Float64Array | null {
  const column = track.columns.get(name);
  return column instanceof Float64Array ? column : null;
}

function u32(track: PackedTrack, name: string): Uint32Array | null {
  const column: Column | undefined = track.columns.get(name);
  return column instanceof Uint32Array ? column : null;
}

/** Overlapping events get lanes, so that none lies under another; null when nothing overlaps. */
export function lanesOf(start: Float64Array, end: Float64Array): { lane: Uint8Array; lanes: number } | null {
  const free = new Float64Array(MAX_LANES).fill(Number.NEGATIVE_INFINITY);
  const lane = new Uint8Array(start.length);
  let lanes = 1;
  for (let i = 0; i < start.length; i++) {
    let chosen = 0;
    while (chosen < MAX_LANES - 1 && free[chosen]! > start[i]!) chosen++;
    lane[i] = chosen;
    free[chosen] = Math.max(free[chosen]!, end[i]!);
    lanes = Math.max(lanes, chosen + 1);
  }
  return lanes > 1 ? { lane, lanes } : null;
}

export function eventData(track: PackedTrack, dict: string[]): EventData {
  const exact = track.mode === "events";
  const start = f64(track, exact ? "start" : "first") ?? new Float64Array(track.n);
  const end = f64(track, exact ? "end" : "last") ?? start;
  const reach = new Float64Array(track.n);
  let most = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < track.n; i++) reach[i] = most = Math.max(most, end[i]!);
  const lanes = exact ? lanesOf(start, end) : null;
  return {
    exact,
    n: track.n,
    start,
    end,
    reach,
    id: f64(track, "id") ?? new Float64Array(track.n).fill(-1),
    label: u32(track, "label") ?? new Uint32Array(track.n),
    color: u32(track, "color") ?? new Uint32Array(track.n),
    bytes: f64(track, "bytes"),
    wait: f64(track, "wait"),
    count: u32(track, "count"),
    busy: f64(track, "busy"),
    longest: f64(track, "longest"),
    transfer: f64(track, "transfer"),
    lane: lanes?.lane ?? null,
    lanes: lanes?.lanes ?? 1,
    dict,
  };
}

export function seriesData(track: PackedTrack, packed: Packed): SeriesData {
  const column = u32(track, "column") ?? new Uint32Array(0);
  const step = (packed.to - packed.from) / Math.max(packed.width, 1);
  const at = Float64Array.from(column, (c) => packed.from + c * step);
  const empty = new Float64Array(track.n);
  const max = f64(track, "max") ?? empty;
  const parts = [...track.columns.keys()]
    .filter((name) => name.startsWith("last."))
    .map((name) => ({ name: name.slice(5), last: f64(track, name) ?? empty }));
  let top = 0;
  for (const value of max) top = Math.max(top, value);
  return { n: track.n, at, min: f64(track, "min") ?? empty, max, last: f64(track, "last") ?? empty, parts, step, top };
}

/** The rows of an event track that lie in a window: [first, behind the last). */
export function rowsIn(data: EventData, from: number, to: number): [number, number] {
  let low = 0;
  let high = data.n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (data.reach[middle]! < from) low = middle + 1;
    else high = middle;
  }
  const first = low;
  high = data.n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (data.start[middle]! <= to) low = middle + 1;
    else high = middle;
  }
  return [first, low];
}

/** Is a window good for this view: does it hold it all, and at least at its resolution? */
export function serves(
  window: Range & { nsPerPixel: number; exact: boolean },
  view: Range,
  nsPerPixel: number,
): boolean {
  if (window.from > view.from || window.to < view.to) return false;
  if (window.exact) return true;
  return window.nsPerPixel <= nsPerPixel * 1.01 && window.nsPerPixel >= nsPerPixel / 6;
}

interface Part {
  name: string;
  groups: string[];
  form: "events" | "series";
  latest: Latest;
  asked: (Range & { nsPerPixel: number; exact: boolean }) | null;
  current: WindowData | null;
  base: WindowData | null;
}

/** Asked for apart, so that the engines are there before hundreds of DMA queues are. */
function partsOf(groups: { group: string; form: "events" | "series" }[]): Part[] {
  const names = new Map<string, Part>();
  for (const { group, form } of groups) {
    const name = form === "series" ? "series" : group === "engine" || group === "dma" ? group : "others";
    const part = names.get(name) ?? {
      name,
      groups: [],
      form,
      latest: new Latest(),
      asked: null,
      current: null,
      base: null,
    };
    if (!part.groups.includes(group)) part.groups.push(group);
    names.set(name, part);
  }
  return [...names.values()];
}

export class TimelineData {
  private parts: Part[] = [];
  private key = "";
  private dead = false;

  constructor(
    private readonly api: ProfileApi,
    private readonly extent: Range,
    private readonly changed: () => void,
    private readonly failed: (message: string | null) => void,
  ) {}

  /** What is shown changed: parts with other groups or settings begin anew; the rest keep what they have. */
  configure(groups: { group: string; form: "events" | "series" }[], settings: Settings): void {
    const key = JSON.stringify([groups.map((g) => g.group + g.form).sort(), settings.dma, settings.split]);
    if (key === this.key) return;
    this.key = key;
    const old = this.parts;
    this.parts = partsOf(groups);
    for (const part of this.parts) {
      const before = old.find((other) => other.name === part.name);
      if (before) {
        before.latest.cancel();
        part.current = before.current;
        part.base = before.base;
      }
      part.asked = null;
    }
    for (const part of old) if (!this.parts.some((other) => other.name === part.name)) part.latest.cancel();
    this.stale = true;
  }

  private stale = false;

  /** Asks for what a view lacks. */
  need(view: Range, width: number, settings: Settings): void {
    if (width < 1 || this.dead) return;
    const nsPerPixel = span(view) / width;
    for (const part of this.parts) {
      if (part.asked && serves(part.asked, view, nsPerPixel)) continue;
      this.ask(part, view, width, settings);
    }
    this.stale = false;
  }

  private ask(part: Part, view: Range, width: number, settings: Settings): void {
    const length = span(view);
    const wide = clamped({ from: view.from - length / 2, to: view.to + length / 2 }, this.extent);
    const bounds = padded(this.extent);
    const range = {
      from: Math.floor(Math.max(Math.min(wide.from, view.from), bounds.from)),
      to: Math.ceil(Math.min(Math.max(wide.to, view.to), bounds.to)),
    };
    const pixels = Math.min(Math.max(Math.ceil((width * span(range)) / length), 1), MAX_WIDTH);
    const asked = { ...range, nsPerPixel: span(range) / pixels, exact: false };
    part.asked = asked;
    const ask = { ...range, width: pixels, groups: part.groups };
    part.latest
      .run((signal) =>
        part.form === "series"
          ? this.api.series(ask, signal)
          : this.api.timeline({ ...ask, dma: settings.dma, split: settings.split }, signal),
      )
      .then((packed) => {
        if (!packed || this.dead) return;
        this.take(part, packed, range, asked);
        this.failed(null);
      })
      .catch((error: unknown) => {
        if (part.asked === asked) part.asked = null;
        if (!this.dead) this.failed(messageOf(error));
      });
  }

  private take(part: Part, packed: Packed, range: Range, asked: { nsPerPixel: number; exact: boolean }): void {
    const events = new Map<string, EventData>();
    const series = new Map<string, SeriesData>();
    let exact = part.form === "events";
    for (const track of packed.tracks) {
      if (track.mode === "series") series.set(track.id, seriesData(track, packed));
      else {
        events.set(track.id, eventData(track, packed.dict));
        if (track.mode !== "events") exact = false;
      }
    }
    asked.exact = exact;
    part.current = { range, nsPerPixel: asked.nsPerPixel, exact, events, series };
    if (range.from <= this.extent.from && range.to >= this.extent.to) part.base = part.current;
    this.changed();
  }

  get busy(): boolean {
    return this.parts.some((part) => part.latest.busy) || this.stale;
  }

  private windows(): WindowData[] {
    return this.parts.flatMap((part) => (part.current ? [part.current] : []));
  }

  /** The newest window that has the track, and the whole profile's as far as that was ever loaded. */
  eventsOf(id: string): { data: EventData; range: Range } | null {
    for (const window of this.windows()) {
      const data = window.events.get(id);
      if (data) return { data, range: window.range };
    }
    return null;
  }

  baseOf(id: string): EventData | null {
    for (const part of this.parts) {
      const data = part.base !== part.current && part.base?.events.get(id);
      if (data) return data;
    }
    return null;
  }

  seriesOf(id: string): SeriesData | null {
    for (const window of this.windows()) {
      const data = window.series.get(id);
      if (data) return data;
    }
    return null;
  }

  close(): void {
    this.dead = true;
    for (const part of this.parts) part.latest.cancel();
  }
}
