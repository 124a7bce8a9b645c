import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

interface Props {
  label: string;
  title?: string;
  tone?: "amber" | undefined;
  children: ComponentChildren;
}

/** A button with a list below it, which closes after a choice, with Escape, and when the focus or a click goes elsewhere. */
export function Menu({ label, title, tone, children }: Props) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  // With the list, not after it: Escape may come at once.
  useLayoutEffect(() => {
    if (!open) return;
    const away = (event: Event) => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    // Escape is the menu's alone: what lies below it would let go of its selection.
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      setOpen(false);
    };
    document.addEventListener("pointerdown", away);
    document.addEventListener("keydown", onKey, true);
    return () => {
      document.removeEventListener("pointerdown", away);
      document.removeEventListener("keydown", onKey, true);
    };
  }, [open]);
  const chosen = (event: MouseEvent) => {
    if ((event.target as HTMLElement).closest("[role=menuitem]")) setOpen(false);
  };
  return (
    <div ref={root} class="menu">
      <button
        type="button"
        class={tone ? `tone-${tone}` : ""}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-label={title}
        title={title}
        onClick={() => setOpen(!open)}
      >
        {title ? label : `${label} ▾`}
      </button>
      {open && (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the items are buttons, whose keys click
        <div class="menu-list" role="menu" tabIndex={-1} onClick={chosen}>
          {children}
        </div>
      )}
    </div>
  );
}
