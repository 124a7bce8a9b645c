// The timeline as an object: watches the profile's state, asks for data, draws three layers when something of theirs changed.

import type { Packed } from "../api/packed";
import type { Range } from "../api/types";
import type { Annotations } from "../state/annotations";
import { type Profile, sameEvent, tracksOf } from "../state/profile";
import { Store } from "../state/store";
import { type Band, bandLanes } from "./bands";
import { customColors } from "./color";
import { TimelineData } from "./data";
import type { DrawCount } from "./draw_events";
import { drawFrame } from "./draw_frame";
import { drawOverlay, type Highlight, highlightsOf } from "./draw_overlay";
import { type Hit, hitAt, type Known } from "./hit";
import { Pointer } from "./pointer";
import { AXIS_HEIGHT, bodyTop, headHeight, LANE_HEIGHT, placedRows, readTheme, type Scene, timeOf, xOf } from "./scene";
import { layoutRows } from "./tracks";

export interface Layers {
  frame: HTMLCanvasElement;
  overlay: HTMLCanvasElement;
  pointer: HTMLElement;
}

/** So long an answer waits for the others of the same view, so that they come in one frame. */
const HOLD_MS = 80;

/** Of the room for tracks, pinned ones take this share at most. */
const PINNED_SHARE = 0.7;

export interface Hover {
  /** Where the pointer is, from the canvas's corner. */
  x: number;
  y: number;
  time: number;
  snapped: boolean;
  hit: Hit | null;
  band: Band | null;
}

/** What the pointer is drawing at the moment. */
export interface Gesture {
  box: { x0: number; y0: number; x1: number; y1: number } | null;
  zooming: Range | null;
  annotation: number | null;
}

export const NO_GESTURE: Gesture = { box: null, zooming: null, annotation: null };

export class TimelineView {
  readonly scene: Scene;
  readonly data: TimelineData;
  readonly hover = new Store<Hover | null>(null);
  readonly trouble = new Store<string | null>(null);
  readonly drawn = new Store<DrawCount>({ wide: 0, narrow: 0 });
  readonly layout: Store<Scene["rows"]>;
  readonly scrollTo = new Store<number | null>(null);
  gesture: Gesture = NO_GESTURE;
  private highlights: Highlight[] = [];
  private marks: Packed | null = null;
  private lit: Packed | null = null;
  private dirty = { frame: true, overlay: true, pointer: true };
  private scheduled = 0;
  private asking = 0;
  private holding = 0;
  private readonly pointer: Pointer;
  private readonly ends: (() => void)[] = [];

  constructor(
    readonly profile: Profile,
    readonly annotations: Annotations,
    private readonly layers: Layers,
  ) {
    const rows = layoutRows(profile.overview.tracks, profile.settings.value, profile.prefs.value);
    this.layout = new Store(rows);
    const theme = readTheme(layers.frame);
    this.scene = { width: 0, height: 0, ratio: 1, view: profile.view.value, lanes: [], rows, scroll: 0, theme };
    this.data = new TimelineData(
      profile.api,
      profile.extent,
      () => this.arrived(),
      (message) => {
        this.trouble.set(message);
        if (message !== null) this.redraw("frame");
      },
    );
    this.pointer = new Pointer(layers.pointer);
    this.watch();
    this.arrange();
  }

  private watch(): void {
    const { profile } = this;
    this.ends.push(
      profile.view.watch((view) => this.look(view)),
      profile.settings.watch(() => this.arrange()),
      profile.prefs.watch(() => this.arrange()),
      profile.bands.watch(() => this.arrange()),
      profile.dependencies.watch((loaded) => {
        this.highlights = highlightsOf(loaded.value);
        this.redraw("overlay");
      }),
      profile.details.watch(() => this.redraw("overlay")),
      profile.search.watch(() => this.redraw("overlay")),
      profile.box.watch(() => this.redraw("overlay")),
      profile.reveal.watch((tracks) => this.reveal(tracks)),
      this.annotations.list.watch(() => this.redraw("overlay")),
      customColors.watch(() => this.redraw("frame")),
    );
  }

  close(): void {
    for (const end of this.ends) end();
    cancelAnimationFrame(this.scheduled);
    clearTimeout(this.asking);
    clearTimeout(this.holding);
    this.data.close();
  }

  resize(width: number, height: number, ratio: number): void {
    const other = height !== this.scene.height;
    Object.assign(this.scene, { width, height, ratio });
    if (other) this.arrange();
    this.ask();
    this.redraw("frame", "overlay", "pointer");
  }

  restyle(): void {
    this.scene.theme = readTheme(this.layers.frame);
    this.redraw("frame", "overlay", "pointer");
  }

  scroll(top: number): void {
    this.scene.scroll = top;
    this.ask();
    this.pointAgain();
    this.redraw("frame", "overlay", "pointer");
  }

  setMarks(marks: Packed | null): void {
    this.marks = marks;
    this.redraw("overlay");
  }

  /** Events of the source lines that are chosen. */
  setLit(marks: Packed | null): void {
    this.lit = marks;
    this.redraw("overlay");
  }

  /** Data are there. Each frame costs as much as many answers, so the first of several waits a little for the last. */
  private arrived(): void {
    if (this.data.busy) {
      if (!this.holding) this.holding = window.setTimeout(() => this.showArrived(), HOLD_MS);
    } else this.showArrived();
  }

  private showArrived(): void {
    clearTimeout(this.holding);
    this.holding = 0;
    this.pointAgain();
    this.redraw("frame", "overlay", "pointer");
  }

