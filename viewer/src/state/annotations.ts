// Marks that the user sets on the timeline. They are kept per profile, on the server where it keeps such things and in
// the browser, can be saved to a file and loaded from one.

import { keep, kept } from "./keep";
import { loadItem, Saver } from "./kept";
import { Store } from "./store";

export interface Annotation {
  id: number;
  name: string;
  ts: number;
  /** The annotation that this one is compared with; null: the one before it. */
  versus: number | null;
}

const MAX_ANNOTATIONS = 500;
const MAX_NAME = 200;
const FILE_KIND = "kymo-annotations";

export function isAnnotation(value: unknown): value is Annotation {
  if (typeof value !== "object" || value === null) return false;
  const { id, name, ts, versus } = value as Record<string, unknown>;
  const numbers =
    Number.isSafeInteger(id) && Number.isSafeInteger(ts) && (versus === null || Number.isSafeInteger(versus));
  return numbers && typeof name === "string" && name.length <= MAX_NAME;
}

/** What a file of annotations holds; throws with a reason when it is something else. */
export function readAnnotations(text: string): Annotation[] {
  let value: { kind?: unknown; annotations?: unknown };
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("This file is no JSON.");
  }
  const list = value?.annotations;
  if (value?.kind !== FILE_KIND || !Array.isArray(list)) throw new Error("This file holds no annotations.");
  if (list.length > MAX_ANNOTATIONS) throw new Error(`More than ${MAX_ANNOTATIONS} annotations.`);
  if (!list.every(isAnnotation)) throw new Error("An annotation in this file is not complete.");
  return list;
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

export class Annotations {
  readonly list: Store<Annotation[]>;
  private arriving = false;

  constructor(private readonly profile: string) {
    const before = kept<unknown>(`annotations.${profile}`, []);
    this.list = new Store(Array.isArray(before) ? before.filter(isAnnotation) : []);
    const saver = new Saver<Annotation[]>("annotations", profile);
    this.list.watch((list) => {
      keep(`annotations.${this.profile}`, list);
      if (!this.arriving) saver.save(list);
    });
    void this.load(saver);
  }

  /** What the server has wins over what this browser remembers, but not over what the user has just done. */
  private async load(saver: Saver<Annotation[]>): Promise<void> {
    const before = this.list.value;
    try {
      const item = await loadItem("annotations", this.profile);
      if (this.list.value !== before) return;
      if (item && Array.isArray(item.value)) {
        this.arriving = true;
        this.list.set(item.value.filter(isAnnotation));
        this.arriving = false;
      } else if (before.length > 0) {
        saver.save(before);
      }
    } catch {
      // The server keeps nothing: the browser does.
    }
  }

  add(ts: number): Annotation | null {
    const list = this.list.value;
    if (list.length >= MAX_ANNOTATIONS) return null;
    const id = list.reduce((most, a) => Math.max(most, a.id), 0) + 1;
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
