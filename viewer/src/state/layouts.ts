// Saved layouts. They belong to the user, not to a profile.

import { keep, kept } from "./keep";
import { DEFAULT_LAYOUT, type Item, type Layout, readLayout } from "./layout";
import { Store } from "./store";

const MAX_LAYOUTS = 100;

function saved(): Layout[] {
  const list = kept<unknown>("layouts", []);
  return Array.isArray(list) ? list.map(readLayout).filter((layout) => layout !== null) : [];
}

export class Layouts {
  readonly list = new Store<Layout[]>(saved());
  readonly name = new Store<string>(kept("layout", DEFAULT_LAYOUT.name));
  readonly items: Store<Item[]>;

  constructor() {
    const last = readLayout(kept<unknown>("layout.now", null));
    this.items = new Store(last ? last.items : DEFAULT_LAYOUT.items);
    this.items.watch((items) => keep("layout.now", { name: this.name.value, items }));
    this.name.watch((name) => keep("layout", name));
    this.list.watch((list) => keep("layouts", list));
  }

  find(name: string): Layout | null {
    if (name === DEFAULT_LAYOUT.name) return DEFAULT_LAYOUT;
    return this.list.value.find((layout) => layout.name === name) ?? null;
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
  }

  remove(name: string): void {
    this.list.set(this.list.value.filter((layout) => layout.name !== name));
  }
}
