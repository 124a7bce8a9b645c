// The lanes as an object: watches the model, asks for what is seen, draws two layers.

import type { Rank } from "../api/ranks";
import { Store } from "../state/store";
import { AXIS_HEIGHT, readTheme, type Scene, timeOf, xOf } from "../timeline/scene";
import { type Drawn, drawCursor, drawLanes } from "./draw";
import { type Lane, LanesData } from "./lanes";
import { ordered, type RanksModel } from "./model";

/** Many ranks have lower lanes, so that more of them are seen. */
function heightOf(ranks: number): number {
  if (ranks <= 8) return 46;
  return ranks <= 16 ? 34 : 20;
}

export interface PlacedRank {
  rank: Rank;
  /** From the canvas's upper edge. */
  top: number;
}

export interface Hit {
  rank: Rank;
  lane: Lane;
  /** Place in the lane's arrivals; null: the pointer is between them. */
  at: number | null;
}

export interface Hover {
  x: number;
  y: number;
  time: number;
  hit: Hit | null;
}

const NO_ROWS = { pinned: [], rest: [], pinnedHeight: 0, restHeight: 0 };
/** Pixels beside an arrival that still belong to it. */
const REACH = 4;

export class LanesView {
  readonly scene: Scene;
  readonly data: LanesData;
  readonly hover = new Store<Hover | null>(null);
  readonly drawn = new Store<Drawn>({ collectives: 0, whiskers: 0, lanes: 0, busy: true });
  readonly trouble = new Store<string | null>(null);
  readonly rows: Store<Rank[]>;
  readonly rowHeight: number;
  private dirty = { frame: true, pointer: true };
  private scheduled = 0;
  private asking = 0;
  private readonly ends: (() => void)[];

  constructor(
    readonly model: RanksModel,
    private readonly layers: { frame: HTMLCanvasElement; pointer: HTMLCanvasElement },
  ) {
    const theme = readTheme(layers.frame);
    this.rowHeight = heightOf(model.answer.ranks.length);
    this.rows = new Store(ordered(model.answer.ranks, model.order.value));
    this.scene = { width: 0, height: 0, ratio: 1, view: model.view.value, lanes: [], rows: NO_ROWS, scroll: 0, theme };
    this.data = new LanesData(
      model.api,
      model.extent,
      () => {
        this.pointAgain();
        this.redraw();
      },
      (message) => this.trouble.set(message),
    );
    this.ends = [
      model.view.watch((view) => {
        this.scene.view = view;
        this.changed();
      }),
      model.order.watch((order) => {
        this.rows.set(ordered(model.answer.ranks, order));
        this.changed();
      }),
      model.chosen.watch(() => this.redraw()),
    ];
  }

  get height(): number {
    return this.rows.value.length * this.rowHeight;
  }

  resize(width: number, height: number, ratio: number): void {
    Object.assign(this.scene, { width, height, ratio });
    this.changed();
  }

  restyle(): void {
    this.scene.theme = readTheme(this.layers.frame);
    this.redraw();
  }

  scroll(top: number): void {
    this.scene.scroll = top;
    this.changed();
  }

  private changed(): void {
    this.ask();
    this.pointAgain();
    this.redraw();
  }

  private ask(): void {
    if (this.asking) return;
    const now = () =>
      this.data.need(
        this.scene.view,
        this.scene.width,
        this.placed().map(({ rank }) => rank.profile),
      );
    now();
    this.asking = window.setTimeout(() => {
      this.asking = 0;
      now();
    }, 60);
  }

  /** The lanes that are seen. */
  placed(): PlacedRank[] {
    const out: PlacedRank[] = [];
    this.rows.value.forEach((rank, i) => {
      const top = AXIS_HEIGHT + i * this.rowHeight - this.scene.scroll;
      if (top + this.rowHeight > AXIS_HEIGHT && top < this.scene.height) out.push({ rank, top });
    });
    return out;
  }

  redraw(): void {
    this.dirty = { frame: true, pointer: true };
    this.schedule();
  }

  private schedule(): void {
    if (!this.scheduled) this.scheduled = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.scheduled = 0;
    const { scene, dirty } = this;
    this.dirty = { frame: false, pointer: false };
    if (scene.width < 1 || scene.height < 1) return;
    const rows = this.placed();
    const chosen = this.model.chosen.value.value;
    if (dirty.frame) {
      const drawn = drawLanes(this.layers.frame, scene, { rows, height: this.rowHeight, data: this.data, chosen });
      this.drawn.set({ ...drawn, busy: this.data.busy || this.asking > 0 });
    }
    drawCursor(this.layers.pointer, scene, { rows, height: this.rowHeight, hover: this.hover.value });
    if (this.asking) window.setTimeout(() => this.settle(), 80);
  }

  /** What is under way is told even when nothing more is drawn. */
  private settle(): void {
    const busy = this.data.busy || this.asking > 0;
    if (busy !== this.drawn.value.busy) this.drawn.set({ ...this.drawn.value, busy });
  }

  point(x: number, y: number): void {
    const time = timeOf(this.scene, x);
    const row = this.placed().find(({ top }) => y >= Math.max(top, AXIS_HEIGHT) && y < top + this.rowHeight);
    const lane = row && this.data.laneOf(row.rank.profile);
    this.hover.set({ x, y, time, hit: row && lane ? { rank: row.rank, lane, at: this.arrivalAt(lane, x) } : null });
    this.dirty.pointer = true;
    this.schedule();
  }

  leave(): void {
    this.hover.set(null);
    this.dirty.pointer = true;
    this.schedule();
  }

  private pointAgain(): void {
    const hover = this.hover.value;
    if (hover) this.point(hover.x, hover.y);
  }

  /** The nearest begin under the pointer, else the collective that it is in. */
  private arrivalAt({ arrivals }: Lane, x: number): number | null {
    let best: number | null = null;
    let distance = Number.POSITIVE_INFINITY;
    for (let i = 0; i < arrivals.n; i++) {
      const x0 = xOf(this.scene, arrivals.start[i]!);
      const x1 = xOf(this.scene, arrivals.end[i]!);
      if (x < x0 - REACH || x > Math.max(x1, x0) + REACH) continue;
      const apart = Math.abs(x - x0) <= REACH ? Math.abs(x - x0) : REACH + (x1 - x0);
      if (apart < distance) {
        best = i;
        distance = apart;
      }
    }
    return best;
  }

  close(): void {
    for (const end of this.ends) end();
    cancelAnimationFrame(this.scheduled);
    clearTimeout(this.asking);
    this.data.close();
  }
}
