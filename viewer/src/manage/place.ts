// What of the list is looked at. It outlives the page, so that who comes back from a profile finds the list as it was.

import { Store } from "../state/store";
import type { Sort, Wanted } from "./list";
import type { ShelfState } from "./shelf";

export type Place = { kind: "all" | "favourites" | "recents" } | { kind: "folder"; name: string };

export interface Look {
  place: Place;
  tags: string[];
  text: string;
  state: string;
  sort: Sort;
  /** Where the pages before this one began, and this one. */
  cursors: string[];
}

export const look = new Store<Look>({
  place: { kind: "all" },
  tags: [],
  text: "",
  state: "",
  sort: { key: "received", descending: true },
  cursors: [],
});

/** Another question begins with its first page. */
export function lookAt(change: Partial<Omit<Look, "cursors">>): void {
  look.update((now) => ({ ...now, ...change, cursors: [] }));
}

function named(place: Place, shelf: ShelfState): string[] | null {
  if (place.kind === "favourites") return shelf.favourites;
  if (place.kind === "recents") return shelf.recents;
  if (place.kind === "folder") return shelf.folders.find((folder) => folder.name === place.name)?.profiles ?? [];
  return null;
}

/** A profile must be in the place and have every tag. */
export function wantedOf({ place, tags, text, state, sort }: Look, shelf: ShelfState): Wanted {
  let names = named(place, shelf);
  for (const tag of tags) {
    const tagged = new Set(shelf.tags.find((list) => list.name === tag)?.profiles ?? []);
    names = (names ?? [...tagged]).filter((name) => tagged.has(name));
  }
  return { text, state, sort, names, asNamed: place.kind === "recents" };
}

export function titleOf(place: Place): string {
  if (place.kind === "folder") return place.name;
  return place.kind === "all" ? "All profiles" : place.kind === "favourites" ? "Favourites" : "Recent";
}
