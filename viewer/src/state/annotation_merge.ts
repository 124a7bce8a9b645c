// Annotations that two tabs or two people changed at the same time: nothing that either of them did is lost.

import type { Annotation } from "./annotations";

export const MAX_ANNOTATIONS = 500;

function same(a: Annotation, b: Annotation): boolean {
  return a.name === b.name && a.ts === b.ts && a.versus === b.versus;
}

export function freeId(taken: { has(id: number): boolean }, from: number): number {
  let id = from;
  while (taken.has(id)) id++;
  return id;
}

/** One of mine in what they have now; null: it is gone, by me or by them, and the other has not changed it since. */
function kept(
  mine: Annotation | undefined,
  before: Annotation | undefined,
  now: Annotation | undefined,
): Annotation | null {
  if (!before) return now ?? mine ?? null;
  if (!mine) return now && !same(now, before) ? now : null;
  if (!now) return same(mine, before) ? null : mine;
  return same(mine, before) ? now : mine;
}

/**
 * What both did to `before`: each one's marks, changes and removals. Of a mark that both changed, mine is kept; one that one removed
 * and the other changed stays. A mark of mine whose id they gave to another gets a new one.
 */
export function merged(before: Annotation[], mine: Annotation[], theirs: Annotation[]): Annotation[] {
  const [old, now] = [before, theirs].map((list) => new Map(list.map((a) => [a.id, a]))) as [
    Map<number, Annotation>,
    Map<number, Annotation>,
  ];
  const clashes = (a: Annotation) => !old.has(a.id) && now.has(a.id) && !same(a, now.get(a.id)!);
  const clashing = mine.filter(clashes).map((a) => a.id);
  const taken = new Set([...old.keys(), ...now.keys(), ...mine.map((a) => a.id)]);
  const renamed = new Map<number, number>();
  for (const id of clashing) {
    const free = freeId(taken, 1);
    taken.add(free);
    renamed.set(id, free);
  }
  const moved = (a: Annotation): Annotation => ({
    ...a,
    id: renamed.get(a.id) ?? a.id,
    versus: a.versus === null ? null : (renamed.get(a.versus) ?? a.versus),
  });
  const ours = new Map((renamed.size > 0 ? mine.map(moved) : mine).map((a) => [a.id, a]));
  const ids = [...new Set([...now.keys(), ...ours.keys()])];
  const all = ids.flatMap((id) => kept(ours.get(id), old.get(id), now.get(id)) ?? []);
  const there = new Set(all.map((a) => a.id));
  return all.map((a) => (a.versus === null || there.has(a.versus) ? a : { ...a, versus: null }));
}

/** As many as a profile can have: those that others have kept go first. Beyond: what has no room. */
export function limited(all: Annotation[]): { list: Annotation[]; beyond: Annotation[] } {
  const [first, beyond] = [all.slice(0, MAX_ANNOTATIONS), all.slice(MAX_ANNOTATIONS)];
  const gone = new Set(beyond.map((a) => a.id));
  const list = first.map((a) => (a.versus !== null && gone.has(a.versus) ? { ...a, versus: null } : a));
  return { list, beyond };
}
