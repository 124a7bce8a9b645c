// A profile of many ranks that is open: what is looked at, which collective is chosen, which ranks are unfolded.

import { Latest } from "../api/client";
import { type Rank, type RanksAnswer, RanksApi, type Skew } from "../api/ranks";
import type { Range } from "../api/types";
import { type Loaded, messageOf, nothing, Store } from "../state/store";
import { around, clamped, padded, span } from "../timeline/scale";

export type Order = "outlier" | "rank" | "wait" | "mfu";

export const ORDERS: { order: Order; name: string }[] = [
  { order: "outlier", name: "Outliers first" },
  { order: "rank", name: "By rank" },
  { order: "wait", name: "Most waiting first" },
  { order: "mfu", name: "Least MFU first" },
];

export const UNFOLDED_MAX = 4;

function byRank(a: Rank, b: Rank): number {
  return (a.rank ?? a.worker ?? 0) - (b.rank ?? b.worker ?? 0) || a.profile.localeCompare(b.profile);
}

/** The server's order is outliers first. */
export function ordered(ranks: Rank[], order: Order): Rank[] {
  const copy = [...ranks];
  if (order === "rank") copy.sort(byRank);
  if (order === "wait") copy.sort((a, b) => (b.wait_ns ?? -1) - (a.wait_ns ?? -1) || byRank(a, b));
  if (order === "mfu")
    copy.sort(
      (a, b) =>
        (a.mfu_percent ?? Number.POSITIVE_INFINITY) - (b.mfu_percent ?? Number.POSITIVE_INFINITY) || byRank(a, b),
    );
  return copy;
}

export class RanksModel {
  readonly api: RanksApi;
  readonly extent: Range;
  readonly view: Store<Range>;
  readonly order = new Store<Order>("outlier");
  readonly unfolded = new Store<string[]>([]);
  readonly chosen = new Store<Loaded<Skew>>(nothing());
  readonly byProfile: Map<string, Rank>;
  private readonly latest = new Latest();

  constructor(
    name: string,
    readonly answer: RanksAnswer,
  ) {
    this.api = new RanksApi(name);
    this.extent = span(answer.extent) > 0 ? answer.extent : { from: 0, to: 1 };
    this.view = new Store(padded(this.extent));
    this.byProfile = new Map(answer.ranks.map((rank) => [rank.profile, rank]));
  }

  static async open(name: string, signal?: AbortSignal): Promise<RanksModel> {
    return new RanksModel(name, await new RanksApi(name).ranks(signal));
  }

  look(range: Range): void {
    this.view.set(clamped(range, this.extent));
  }

  /** Shows a collective from the first arrival to the end. */
  show(skew: Pick<Skew, "first" | "end">): void {
    if (skew.first !== null && skew.end !== null) this.view.set(around(skew.first, skew.end, this.extent, 0.6));
  }

  choose(id: number | null, zoom: boolean): void {
    if (id === null) {
      this.latest.cancel();
      this.chosen.set(nothing());
      return;
    }
    this.chosen.update((loaded) => ({ ...loaded, busy: true, error: null }));
    this.latest
      .run((signal) => this.api.collective(id, signal))
      .then((value) => {
        if (value === undefined) return;
        this.chosen.set({ value, busy: false, error: value ? null : "There is no such collective." });
        if (value && zoom) this.show(value);
      })
      .catch((error: unknown) => this.chosen.set({ value: null, busy: false, error: messageOf(error) }));
  }

  toggle(profile: string): void {
    this.unfolded.update((list) =>
      list.includes(profile) ? list.filter((name) => name !== profile) : [...list, profile].slice(-UNFOLDED_MAX),
    );
  }

  close(): void {
    this.latest.cancel();
  }
}
