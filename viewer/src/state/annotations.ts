// Marks that the user sets on the timeline. They are kept per profile, on the server where it keeps such things and in
// the browser, can be saved to a file and loaded from one.

import { ApiError } from "../api/client";
import { freeId, limited, MAX_ANNOTATIONS, merged } from "./annotation_merge";
import { keep, kept, onKept } from "./keep";
import { type Item, loadItem, putItem } from "./kept";
import { Store } from "./store";

export interface Annotation {
  id: number;
  name: string;
  ts: number;
  /** The annotation that this one is compared with; null: the one before it. */
  versus: number | null;
}

const SAVE_MS = 400;
const MOST_WAIT_MS = 60_000;
const MAX_NAME = 200;
const FILE_KIND = "kymo-annotations";

export function isAnnotation(value: unknown): value is Annotation {
  if (typeof value !== "object" || value === null) return false;
  const { id, name, ts, versus } = value as Record<string, unknown>;
  const numbers =
    Number.isSafeInteger(id) && Number.isSafeInteger(ts) && (versus === null || Number.isSafeInteger(versus));
  return numbers && typeof name === "string" && name.length <= MAX_NAME;
}

/** What a file of annotations holds, with ids of its own; throws with a reason when it is something else. */
export function readAnnotations(text: string): { profile: string; list: Annotation[] } {
  let value: { kind?: unknown; profile?: unknown; annotations?: unknown };
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("This file is no JSON.");
  }
  const list = value?.annotations;
  if (value?.kind !== FILE_KIND || !Array.isArray(list)) throw new Error("This file holds no annotations.");
  if (list.length > MAX_ANNOTATIONS) throw new Error(`More than ${MAX_ANNOTATIONS} annotations.`);
  if (!list.every(isAnnotation)) throw new Error("An annotation in this file is not complete.");
  const ids = new Map(list.map(({ id }, i) => [id, i + 1]));
  if (ids.size < list.length) throw new Error("Two annotations in this file have the same id.");
  const numbered = list.map((a) => ({
    ...a,
    id: ids.get(a.id)!,
    versus: a.versus === null ? null : (ids.get(a.versus) ?? null),
  }));
  return { profile: typeof value.profile === "string" ? value.profile : "", list: numbered };
}

export function writeAnnotations(profile: string, annotations: Annotation[]): string {
  return `${JSON.stringify({ kind: FILE_KIND, version: 1, profile, annotations }, null, 2)}\n`;
}

