// What is drawn: windows of events and series from the server. Asked first is what is seen: the rows in sight, and little more than the
// view. Rows out of sight and the view's surroundings are asked when it rests, so that a pan or a scroll finds them there.

import { Latest } from "../api/client";
import type { Column, Packed, PackedTrack } from "../api/packed";
import type { ProfileApi } from "../api/profile";
import type { Range } from "../api/types";
import { messageOf } from "../state/store";
import { padded, span } from "./scale";
import type { Settings } from "./tracks";
import { best, hasTrack, kept, lacking, type Sight, serves, type Window, widened } from "./windows";

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

/** What was asked for, and the samples in it. */
export interface SeriesData extends Range {
  n: number;
  at: Float64Array;
  min: Float64Array;
  max: Float64Array;
  last: Float64Array;
  parts: { name: string; last: Float64Array }[];
  step: number;
  top: number;
}

export interface WindowData extends Window {
  events: Map<string, EventData>;
  series: Map<string, SeriesData>;
}

const MAX_LANES = 4;
const MAX_WIDTH = 16384;
/** Asked beside the view, as shares of it: at once; ahead of a view that is moving; on both sides when it rests. */
const NEAR = 1 / 16;
const WIDE = 1 / 2;
/** So much must be there beside a view that rests. */
const LEAST = 1 / 4;
const REST_MS = 700;
/** A view that changed so lately is moving. */
const MOTION_MS = 120;
/** More than these are asked by their groups: an address has its limits. */
const MAX_NAMED = 200;

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
  const last = f64(track, "last") ?? empty;
  const { from, to } = packed;
  return { from, to, n: track.n, at, min: f64(track, "min") ?? empty, max, last, parts, step, top };
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

/** A track that is shown, or would be further up or down. */
export interface ShownTrack {
  id: string;
  group: string;
  form: "events" | "series";
}

interface Part {
  name: string;
  groups: string[];
  form: "events" | "series";
  ids: Set<string>;
  /** For what is seen, and for all around it; what each of them has asked last. */
  near: Latest;
  wide: Latest;
  asked: { near: Window | null; wide: Window | null };
  windows: WindowData[];
  /** Of the whole profile, as far as it was ever loaded. */
  base: Map<string, EventData>;
  failed: boolean;
}

function newPart(name: string, form: "events" | "series"): Part {
  const asked = { near: null, wide: null };
  const latest = { near: new Latest(), wide: new Latest() };
  return { name, form, groups: [], ids: new Set(), ...latest, asked, windows: [], base: new Map(), failed: false };
}

/** Asked for apart, so that the engines are there before hundreds of DMA queues are. */
function partsOf(tracks: ShownTrack[]): Part[] {
  const parts = new Map<string, Part>();
  for (const { id, group, form } of tracks) {
    const name = form === "series" ? "series" : group === "engine" || group === "dma" ? group : "others";
    const part = parts.get(name) ?? newPart(name, form);
    if (!part.groups.includes(group)) part.groups.push(group);
    part.ids.add(id);
    parts.set(name, part);
  }
  return [...parts.values()];
}

function windowOf(packed: Packed, asked: Window, form: "events" | "series"): WindowData {
  const events = new Map<string, EventData>();
  const series = new Map<string, SeriesData>();
  let exact = form === "events";
  for (const track of packed.tracks) {
    if (track.mode === "series") series.set(track.id, seriesData(track, packed));
    else {
      events.set(track.id, eventData(track, packed.dict));
      if (track.mode !== "events") exact = false;
    }
  }
  return { ...asked, exact, events, series };
}

