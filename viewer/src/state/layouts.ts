// Saved layouts. They belong to the user, not to a profile; the server keeps them where it does, and the browser.

import { keep, kept } from "./keep";
import { loadItems, removeItem, Saver, whyNoName } from "./kept";
import { DEFAULT_LAYOUT, type Item, type Layout, readLayout } from "./layout";
import { Store } from "./store";

const MAX_LAYOUTS = 100;

function saved(): Layout[] {
  const list = kept<unknown>("layouts", []);
  return Array.isArray(list) ? list.map(readLayout).filter((layout) => layout !== null) : [];
}

/** Why a layout cannot be saved under this name; null: it can. */
export function whyNoLayoutName(name: string): string | null {
  if (name === DEFAULT_LAYOUT.name) return `“${name}” is the layout that is always there.`;
  return whyNoName(name);
}

export class Layouts {
  readonly list = new Store<Layout[]>(saved());
  readonly name = new Store<string>(kept("layout", DEFAULT_LAYOUT.name));
  readonly items: Store<Item[]>;
  /** What a link asked for and nobody knows. */
  readonly absent = new Store<string | null>(null);
  /** The server has told which there are, or that it keeps none. */
  readonly synced: Promise<void>;
  private readonly savers = new Map<string, Saver<Item[]>>();

  constructor() {
    const last = readLayout(kept<unknown>("layout.now", null));
    this.items = new Store(last ? last.items : DEFAULT_LAYOUT.items);
    this.items.watch((items) => keep("layout.now", { name: this.name.value, items }));
    this.name.watch((name) => keep("layout", name));
    this.list.watch((list) => keep("layouts", list));
    this.synced = this.sync();
  }

  /** The server's layouts join those of this browser; of one name the server's is the one. */
  private async sync(): Promise<void> {
    try {
      const items = await loadItems("layouts");
      const theirs = items
        .map((item) => readLayout({ name: item.key, items: item.value }))
        .filter((layout) => layout !== null && layout.name !== DEFAULT_LAYOUT.name) as Layout[];
      const names = new Set(theirs.map((layout) => layout.name));
      const mine = this.list.value.filter((layout) => !names.has(layout.name));
      this.list.set([...mine, ...theirs].slice(-MAX_LAYOUTS));
      for (const layout of mine) this.send(layout);
    } catch {
      // The server keeps nothing: the browser does.
    }
  }

  private send(layout: Layout): void {
    const saver = this.savers.get(layout.name) ?? new Saver<Item[]>("layouts", layout.name);
    this.savers.set(layout.name, saver);
    saver.save(layout.items.map(({ id, type, x, y, w, h }) => ({ id, type, x, y, w, h })));
  }

  find(name: string): Layout | null {
    if (name === DEFAULT_LAYOUT.name) return DEFAULT_LAYOUT;
    return this.list.value.find((layout) => layout.name === name) ?? null;
  }

  /** Loads what a link names, as soon as it is known which there are. */
  async follow(name: string): Promise<void> {
    this.absent.set(null);
    // The layout that is there already may hold changes that are not saved yet.
    if (name === this.name.value || this.load(name)) return;
    await this.synced;
    if (!this.load(name)) this.absent.set(name);
  }

  load(name: string): boolean {
    const layout = this.find(name);
    if (!layout) return false;
    this.name.set(name);
    this.items.set(layout.items);
    return true;
  }

  save(name: string): void {
    const layout = { name, items: this.items.value };
    const others = this.list.value.filter((other) => other.name !== name);
    this.list.set([...others, layout].slice(-MAX_LAYOUTS));
    this.name.set(name);
    this.send(layout);
  }

  remove(name: string): void {
    this.list.set(this.list.value.filter((layout) => layout.name !== name));
    this.savers.get(name)?.drop();
    removeItem("layouts", name).catch(() => undefined);
  }
}
