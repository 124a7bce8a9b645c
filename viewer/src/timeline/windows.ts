// Windows of data: which of them are good for a view, which of them shows a track best, and which are kept.

import type { Range } from "../api/types";

/** A window of some tracks; null: of all tracks of its part. */
export interface Window extends Range {
  nsPerPixel: number;
  exact: boolean;
  tracks: ReadonlySet<string> | null;
}

/** What is looked at. */
export interface Sight {
  view: Range;
  nsPerPixel: number;
}

/** Windows that overlap each other are few, but a scroll from row to row must not pile up hundreds of them. */
const KEPT = 8;

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

export function hasTrack(window: Window, id: string): boolean {
  return window.tracks === null || window.tracks.has(id);
}

/** Those of the tracks that no window shows well enough. */
export function lacking(windows: Window[], ids: string[], { view, nsPerPixel }: Sight): string[] {
  const good = windows.filter((window) => serves(window, view, nsPerPixel));
  return ids.filter((id) => !good.some((window) => hasTrack(window, id)));
}

/** The first that serves; else one that holds the whole view, if coarser or finer; else the newest. */
export function best<W extends Window>(windows: W[], { view, nsPerPixel }: Sight): W | null {
  const covers = (window: W) => window.from <= view.from && window.to >= view.to;
  return windows.find((window) => serves(window, view, nsPerPixel)) ?? windows.find(covers) ?? windows[0] ?? null;
}

/**
 * The windows when another one has come: it stands first where something was missing, so that it is what is drawn, and else last, so
 * that nothing that is drawn changes. What no longer serves goes, but not the last one with all tracks: those out of sight have no other.
 */
export function kept<W extends Window>(windows: W[], next: W, missed: boolean, { view, nsPerPixel }: Sight): W[] {
  const still = windows.filter((window) => serves(window, view, nsPerPixel)).slice(0, KEPT);
  const whole = next.tracks === null ? undefined : windows.find((window) => window.tracks === null);
  const spare = whole && !still.includes(whole) ? [whole] : [];
  return missed ? [next, ...still, ...spare] : [...still, next, ...spare];
}

/** The range widened by shares of its length, inside the bounds; in whole nanoseconds, and never less than the range. */
export function widened(range: Range, before: number, behind: number, bounds: Range): Range {
  const length = range.to - range.from;
  return {
    from: Math.floor(Math.min(Math.max(range.from - before * length, bounds.from), range.from)),
    to: Math.ceil(Math.max(Math.min(range.to + behind * length, bounds.to), range.to)),
  };
}