export class TimelineData {
  private parts: Part[] = [];
  private key = "";
  private dead = false;
  private stale = false;
  private sight: Sight | null = null;
  private shown: string[] = [];
  private moved = { at: Number.NEGATIVE_INFINITY, by: 0, moving: false };
  private resting: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly api: ProfileApi,
    private readonly extent: Range,
    private readonly changed: () => void,
    private readonly failed: (message: string | null) => void,
  ) {}

  /** What is shown changed: with other groups or settings all is asked anew, and what is there is drawn until that comes. */
  configure(tracks: ShownTrack[], settings: Settings): void {
    const groups = new Set(tracks.map(({ group, form }) => group + form));
    const key = JSON.stringify([[...groups].sort(), settings.dma, settings.split]);
    const old = this.parts;
    const same = key === this.key;
    this.key = key;
    this.parts = partsOf(tracks).map((part) => {
      const before = old.find((other) => other.name === part.name);
      if (!before) return part;
      if (same) return Object.assign(before, { ids: part.ids });
      const windows = before.windows.map((window) => ({ ...window, tracks: new Set<string>() }));
      return { ...part, windows, base: before.base };
    });
    for (const part of old) if (!this.parts.includes(part)) giveUp(part);
    if (!same) this.stale = true;
  }

  /** What is seen now; `need` asks for it. */
  look(view: Range, width: number, shown: string[]): void {
    this.shown = shown;
    if (width < 1) return;
    // Wider than half of what can be asked, with its surroundings, no screen is.
    const nsPerPixel = span(view) / Math.min(width, MAX_WIDTH / 2);
    const before = this.sight;
    this.sight = { view, nsPerPixel };
    if (!before || (before.view.from === view.from && before.view.to === view.to)) return;
    const now = performance.now();
    const pan = Math.abs(span(before.view) / span(view) - 1) < 1e-6;
    this.moved = { at: now, by: view.from - before.view.from, moving: pan && now - this.moved.at < MOTION_MS };
  }

  /** Asks for what is seen and not there. */
  need(settings: Settings): void {
    if (!this.sight || this.dead) return;
    for (const part of this.parts) {
      if (part.wide.busy && !this.awaits(part, "wide", [])) part.wide.cancel();
      const lacks = this.lacks(part);
      if (lacks.length === 0) part.near.cancel();
      else if (!this.awaits(part, "near", lacks) && !this.awaits(part, "wide", lacks)) this.askNear(part, settings);
    }
    this.stale = false;
    this.rest(settings);
  }

  private lacks(part: Part): string[] {
    const ids = this.shown.filter((id) => part.ids.has(id));
    return this.sight ? lacking(part.windows, ids, this.sight) : ids;
  }

  /** Is an answer under way that serves the view, with these tracks? */
  private awaits(part: Part, which: "near" | "wide", ids: string[]): boolean {
    const asked = part.asked[which];
    if (!asked || !part[which].busy) return false;
    return serves(asked, this.sight!.view, this.sight!.nsPerPixel) && ids.every((id) => hasTrack(asked, id));
  }

  private askNear(part: Part, settings: Settings): void {
    const { moving, by } = this.moved;
    const ids = this.lacks(part);
    const all = ids.length === part.ids.size || ids.length > MAX_NAMED;
    const margins = [moving && by < 0 ? WIDE : NEAR, moving && by > 0 ? WIDE : NEAR] as const;
    this.ask(part, "near", margins, all ? null : new Set(ids), settings);
  }

  /** When nothing has moved for a while: the surroundings, part by part, so that they never keep all of the server busy. */
  private rest(settings: Settings): void {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.askWide(settings), REST_MS);
  }

  private askWide(settings: Settings): void {
    if (this.dead || this.parts.some((part) => part.near.busy || part.wide.busy)) return;
    const { view, nsPerPixel } = this.sight!;
    const around = widened(view, LEAST, LEAST, padded(this.extent));
    const good = (window: Window) => window.tracks === null && serves(window, around, nsPerPixel);
    // Series are read from all samples, however few of them are seen: they come last.
    const order = [...this.parts].sort((a, b) => Number(a.form === "series") - Number(b.form === "series"));
    const next = order.find((part) => !part.failed && !part.windows.some(good));
    if (next) this.ask(next, "wide", [WIDE, WIDE], null, settings);
  }

  private ask(
    part: Part,
    which: "near" | "wide",
    margins: readonly [number, number],
    tracks: ReadonlySet<string> | null,
    settings: Settings,
  ): void {
    const { view, nsPerPixel } = this.sight!;
    const range = widened(view, ...margins, padded(this.extent));
    const width = Math.min(Math.max(Math.ceil(span(range) / nsPerPixel), 1), MAX_WIDTH);
    const asked = { ...range, nsPerPixel: span(range) / width, exact: false, tracks };
    part.asked[which] = asked;
    part.failed = false;
    const ask = { ...range, width, groups: part.groups, ...(tracks ? { tracks: [...tracks] } : {}) };
    part[which]
      .run((signal) =>
        part.form === "series"
          ? this.api.series(ask, signal)
          : this.api.timeline({ ...ask, dma: settings.dma, split: settings.split }, signal),
      )
      .then((packed) => {
        if (packed && !this.dead) this.take(part, which, windowOf(packed, asked, part.form), settings);
      })
      .catch((error: unknown) => this.fail(part, which, error, settings));
  }

  private take(part: Part, which: "near" | "wide", window: WindowData, settings: Settings): void {
    const missed = this.lacks(part).length > 0;
    part.windows = kept(part.windows, window, missed, this.sight!);
    const whole = window.from <= this.extent.from && window.to >= this.extent.to;
    if (whole) for (const [id, data] of window.events) part.base.set(id, data);
    if (which === "near") this.rest(settings);
    else this.askWide(settings);
    if (!missed) return;
    this.failed(null);
    this.changed();
  }

  private fail(part: Part, which: "near" | "wide", error: unknown, settings: Settings): void {
    if (this.dead) return;
    part.failed = true;
    if (which === "near") this.failed(messageOf(error));
    else if (this.lacks(part).length > 0 && !part.near.busy) this.askNear(part, settings);
    else this.askWide(settings);
  }

  /** Is something seen that is not there, but will be? */
  get busy(): boolean {
    return this.stale || this.parts.some((part) => !part.failed && this.lacks(part).length > 0);
  }

  private windowFor(id: string, form: "events" | "series"): WindowData | null {
    const windows = this.parts.flatMap((part) => part.windows.filter((window) => window[form].has(id)));
    return this.sight ? best(windows, this.sight) : null;
  }

  /** The window that shows the track best, and the whole profile's as far as that was ever loaded. */
  eventsOf(id: string): { data: EventData; range: Range } | null {
    const window = this.windowFor(id, "events");
    return window && { data: window.events.get(id)!, range: window };
  }

  baseOf(id: string): EventData | null {
    for (const part of this.parts) {
      const data = part.base.get(id);
      if (data) return data;
    }
    return null;
  }

  seriesOf(id: string): SeriesData | null {
    return this.windowFor(id, "series")?.series.get(id) ?? null;
  }

  close(): void {
    this.dead = true;
    clearTimeout(this.resting);
    for (const part of this.parts) giveUp(part);
  }
}

function giveUp(part: Part): void {
  part.near.cancel();
  part.wide.cancel();
}
