// What this browser remembers. A browser that refuses storage (private windows, policies) only forgets.

const PREFIX = "kymo.";

export function keep(name: string, value: unknown): void {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Full or refused: the page works on with what it has in memory.
  }
}

export function kept<T>(name: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

/** Tells what another tab of this browser keeps from now on; returns what ends that. */
export function onKept(name: string, watcher: (value: unknown) => void): () => void {
  const told = (event: StorageEvent) => {
    if (event.key !== PREFIX + name || event.newValue === null) return;
    try {
      watcher(JSON.parse(event.newValue));
    } catch {
      // Not ours.
    }
  };
  globalThis.addEventListener?.("storage", told);
  return () => globalThis.removeEventListener?.("storage", told);
}
