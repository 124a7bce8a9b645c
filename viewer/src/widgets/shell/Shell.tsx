// The grid of widgets: each can be added, removed, dragged by its title and resized at its corner.

import { useEffect, useRef, useState } from "preact/hooks";
import { COLUMNS, type Item, placedAt, ROW_HEIGHT, removed, totalRows } from "../../state/layout";
import type { Store } from "../../state/store";
import { useStore } from "../../state/store";
import { WIDGET_BY_TYPE, type WidgetProps } from "../registry";

interface Drag {
  kind: "move" | "size";
  x: number;
  y: number;
  item: Item;
}

/** Pointer handlers that change an item's place or size by whole cells. */
function useDrag(kind: Drag["kind"], item: Item, items: Store<Item[]>, cell: () => number) {
  const drag = useRef<Drag | null>(null);
  return {
    onPointerDown(event: PointerEvent) {
      if (event.button !== 0 || (event.target as HTMLElement).closest("button")) return;
      (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
      drag.current = { kind, x: event.clientX, y: event.clientY + window.scrollY, item };
      event.preventDefault();
    },
    onPointerMove(event: PointerEvent) {
      const now = drag.current;
      if (!now) return;
      const dx = Math.round((event.clientX - now.x) / cell());
      const dy = Math.round((event.clientY + window.scrollY - now.y) / ROW_HEIGHT);
      const { x, y, w, h } = now.item;
      const wanted =
        now.kind === "move" ? { ...now.item, x: x + dx, y: y + dy } : { ...now.item, w: w + dx, h: h + dy };
      items.set(placedAt(items.value, wanted));
    },
    onPointerUp() {
      drag.current = null;
    },
    onPointerCancel() {
      drag.current = null;
    },
  };
}

interface FrameProps extends WidgetProps {
  item: Item;
  items: Store<Item[]>;
  cell(): number;
}

/** Keyboard: the arrows move a widget whose title has the focus, with Shift they resize it. */
function moveByKey(event: KeyboardEvent, item: Item, items: Store<Item[]>): void {
  const steps: Record<string, [number, number]> = {
    ArrowLeft: [-1, 0],
    ArrowRight: [1, 0],
    ArrowUp: [0, -1],
    ArrowDown: [0, 1],
  };
  const step = steps[event.key];
  if (!step || event.target !== event.currentTarget) return;
  event.preventDefault();
  event.stopPropagation();
  const [dx, dy] = step;
  const wanted = event.shiftKey
    ? { ...item, w: item.w + dx, h: item.h + dy }
    : { ...item, x: item.x + dx, y: item.y + dy * (dy > 0 ? 4 : 1) };
  items.set(placedAt(items.value, wanted));
}

function Frame({ item, items, cell, profile, annotations }: FrameProps) {
  const kind = WIDGET_BY_TYPE.get(item.type);
  const move = useDrag("move", item, items, cell);
  const size = useDrag("size", item, items, cell);
  const style = {
    left: `${(item.x / COLUMNS) * 100}%`,
    width: `${(item.w / COLUMNS) * 100}%`,
    top: `${item.y * ROW_HEIGHT}px`,
    height: `${item.h * ROW_HEIGHT}px`,
  };
  const title = kind?.title ?? item.type;
  return (
    <div class="cell" style={style} data-widget={item.type}>
      <section class="widget" aria-label={title}>
        {/* biome-ignore lint/a11y/noStaticElementInteractions: a handle to drag; its keys are the arrows */}
        <header
          class="widget-head"
          tabIndex={0}
          title="Drag to move; with the keyboard: arrows move, Shift and arrows resize"
          onKeyDown={(event) => moveByKey(event, item, items)}
          {...move}
        >
          <h3>{title}</h3>
          <button
            type="button"
            class="tiny"
            aria-label={`Remove ${title}`}
            title="Remove"
            onClick={() => items.set(removed(items.value, item.id))}
          >
            ✕
          </button>
        </header>
        <div class="widget-body">
          {kind ? (
            <kind.Component profile={profile} annotations={annotations} />
          ) : (
            <p class="muted hint">This version has no such widget.</p>
          )}
        </div>
        <div class="widget-corner" aria-hidden="true" {...size} />
      </section>
    </div>
  );
}

export function Shell({ profile, annotations, items }: WidgetProps & { items: Store<Item[]> }) {
  const list = useStore(items);
  const grid = useRef<HTMLDivElement>(null);
  const [, setReady] = useState(false);
  useEffect(() => setReady(true), []);
  const before = useRef(list);
  useEffect(() => {
    const known = new Set(before.current.map((item) => item.id));
    const fresh = list.filter((item) => !known.has(item.id));
    before.current = list;
    // One that was added may lie below what is seen of the page; a whole layout may not jump.
    if (fresh.length !== 1 || known.size !== list.length - 1) return;
    const cells = grid.current?.querySelectorAll<HTMLElement>(":scope > .cell");
    cells?.[list.indexOf(fresh[0]!)]?.scrollIntoView({ block: "nearest" });
  }, [list]);
  const cell = () => (grid.current?.clientWidth ?? 1200) / COLUMNS;
  return (
    <div ref={grid} class="grid" style={{ height: `${totalRows(list) * ROW_HEIGHT}px` }}>
      {list.map((item) => (
        <Frame key={item.id} item={item} items={items} cell={cell} profile={profile} annotations={annotations} />
      ))}
    </div>
  );
}
