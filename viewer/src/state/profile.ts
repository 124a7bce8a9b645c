// One profile that is open: what is looked at, what is selected, what was found. Widgets share it and nothing else.

import { Latest, leftOut } from "../api/client";
import { type Lines, ProfileApi, type SearchQuery } from "../api/profile";
import type {
  Bands,
  Dependencies,
  EventDetails,
  EventRef,
  Overview,
  Range,
  SearchAnswer,
  SearchHit,
} from "../api/types";
import { endOf } from "../timeline/ends";
import { around, clamped, padded } from "../timeline/scale";
import { DEFAULT_SETTINGS, DMA_MODES, NO_PREFS, type Settings, type TrackPrefs } from "../timeline/tracks";
import { keep, kept } from "./keep";
import type { Link } from "./link";
import { type Loaded, messageOf, nothing, Store } from "./store";

export interface Box extends Range {
  tracks: string[];
}

interface Placed {
  start_ts: number;
  end_ts: number;
  track?: string | null;
  tracks?: string[];
}

export interface SearchState {
  query: SearchQuery | null;
  answer: SearchAnswer | null;
  /** Number of the current hit among all of them. */
  current: number;
  focused: EventRef | null;
  busy: boolean;
  error: string | null;
}

export const NO_SEARCH: SearchState = {
  query: null,
  answer: null,
  current: 0,
  focused: null,
  busy: false,
  error: null,
};

export const PAGE_SIZE = 20;
const BANDS_MS = 200;
export const DAMAGED = "Its file is damaged: since that was met, everything is shown without this table.";

export function sameEvent(a: EventRef | null | undefined, b: EventRef | null | undefined): boolean {
  return !!a && !!b && a.table === b.table && a.id === b.id;
}

/** All tracks that show an event, as far as it tells. */
export function tracksOf({ track, tracks }: { track?: string | null; tracks?: string[] }): string[] {
  return tracks ?? (track ? [track] : []);
}

export class Profile {
  readonly api: ProfileApi;
  readonly extent: Range;
  readonly view: Store<Range>;
  readonly settings = new Store<Settings>({ ...DEFAULT_SETTINGS, ...kept<Partial<Settings>>("settings", {}) });
  readonly prefs = new Store<TrackPrefs>({ ...NO_PREFS, ...kept<Partial<TrackPrefs>>("tracks", {}) });
  readonly selected = new Store<EventRef | null>(null);
  readonly details = new Store<Loaded<EventDetails>>(nothing());
  readonly dependencies = new Store<Loaded<Dependencies>>(nothing());
  readonly bands = new Store<Bands | null>(null);
  readonly box = new Store<Box | null>(null);
  readonly boxMode = new Store(false);
  readonly search = new Store<SearchState>(NO_SEARCH);
  /** Counts the wishes to see the source line of what is selected. */
  readonly toSource = new Store(0);
  /** A source line that the Code Viewer is to show. */
  readonly place = new Store<{ file: string; line: number } | null>(null);
  /** Source lines whose events are marked. */
  readonly lit = new Store<Lines | null>(null);
  /** The track that keys go along: the one whose name has the focus, or the selected event's. */
  readonly track = new Store<string | null>(null);
  /** Tracks of which the timeline is to scroll to one that it shows. */
  readonly reveal = new Store<string[]>([]);
  /** Counts the jumps: told before each, while what is looked at is still that before it. */
  readonly jumps = new Store(0);
  /** What was gone to without its track being known: its details name it. */
  private unrevealed = false;
  /** What is not there, and why: what the overview knew, and what turned out to be damaged since. */
  readonly missing: Store<Overview["missing"]>;
  private readonly endLeftOut: () => void;
  private readonly latest = {
    details: new Latest(),
    dependencies: new Latest(),
    search: new Latest(),
    bands: new Latest(),
    ends: new Latest(),
  };

