// Dark or light: as the system says, unless the user chose.

import { keep, kept } from "../state/keep";
import { Store } from "../state/store";

export type ThemeName = "dark" | "light";

const system = window.matchMedia("(prefers-color-scheme: dark)");

function chosen(): ThemeName {
  const before = kept<string>("theme", "");
  if (before === "dark" || before === "light") return before;
  return system.matches ? "dark" : "light";
}

export const theme = new Store<ThemeName>(chosen());

function apply(name: ThemeName): void {
  document.documentElement.dataset.theme = name;
}

apply(theme.value);
theme.watch(apply);
system.addEventListener("change", () => theme.set(chosen()));

export function toggleTheme(): void {
  const next = theme.value === "dark" ? "light" : "dark";
  keep("theme", next);
  theme.set(next);
}
