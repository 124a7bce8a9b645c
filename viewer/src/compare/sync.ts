// How the timelines of a comparison move together.

import type { Range } from "../api/types";
import type { Profile } from "../state/profile";
import { Store } from "../state/store";
import { span } from "../timeline/scale";

export type ZoomMode = "relative" | "absolute" | "apart";

export const ZOOM_MODES: { mode: ZoomMode; name: string; means: string }[] = [
  { mode: "relative", name: "Global relative zoom", means: "All show the same share of their profiles." },
  {
    mode: "absolute",
    name: "Global absolute zoom",
    means: "All show the same nanoseconds from their profiles' begins.",
  },
  { mode: "apart", name: "Apart", means: "Each timeline moves by itself." },
];

/** How far beside a profile a relative view may lie: as far as the timeline itself allows. */
const MARGIN = 0.02;

export interface Shares {
  from: number;
  to: number;
}

export function sharesOf(view: Range, own: Range): Shares {
  const length = span(own);
  return { from: (view.from - own.from) / length, to: (view.to - own.from) / length };
}

export function rangeOf(shares: Shares, own: Range): Range {
  return { from: own.from + shares.from * span(own), to: own.from + shares.to * span(own) };
}

/** What another profile shows when one shows `view`. */
export function followed(mode: ZoomMode, view: Range, from: Range, to: Range): Range {
  if (mode === "absolute") return { from: view.from - from.from + to.from, to: view.to - from.from + to.from };
  return rangeOf(sharesOf(view, from), to);
}

/** A relative view stays beside its profile no farther than the margin. */
function trimmed(view: Range, own: Range): Range {
  const { from, to } = sharesOf(view, own);
  const cut = { from: Math.max(from, -MARGIN), to: Math.min(to, 1 + MARGIN) };
  return cut.from < cut.to && (cut.from !== from || cut.to !== to) ? rangeOf(cut, own) : view;
}

export interface Member {
  profile: Profile;
  /** Its own length: the timelines share the longest one's, so that nanoseconds can lie below nanoseconds. */
  own: Range;
}

function wanted(own: Range, from: number, to: number, unit: "ns" | "percent"): Range {
  if (unit === "percent") return rangeOf({ from: from / 100, to: to / 100 }, own);
  return { from: own.from + from, to: own.from + to };
}

export class ZoomSync {
  readonly mode = new Store<ZoomMode>("relative");
  private moving = false;
  private readonly ends: (() => void)[] = [];

  constructor(readonly members: Member[]) {
    for (const member of members) this.ends.push(member.profile.view.watch(() => this.follow(member)));
    this.ends.push(this.mode.watch(() => members[0] && this.follow(members[0])));
  }

  private follow(leader: Member): void {
    const mode = this.mode.value;
    if (this.moving || mode === "apart") return;
    this.moving = true;
    let view = leader.profile.view.value;
    if (mode === "relative") {
      view = trimmed(view, leader.own);
      leader.profile.view.set(view);
    }
    for (const member of this.members)
      if (member !== leader) member.profile.view.set(followed(mode, view, leader.own, member.own));
    this.moving = false;
  }

  /** Synchronized time range: all at once, in nanoseconds from each profile's begin or in percent of its length. */
  setRange(from: number, to: number, unit: "ns" | "percent"): void {
    this.moving = true;
    for (const { profile, own } of this.members) profile.view.set(wanted(own, from, to, unit));
    this.moving = false;
  }

  /** Does one of the profiles have a part of this range, and all of them numbers for it? */
  meets(from: number, to: number, unit: "ns" | "percent"): boolean {
    const ranges = this.members.map(({ own }) => ({ own, range: wanted(own, from, to, unit) }));
    const some = ranges.some(({ own, range }) => range.from < own.to && range.to > own.from);
    return some && ranges.every(({ range }) => Math.max(-range.from, range.to) < Number.MAX_SAFE_INTEGER);
  }

  close(): void {
    for (const end of this.ends) end();
  }
}