  constructor(
    readonly name: string,
    readonly overview: Overview,
  ) {
    this.api = new ProfileApi(name);
    this.extent = overview.extent.to > overview.extent.from ? overview.extent : { from: 0, to: 1 };
    this.view = new Store(padded(this.extent));
    this.settings.watch((settings) => keep("settings", settings));
    this.prefs.watch((prefs) => keep("tracks", prefs));
    this.selected.watch((event) => this.load(event));
    this.details.watch(({ value }) => value && this.follow(value));
    this.missing = new Store(overview.missing);
    this.endLeftOut = leftOut.watch((now) => now && this.api.isAbout(now.url) && this.miss(now.names));
    this.loadBands();
  }

  private miss(names: string[]): void {
    const known = new Set(this.missing.value.map(({ what }) => what));
    const fresh = names.filter((name) => !known.has(name));
    if (fresh.length > 0) this.missing.update((list) => [...list, ...fresh.map((what) => ({ what, why: DAMAGED }))]);
  }

  /** All bands at once, while the server gives all; else those of what is seen, each time it rests. */
  private loadBands(): void {
    const none = () => undefined; // The timeline shows the events without them.
    const whole = this.api.bands(this.extent);
    whole.then((bands) => {
      this.bands.set(bands);
      if (bands.truncated.length === 0) return;
      let timer = 0;
      this.view.watch((view) => {
        clearTimeout(timer);
        timer = window.setTimeout(() => {
          const wide = { from: view.from - (view.to - view.from), to: view.to + (view.to - view.from) };
          const ask = this.latest.bands.run((signal) => this.api.bands(wide, signal));
          ask.then((near) => near && this.bands.set(near), none);
        }, BANDS_MS);
      });
    }, none);
  }

  static async open(name: string, signal?: AbortSignal): Promise<Profile> {
    return new Profile(name, await new ProfileApi(name).overview(signal));
  }

  restore(link: Link): void {
    const dma = DMA_MODES.find(({ mode }) => mode === link.dma)?.mode;
    if (dma) this.settings.update((settings) => ({ ...settings, dma, split: link.split }));
    else if (link.split) this.settings.update((settings) => ({ ...settings, split: true }));
    // A link without a range is one to all, without an event to nothing: going back must not keep what came since.
    this.view.set(link.range ? clamped(link.range, this.extent) : padded(this.extent));
    if (link.selected) this.select(link.selected);
    else this.selected.set(null);
  }

  look(range: Range): void {
    this.view.set(clamped(range, this.extent));
  }

  /** Shows another place, from which one may want to go back. */
  jump(range: Range): void {
    this.jumps.update((n) => n + 1);
    this.view.set(clamped(range, this.extent));
  }

  /** Opens the Code Viewer at a line, and marks the line's events. */
  openSource(file: string, line: number): void {
    this.lit.set({ file, lines: [line] });
    this.place.set({ file, line });
  }

  fit(): void {
    this.jump(padded(this.extent));
  }

  select(event: EventRef | null): void {
    if (!sameEvent(event, this.selected.value)) this.selected.set(event);
  }

  /** The tracks of what was just selected: keys go along the first, and the timeline shows it where it was gone to. */
  private follow(details: EventDetails): void {
    if (details.track !== null) this.track.set(details.track);
    if (this.unrevealed) this.reveal.set(tracksOf(details));
    this.unrevealed = false;
  }

  /** Selects an event and brings it into view. */
  goTo(event: EventRef & Placed): void {
    this.jumps.update((n) => n + 1);
    this.select({ table: event.table, id: event.id });
    this.bring(event);
  }

  /** Brings an event into view, whatever is selected. */
  focus(event: Placed): void {
    this.jumps.update((n) => n + 1);
    this.bring(event);
  }

  /** With room around it, unless it is already well seen. */
  private bring(event: Placed): void {
    const view = this.view.value;
    const length = view.to - view.from;
    const inside = event.start_ts >= view.from && event.end_ts <= view.to;
    const seen = event.end_ts - event.start_ts > length / 200;
    if (!inside || !seen) this.view.set(around(event.start_ts, event.end_ts, this.extent, 0.1));
    const tracks = tracksOf(event);
    this.unrevealed = tracks.length === 0;
    if (tracks.length > 0) this.reveal.set(tracks);
  }

