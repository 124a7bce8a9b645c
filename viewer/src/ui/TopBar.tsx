// The bar above a page: the way home, what the page shows, and where else one may go from it.

import type { ComponentChildren } from "preact";
import { ThemeButton } from "./ThemeButton";

interface Props {
  title: string;
  /** Beside the title. */
  about?: ComponentChildren;
  /** At the right. */
  children?: ComponentChildren;
}

export function TopBar({ title, about, children }: Props) {
  return (
    <header class="bar">
      <a href="#/" class="home" title="Profile Manager">
        kymo
      </a>
      <h1 title={title}>{title}</h1>
      {about}
      <span class="space" />
      {children}
      <ThemeButton />
    </header>
  );
}