function cell(text: string): string {
  // A spreadsheet takes what begins with these for a formula.
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function annotationsCsv(annotations: Annotation[]): string {
  const rows = annotations.map((a) => {
    const other = versusOf(annotations, a);
    return [cell(a.name), a.ts, other ? cell(other.name) : "", other ? a.ts - other.ts : ""].join(",");
  });
  return `name,ts_ns,diff_vs,diff_ns\n${rows.map((row) => `${row}\n`).join("")}`;
}

export function versusOf(annotations: Annotation[], annotation: Annotation): Annotation | null {
  if (annotation.versus !== null) return annotations.find((a) => a.id === annotation.versus) ?? null;
  const before = annotations.filter((a) => a.ts < annotation.ts || (a.ts === annotation.ts && a.id < annotation.id));
  return before.reduce<Annotation | null>((best, a) => (!best || a.ts > best.ts ? a : best), null);
}

function valid(value: unknown): Annotation[] {
  return Array.isArray(value) ? value.filter(isAnnotation) : [];
}

/** What the browser remembers of a profile's annotations, for all of its tabs. */
interface Memory {
  list: Annotation[];
  /** As the server had them last, and when; null: that is not known. */
  base: Annotation[];
  seen: number | null;
}

function memoryOf(value: unknown): Memory {
  const { list, base, seen } = (value ?? {}) as Record<string, unknown>;
  return { list: valid(list), base: valid(base), seen: typeof seen === "number" ? seen : null };
}

export class Annotations {
  readonly list: Store<Annotation[]>;
  /** What became of something that the user did. */
  readonly trouble = new Store<string | null>(null);
  private base: Annotation[];
  private seen: number | null = null;
  private arriving = false;
  private busy = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private wait = SAVE_MS;
  private readonly key: string;
  private readonly end: () => void;

  constructor(private readonly profile: string) {
    this.key = `annotations.${profile}`;
    const before = memoryOf(kept<unknown>(this.key, null));
    this.base = before.base;
    this.list = new Store(before.list);
    this.list.watch(() => {
      this.remember();
      if (this.arriving) return;
      this.trouble.set(null);
      this.soon();
    });
    this.end = onKept(this.key, (value) => this.follow(memoryOf(value)));
    void this.load();
  }

  /** What is not saved yet still will be. */
  close(): void {
    this.end();
  }

  private remember(): void {
    const { list, base, seen } = this;
    keep(this.key, { list: list.value, base, seen });
  }

  /** What another tab of this browser did. It had all of ours, since each change is remembered at once. */
  private follow({ list, base, seen }: Memory): void {
    this.base = base;
    if (seen !== null && this.seen !== null) this.seen = seen;
    this.arrive(list);
  }

  private arrive(list: Annotation[]): void {
    if (JSON.stringify(list) === JSON.stringify(this.list.value)) return;
    this.arriving = true;
    this.list.set(list);
    this.arriving = false;
  }

  /** What the server has joins what this browser has, and what the user has just done. False: it keeps nothing. */
  private async load(): Promise<boolean> {
    try {
      this.take(await loadItem("annotations", this.profile));
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 0) return false; // the browser keeps them
      this.later();
    }
    return true;
  }

  private take(item: Item<unknown> | null): void {
    const theirs = valid(item?.value);
    // Nothing there is no removal of all: the server may be a new one.
    const { list, beyond } = limited(item ? merged(this.base, this.list.value, theirs) : this.list.value);
    const names = beyond.map(({ name }) => `“${name}”`).join(", ");
    if (names)
      this.trouble.set(
        `Not kept: ${names}. Others have set annotations too, and a profile has at most ${MAX_ANNOTATIONS}.`,
      );
    this.know(theirs, item?.changed_ns ?? 0);
    this.arrive(list);
    if (JSON.stringify(list) !== JSON.stringify(theirs)) this.soon();
  }

  private know(base: Annotation[], seen: number): void {
    this.base = base;
    this.seen = seen;
    this.wait = SAVE_MS;
    this.remember();
  }

  private soon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.save(), SAVE_MS);
  }

  /** The server does not answer: again, and the longer it is silent, the less often. */
  private later(): void {
    clearTimeout(this.timer);
    this.wait = Math.min(this.wait * 2, MOST_WAIT_MS);
    this.timer = setTimeout(() => void this.save(), this.wait);
  }

  /** One request at a time; what somebody else has changed meanwhile is joined with what is to be saved, and that sent again. */
  private async save(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    const list = this.list.value;
    try {
      if (this.seen === null) await this.load();
      else {
        this.know(list, (await putItem("annotations", this.profile, list, this.seen)).changed_ns);
        if (this.list.value !== list) this.soon();
      }
    } catch (error) {
      // Refused: the browser has it.
      if (error instanceof ApiError && error.status === 409) await this.load();
      else if (error instanceof ApiError && error.status === 0) this.later();
    }
    this.busy = false;
  }

  add(ts: number): Annotation | null {
    const list = this.list.value;
    if (list.length >= MAX_ANNOTATIONS) return null;
    const id = freeId(new Set([...list, ...this.base].map((a) => a.id)), list.length + 1);
    const annotation = { id, name: `Mark ${id}`, ts: Math.round(ts), versus: null };
    this.list.set([...list, annotation]);
    return annotation;
  }

  change(id: number, change: Partial<Omit<Annotation, "id">>): void {
    this.list.update((list) => list.map((a) => (a.id === id ? { ...a, ...change } : a)));
  }

  remove(id: number): void {
    this.list.update((list) =>
      list.filter((a) => a.id !== id).map((a) => (a.versus === id ? { ...a, versus: null } : a)),
    );
  }

  replace(list: Annotation[]): void {
    this.list.set(list);
  }
}