  /** Goes to the event before or after the selected one on its track. */
  step(forward: boolean): void {
    const details = this.details.value.value;
    const next = forward ? details?.neighbours.next : details?.neighbours.previous;
    if (!details || !next) return;
    this.select({ table: details.table, id: next.id });
    this.bring({ ...next, track: details.track });
  }

  /** Selects the first or the last event of a track, or the first that begins at a time or later. */
  async goToEnd(id: string | null, last: boolean, from = this.extent.from): Promise<void> {
    const track = this.overview.tracks.find((other) => other.id === id);
    if (!track) return;
    this.track.set(track.id);
    const range = { from, to: this.extent.to };
    const found = await this.latest.ends
      .run((signal) => endOf(this.api, track, this.settings.value, range, last, signal))
      .catch(() => null);
    if (!found) return;
    this.goTo(found);
  }

  private load(event: EventRef | null): void {
    this.fetch(this.details, this.latest.details, event, (ref, signal) => this.api.details(ref, signal));
    this.fetch(this.dependencies, this.latest.dependencies, event, (ref, signal) => this.api.dependencies(ref, signal));
  }

  private fetch<T>(
    store: Store<Loaded<T>>,
    latest: Latest,
    event: EventRef | null,
    ask: (event: EventRef, signal: AbortSignal) => Promise<T>,
  ): void {
    latest.cancel();
    store.set({ value: null, busy: event !== null, error: null });
    if (!event) return;
    latest
      .run((signal) => ask(event, signal))
      .then((value) => value && store.set({ value, busy: false, error: null }))
      .catch((error: unknown) => store.set({ value: null, busy: false, error: messageOf(error) }));
  }

  /** Asks for a page of matches; index is the match that becomes the current one. */
  async find(query: SearchQuery, page = 0, index = page * PAGE_SIZE): Promise<void> {
    const before = this.search.value;
    const same = before.query === query;
    this.search.set({ ...(same ? before : NO_SEARCH), query, current: index, busy: true, error: null });
    try {
      const answer = await this.latest.search.run((signal) => this.api.search(query, page, PAGE_SIZE, signal));
      if (!answer) return;
      this.search.update((state) => ({ ...state, answer, busy: false }));
      if (!same) this.preview(answer.hits[0]);
    } catch (error) {
      this.search.update((state) => ({ ...state, answer: null, busy: false, error: messageOf(error) }));
    }
  }

  /** The first match is the first page of the details, also while nothing is selected: the timeline shows it as one of all. */
  private preview(hit: SearchHit | undefined): void {
    if (!hit || this.selected.value) return;
    this.fetch(this.details, this.latest.details, hit, (ref, signal) => this.api.details(ref, signal));
  }

  /** Makes a hit the current one: its page, its details, its cyan border. */
  async showHit(index: number, focus: boolean): Promise<void> {
    const state = this.search.value;
    if (!state.query || !state.answer || index < 0 || index >= state.answer.total) return;
    const page = Math.floor(index / PAGE_SIZE);
    this.search.set({ ...state, current: index });
    if (page !== state.answer.page) await this.find(state.query, page, index);
    if (this.search.value.current !== index) return; // Somebody stepped on meanwhile.
    const hit: SearchHit | undefined = this.search.value.answer?.hits[index - page * PAGE_SIZE];
    if (!hit) return;
    const ref = { table: hit.table, id: hit.id };
    this.search.update((now) => ({ ...now, focused: focus ? ref : now.focused }));
    if (focus) this.goTo(hit);
    else this.select(ref);
  }

  clearSearch(): void {
    this.latest.search.cancel();
    this.search.set(NO_SEARCH);
    if (!this.selected.value) this.load(null);
  }

  close(): void {
    this.endLeftOut();
    for (const latest of Object.values(this.latest)) latest.cancel();
  }
}
