// What the server keeps for the user. Where it refuses or is not there, the browser's own memory is all there is.

import { ApiError, request, sendJson } from "../api/client";

export type Kind = "annotations" | "layouts" | "favourites" | "recents" | "folders" | "tags";

export interface Item<T> {
  key: string;
  value: T;
  changed_ns: number;
}

const WAIT_MS = 400;

function url(kind: Kind, key?: string): string {
  return `api/v1/${kind}${key === undefined ? "" : `/${encodeURIComponent(key)}`}`;
}

/** Why nothing can be kept under this name; null: it can. */
export function whyNoName(name: string): string | null {
  if (name.length === 0) return "A name is needed.";
  if (new TextEncoder().encode(name).length > 100) return "A name has at most 100 bytes.";
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(name)) return "A name has no control characters.";
  if (name === "." || name === "..") return `“${name}” is no name.`;
  return null;
}

/** The item, null when there is none; throws when the server keeps nothing. */
export async function loadItem(kind: Kind, key: string): Promise<Item<unknown> | null> {
  try {
    return (await (await request(url(kind, key))).json()) as Item<unknown>;
  } catch (error) {
    if (error instanceof ApiError && error.code === "not_found") return null;
    throw error;
  }
}

export async function loadItems(kind: Kind): Promise<Item<unknown>[]> {
  return ((await (await request(url(kind))).json()) as { items: Item<unknown>[] }).items;
}

/** Keeps a value; with `seen`, only if the item is still as it was then (0: not there). Throws what the server says. */
export async function putItem<T>(kind: Kind, key: string, value: T, seen?: number): Promise<Item<T>> {
  const body = seen === undefined ? { value } : { value, seen };
  return (await (await sendJson("PUT", url(kind, key), body)).json()) as Item<T>;
}

export async function removeItem(kind: Kind, key: string): Promise<void> {
  await sendJson("DELETE", url(kind, key));
}

/** Sends the newest value of one item after a while without changes, one request at a time; failures are dropped. */
export class Saver<T> {
  private timer: ReturnType<typeof setTimeout> | null = null;
  private next: { value: T } | null = null;
  private busy = false;

  constructor(
    private readonly kind: Kind,
    private readonly key: string,
  ) {}

  save(value: T): void {
    this.next = { value };
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.send(), WAIT_MS);
  }

  /** Forgets what was not sent yet. */
  drop(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    this.next = null;
  }

  private async send(): Promise<void> {
    this.timer = null;
    if (this.busy || !this.next) return;
    const { value } = this.next;
    this.next = null;
    this.busy = true;
    try {
      await sendJson("PUT", url(this.kind, this.key), { value });
    } catch {
      // Refused, or not there: the browser has it.
    }
    this.busy = false;
    if (this.next && this.timer === null) void this.send();
  }
}
