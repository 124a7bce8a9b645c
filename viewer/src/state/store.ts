// A value that can be watched: all the state machinery that this page needs.

import { useEffect, useState } from "preact/hooks";

export class Store<T> {
  private readonly watchers = new Set<(value: T) => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(next: T): void {
    if (Object.is(next, this.current)) return;
    this.current = next;
    for (const watcher of [...this.watchers]) watcher(next);
  }

  update(change: (value: T) => T): void {
    this.set(change(this.current));
  }

  /** Returns the function that ends the watch. */
  watch(watcher: (value: T) => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }
}

export function useStore<T>(store: Store<T>): T {
  const [value, setValue] = useState(store.value);
  useEffect(() => {
    setValue(() => store.value);
    return store.watch((next) => setValue(() => next));
  }, [store]);
  return value;
}

/** Something that is asked from the server: its last good answer, whether a newer one is under way, and what went wrong. */
export interface Loaded<T> {
  value: T | null;
  busy: boolean;
  error: string | null;
}

export function nothing<T>(): Loaded<T> {
  return { value: null, busy: false, error: null };
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
