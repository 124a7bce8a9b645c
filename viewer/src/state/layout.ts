// Where widgets lie: a grid of columns and rows, in which they never overlap and leave no holes above them.

export const COLUMNS = 12;
export const ROW_HEIGHT = 28;
export const MIN_WIDTH = 2;
export const MIN_ROWS = 4;
const MAX_ROWS = 80;
const MAX_ITEMS = 40;

export interface Item {
  id: string;
  type: string;
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Layout {
  name: string;
  items: Item[];
}

export const DEFAULT_LAYOUT: Layout = {
  name: "Device trace",
  items: [
    { id: "timeline", type: "timeline", x: 0, y: 0, w: 12, h: 22 },
    { id: "search", type: "search", x: 0, y: 22, w: 4, h: 13 },
    { id: "details", type: "details", x: 4, y: 22, w: 4, h: 13 },
    { id: "selection", type: "selection", x: 8, y: 22, w: 4, h: 13 },
  ],
};

function overlap(a: Item, b: Item): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

function bounded(item: Item): Item {
  const w = Math.min(Math.max(Math.round(item.w), MIN_WIDTH), COLUMNS);
  const h = Math.min(Math.max(Math.round(item.h), MIN_ROWS), MAX_ROWS);
  const x = Math.min(Math.max(Math.round(item.x), 0), COLUMNS - w);
  return { ...item, x, y: Math.max(Math.round(item.y), 0), w, h };
}

function byPlace(a: Item, b: Item): number {
  return a.y - b.y || a.x - b.x;
}

/** Lets everything fall upwards, in the order in which it lies. */
export function compacted(items: Item[]): Item[] {
  const placed: Item[] = [];
  for (const item of [...items].sort(byPlace)) {
    let next = item;
    while (next.y > 0) {
      const up = { ...next, y: next.y - 1 };
      if (placed.some((other) => overlap(up, other))) break;
      next = up;
    }
    placed.push(next);
  }
  return items.map((item) => placed.find((other) => other.id === item.id)!);
}

/** Puts one widget where the user wants it; those in its way move down. */
export function placedAt(items: Item[], wanted: Item): Item[] {
  const mine = bounded(wanted);
  const placed: Item[] = [mine];
  for (const item of items.filter((other) => other.id !== mine.id).sort(byPlace)) {
    let next = item;
    for (let hit = placed.find((p) => overlap(next, p)); hit; hit = placed.find((p) => overlap(next, p)))
      next = { ...next, y: hit.y + hit.h };
    placed.push(next);
  }
  const known = new Set(items.map((item) => item.id));
  const order = known.has(mine.id) ? items.map((item) => item.id) : [...items.map((item) => item.id), mine.id];
  return compacted(order.map((id) => placed.find((item) => item.id === id)!));
}

/** The highest place at which nothing of that width lies, or below, and there the leftmost. */
function freePlace(items: Item[], w: number): { x: number; y: number } {
  let best = { x: 0, y: totalRows(items) };
  for (let x = 0; x + w <= COLUMNS; x++) {
    const above = items.filter((item) => item.x < x + w && x < item.x + item.w);
    const y = totalRows(above);
    if (y < best.y) best = { x, y };
  }
  return best;
}

export function added(items: Item[], type: string, size: { w: number; h: number }): Item[] {
  if (items.length >= MAX_ITEMS) return items;
  let number = 1;
  while (items.some((item) => item.id === `${type}${number}`)) number++;
  return placedAt(items, { id: `${type}${number}`, type, ...freePlace(items, Math.min(size.w, COLUMNS)), ...size });
}

export function removed(items: Item[], id: string): Item[] {
  return compacted(items.filter((item) => item.id !== id));
}

export function totalRows(items: Item[]): number {
  return items.reduce((most, item) => Math.max(most, item.y + item.h), 0);
}

function isItem(value: unknown): value is Item {
  if (typeof value !== "object" || value === null) return false;
  const item = value as Record<string, unknown>;
  const texts = typeof item.id === "string" && typeof item.type === "string";
  return texts && [item.x, item.y, item.w, item.h].every((n) => Number.isSafeInteger(n));
}

/** A layout from a file, a link or the browser's memory, made harmless; null when it is none. */
export function readLayout(value: unknown): Layout | null {
  if (typeof value !== "object" || value === null) return null;
  const { name, items } = value as Record<string, unknown>;
  if (typeof name !== "string" || !Array.isArray(items) || items.length > MAX_ITEMS || !items.every(isItem))
    return null;
  const unique = new Map(items.map((item) => [item.id, item]));
  let out: Item[] = [];
  for (const item of [...unique.values()].sort(byPlace)) out = placedAt(out, item);
  return { name: name.slice(0, 100), items: out };
}