  private look(view: Range): void {
    this.scene.view = view;
    this.ask();
    this.pointAgain();
    this.redraw("frame", "overlay", "pointer");
  }

  private arrange(): void {
    const { profile, scene } = this;
    const settings = profile.settings.value;
    const bands = profile.bands.value;
    scene.lanes = settings.bands && bands ? bandLanes(bands, profile.overview.cores.length) : [];
    const room = Math.max((scene.height - headHeight(scene)) * PINNED_SHARE, 0);
    scene.rows = layoutRows(profile.overview.tracks, settings, profile.prefs.value, room);
    const shown = [...scene.rows.pinned, ...scene.rows.rest].map((row) => row.track);
    this.data.configure(
      shown.filter((track) => track.absent === null),
      settings,
    );
    this.layout.set(scene.rows);
    this.ask();
    this.redraw("frame", "overlay", "pointer");
  }

  /** Asks at once for the first move, then at most every few milliseconds: a wheel turns faster than a server answers. */
  private ask(): void {
    const { scene, profile } = this;
    const shown = placedRows(scene).map(({ row }) => row.track.id);
    this.data.look(scene.view, scene.width, shown);
    if (this.asking) return;
    this.data.need(profile.settings.value);
    this.asking = window.setTimeout(() => {
      this.asking = 0;
      this.data.need(profile.settings.value);
    }, 40);
  }

  private reveal(tracks: string[]): void {
    const { rows, height } = this.scene;
    const row = rows.rest.find((other) => tracks.includes(other.track.id));
    if (!row) return;
    const room = height - bodyTop(this.scene);
    const seen = row.y >= this.scene.scroll && row.y + row.height <= this.scene.scroll + room;
    if (!seen) this.scrollTo.set(Math.max(row.y - room / 2, 0));
  }

  redraw(...layers: (keyof Layers)[]): void {
    for (const layer of layers) this.dirty[layer] = true;
    if (!this.scheduled) this.scheduled = requestAnimationFrame(() => this.draw());
  }

  private selectedKnown(): Known | null {
    const { value } = this.profile.details.value;
    if (!value || !this.profile.selected.value) return null; // else the first match, shown only in words
    const fields = value.fields as Record<string, number>;
    const start = fields.start_ts ?? fields.timestamp ?? 0;
    const tracks = tracksOf(value);
    return { table: value.table, id: value.id, start_ts: start, end_ts: fields.end_ts ?? start, tracks };
  }

  private draw(): void {
    this.scheduled = 0;
    const { scene, profile, dirty } = this;
    this.dirty = { frame: false, overlay: false, pointer: false };
    if (scene.width < 1 || scene.height < 1) return;
    if (dirty.frame) {
      const input = { data: this.data, bands: profile.bands.value, settings: profile.settings.value };
      this.drawn.set(drawFrame(this.layers.frame, scene, input));
    }
    if (dirty.overlay || dirty.frame) this.drawOverlay();
    if (dirty.pointer) this.pointer.draw(scene, this.hover.value);
  }

  private drawOverlay(): void {
    const { profile, scene } = this;
    const search = profile.search.value;
    const selected = this.selectedKnown();
    const hits = (search.answer?.hits ?? []).map((hit) => ({ ...hit, tracks: hit.track === null ? [] : [hit.track] }));
    const found = hits.find((hit) => sameEvent(hit, search.focused)) ?? null;
    const focused = sameEvent(found, selected) ? selected : found;
    drawOverlay(this.layers.overlay, scene, {
      data: this.data,
      selected,
      highlights: this.highlights,
      hits,
      marks: this.marks,
      lit: this.lit,
      focused,
      annotations: this.annotations.list.value,
      dragged: this.gesture.annotation,
      box: profile.box.value,
      drawing: this.gesture.box,
      zooming: this.gesture.zooming,
    });
  }

  /** The pointer rests here: what lies under it is found, and found again when the tracks move below it. */
  point(x: number, y: number): Hit | null {
    const hit = hitAt(this.scene, this.data, x, y);
    this.setHover({ x, y, time: timeOf(this.scene, x), snapped: false, hit, band: this.bandAt(x, y) });
    return hit;
  }

  private pointAgain(): void {
    const hover = this.hover.value;
    if (hover && !hover.snapped) this.point(hover.x, hover.y);
  }

  setHover(hover: Hover | null): void {
    this.hover.set(hover);
    this.redraw("pointer");
  }

  setGesture(gesture: Gesture): void {
    this.gesture = gesture;
    this.redraw("overlay");
  }

  bandAt(x: number, y: number): Band | null {
    const lane = this.scene.lanes[Math.floor((y - AXIS_HEIGHT) / LANE_HEIGHT)];
    if (y < AXIS_HEIGHT || y >= headHeight(this.scene) || !lane) return null;
    const near = lane.bands.filter(
      (band) =>
        xOf(this.scene, band.from) - 3 <= x &&
        x <= Math.max(xOf(this.scene, band.to), xOf(this.scene, band.from) + 2) + 3,
    );
    return near.reduce<Band | null>(
      (best, band) => (!best || band.to - band.from < best.to - best.from ? band : best),
      null,
    );
  }

  annotationAt(x: number): number | null {
    let best: number | null = null;
    let distance = 5;
    for (const annotation of this.annotations.list.value) {
      const apart = Math.abs(xOf(this.scene, annotation.ts) - x);
      if (apart < distance) {
        distance = apart;
        best = annotation.id;
      }
    }
    return best;
  }
}
