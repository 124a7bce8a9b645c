// How a user keeps order among profiles: folders, tags, favourites, and what was opened last. On the server, per user;
// where it keeps nothing, in the browser.

import { ApiError } from "../api/client";
import { keep, kept } from "../state/keep";
import { type Item, type Kind, loadItem, loadItems, putItem, removeItem, whyNoName } from "../state/kept";
import { Store } from "../state/store";

export const MAX_LISTED = 1000;
const MAX_RECENTS = 50;
const TRIES = 4;

export interface List {
  name: string;
  profiles: string[];
}

export interface ShelfState {
  folders: List[];
  tags: List[];
  favourites: string[];
  /** The newest first. */
  recents: string[];
}

type ListKind = "folders" | "tags";

const EMPTY: ShelfState = { folders: [], tags: [], favourites: [], recents: [] };

function isNames(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((name) => typeof name === "string");
}

export function readShelf(value: unknown): ShelfState {
  const from = (value ?? {}) as Record<string, unknown>;
  const lists = (part: unknown): List[] =>
    Array.isArray(part) ? part.filter((l) => typeof l?.name === "string" && isNames(l.profiles)) : [];
  const names = (part: unknown): string[] => (isNames(part) ? part : []);
  return {
    folders: lists(from.folders),
    tags: lists(from.tags),
    favourites: names(from.favourites),
    recents: names(from.recents),
  };
}

function listOf(item: Item<unknown>): List {
  return { name: item.key, profiles: isNames(item.value) ? item.value : [] };
}

function byName(a: List, b: List): number {
  return a.name.localeCompare(b.name);
}

export class Shelf {
  readonly state = new Store<ShelfState>(EMPTY);
  /** Does the server keep it? */
  private server = true;

  async load(): Promise<void> {
    try {
      const [folders, tags, favourites, recents] = await Promise.all(
        (["folders", "tags", "favourites", "recents"] as const).map(loadItems),
      );
      this.state.set({
        folders: folders!.map(listOf).sort(byName),
        tags: tags!.map(listOf).sort(byName),
        favourites: favourites!.map((item) => item.key),
        recents: recents!.map((item) => item.key),
      });
    } catch (error) {
      if (!(error instanceof ApiError) || (error.code !== "no_store" && error.code !== "not_found")) throw error;
      this.server = false;
      this.state.set(readShelf(kept<unknown>("shelf", null)));
    }
  }

  private set(next: ShelfState): void {
    this.state.set(next);
    if (!this.server) keep("shelf", next);
  }

  private setList(kind: ListKind, name: string, profiles: string[] | null): void {
    const others = this.state.value[kind].filter((list) => list.name !== name);
    const next = profiles === null ? others : [...others, { name, profiles }].sort(byName);
    this.set({ ...this.state.value, [kind]: next });
  }

  list(kind: ListKind, name: string): string[] {
    return this.state.value[kind].find((list) => list.name === name)?.profiles ?? [];
  }

  /** Changes a list as it is on the server, where another tab may have changed it meanwhile. */
  private async change(kind: ListKind, name: string, how: (names: string[]) => string[]): Promise<void> {
    for (let attempt = 1; this.server; attempt++) {
      const item = await loadItem(kind as Kind, name);
      const next = [...new Set(how(item ? listOf(item).profiles : []))];
      if (next.length > MAX_LISTED) throw new Error(`“${name}” would have more than ${MAX_LISTED} profiles.`);
      try {
        await putItem(kind, name, next, item?.changed_ns ?? 0);
        this.setList(kind, name, next);
        return;
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 409 || attempt === TRIES) throw error;
      }
    }
    this.setList(kind, name, [...new Set(how(this.list(kind, name)))]);
  }

  async create(kind: ListKind, name: string, profiles: string[] = []): Promise<void> {
    const why = whyNoName(name);
    if (why) throw new Error(why);
    if (this.state.value[kind].some((list) => list.name === name)) throw new Error(`There is “${name}” already.`);
    if (this.server) await putItem(kind, name, profiles, 0);
    this.setList(kind, name, profiles);
  }

  async rename(kind: ListKind, from: string, to: string): Promise<void> {
    if (from === to) return;
    const item = this.server ? await loadItem(kind, from) : null;
    await this.create(kind, to, item ? listOf(item).profiles : this.list(kind, from));
    await this.remove(kind, from);
  }

  async remove(kind: ListKind, name: string): Promise<void> {
    if (this.server) await removeItem(kind, name);
    this.setList(kind, name, null);
  }

  async addTo(kind: ListKind, name: string, profiles: string[]): Promise<void> {
    await this.change(kind, name, (names) => [...names, ...profiles]);
  }

  async takeFrom(kind: ListKind, name: string, profiles: string[]): Promise<void> {
    await this.change(kind, name, (names) => names.filter((n) => !profiles.includes(n)));
  }

  /** Out of all folders, into this one; null: into none. */
  async move(profiles: string[], folder: string | null): Promise<void> {
    if (folder !== null) await this.addTo("folders", folder, profiles);
    for (const { name, profiles: names } of this.state.value.folders)
      if (name !== folder && names.some((n) => profiles.includes(n))) await this.takeFrom("folders", name, profiles);
  }

  async favour(profiles: string[], on: boolean): Promise<void> {
    for (const name of profiles) {
      if (this.server) await (on ? putItem("favourites", name, true) : removeItem("favourites", name));
      const others = this.state.value.favourites.filter((n) => n !== name);
      this.set({ ...this.state.value, favourites: on ? [...others, name] : others });
    }
  }

  /** Profiles that are gone: nothing names them any more. */
  async forget(profiles: string[]): Promise<void> {
    const { folders, tags, favourites, recents } = this.state.value;
    const has = (names: string[]) => names.some((name) => profiles.includes(name));
    for (const list of folders) if (has(list.profiles)) await this.takeFrom("folders", list.name, profiles);
    for (const list of tags) if (has(list.profiles)) await this.takeFrom("tags", list.name, profiles);
    await this.favour(
      favourites.filter((name) => profiles.includes(name)),
      false,
    );
    for (const name of recents.filter((n) => profiles.includes(n))) if (this.server) await removeItem("recents", name);
    this.set({ ...this.state.value, recents: recents.filter((name) => !profiles.includes(name)) });
  }
}

/** A profile is being looked at: it is the newest of those that were opened. */
export async function noteOpened(name: string): Promise<void> {
  try {
    await putItem("recents", name, true);
  } catch {
    const shelf = readShelf(kept<unknown>("shelf", null));
    keep("shelf", { ...shelf, recents: [name, ...shelf.recents.filter((n) => n !== name)].slice(0, MAX_RECENTS) });
  }
}
