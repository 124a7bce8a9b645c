// Pointer, wheel and keys on the timeline.

import { MAX_ANNOTATIONS } from "../state/annotation_merge";
import { hitAt, refOf, snapped } from "./hit";
import { panned, span, zoomed } from "./scale";
import { AXIS_HEIGHT, headHeight, placedRows, timeOf } from "./scene";
import { NO_GESTURE, type TimelineView } from "./view";

const DRAG_AFTER = 4;
const WHEEL_ZOOM = 0.0016;
const WHEEL_PAN = 0.0009;
/** A key's step, as a share of what is seen. */
const KEY_PAN = 0.12;
const KEY_ZOOM = 1.35;

type Mode = "click" | "pan" | "axis" | "box" | "range" | "annotation";

interface Drag {
  mode: Mode;
  x0: number;
  y0: number;
  from: number;
  to: number;
  annotation: number | null;
}

export interface Callbacks {
  /** Ctrl or Cmd was held: go to the source line too. */
  toSource(): void;
  /** Does every key belong to this timeline? Else only those pressed while the pointer or the focus is on it. */
  alone: boolean;
}

function place(event: MouseEvent, target: HTMLElement): { x: number; y: number } {
  const rect = target.getBoundingClientRect();
  return { x: event.clientX - rect.left, y: event.clientY - rect.top };
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

/** Returns the function that lets go of everything. */
export function attach(
  view: TimelineView,
  canvas: HTMLElement,
  scroller: HTMLElement,
  callbacks: Callbacks,
): () => void {
  const { profile, scene } = view;
  let drag: Drag | null = null;

  function hoverAt(x: number, y: number): void {
    const hit = view.point(x, y);
    const lines = view.annotationAt(x) !== null;
    canvas.style.cursor = lines ? "ew-resize" : y < AXIS_HEIGHT ? "grab" : hit ? "pointer" : "default";
  }

  function down(event: PointerEvent): void {
    if (event.button !== 0) return;
    const { x, y } = place(event, canvas);
    const annotation = view.annotationAt(x);
    let mode: Mode = "click";
    if (annotation !== null) mode = "annotation";
    else if (y < AXIS_HEIGHT) mode = "axis";
    else if (profile.boxMode.value) mode = "box";
    else if (event.shiftKey) mode = "range";
    drag = { mode, x0: x, y0: y, ...profile.view.value, annotation };
    canvas.setPointerCapture(event.pointerId);
    canvas.focus({ preventScroll: true });
    if (mode === "axis") canvas.style.cursor = "grabbing";
  }

  /** Where a mark that is set or let go here stands: at an edge nearby, and inside the profile. */
  function markAt(x: number, y: number): { time: number; snapped: boolean } {
    const { time, snapped: is } = snapped(scene, view.data, x, y);
    const { from, to } = profile.extent;
    return { time: Math.min(Math.max(time, from), to), snapped: is };
  }

  function dragTo(now: Drag, x: number, y: number): void {
    const moved = Math.abs(x - now.x0) > DRAG_AFTER || Math.abs(y - now.y0) > DRAG_AFTER;
    if (now.mode === "click" && moved) now.mode = "pan";
    switch (now.mode) {
      case "pan":
      case "axis": {
        const by = ((now.x0 - x) / Math.max(scene.width, 1)) * (now.to - now.from);
        profile.look({ from: now.from + by, to: now.to + by });
        break;
      }
      case "box":
        view.setGesture({ ...NO_GESTURE, box: { x0: now.x0, y0: now.y0, x1: x, y1: y } });
        break;
      case "range": {
        const ends = [timeOf(scene, now.x0), timeOf(scene, x)].sort((a, b) => a - b);
        view.setGesture({ ...NO_GESTURE, zooming: { from: ends[0]!, to: ends[1]! } });
        break;
      }
      case "annotation": {
        if (!moved && view.gesture.annotation === null) break;
        const to = markAt(x, y);
        view.annotations.change(now.annotation!, { ts: to.time });
        view.setGesture({ ...NO_GESTURE, annotation: now.annotation });
        view.setHover({ x, y, time: to.time, snapped: to.snapped, hit: null, band: null });
        return;
      }
      case "click":
        break;
    }
    view.setHover(null);
  }

  function move(event: PointerEvent): void {
    const { x, y } = place(event, canvas);
    if (drag) dragTo(drag, x, y);
    else hoverAt(x, y);
  }

  function click(x: number, y: number, event: PointerEvent): void {
    if (y < headHeight(scene)) return;
    const hit = hitAt(scene, view.data, x, y);
    profile.select(hit ? refOf(hit) : null);
    if (hit && (event.ctrlKey || event.metaKey)) callbacks.toSource();
  }

  function finishBox(now: Drag, x: number, y: number): void {
    const [left, right] = [Math.min(now.x0, x), Math.max(now.x0, x)];
    const [top, bottom] = [Math.min(now.y0, y), Math.max(now.y0, y)];
    const tracks = placedRows(scene)
      .filter(
        (placed) => placed.top < bottom && placed.top + placed.row.height > top && placed.row.track.absent === null,
      )
      .map((placed) => placed.row.track.id);
    if (right - left > DRAG_AFTER && tracks.length > 0)
      profile.box.set({ from: Math.round(timeOf(scene, left)), to: Math.round(timeOf(scene, right)), tracks });
  }

  function up(event: PointerEvent): void {
    const now = drag;
    drag = null;
    if (!now) return;
    const { x, y } = place(event, canvas);
    if (now.mode === "click") click(x, y, event);
    if (now.mode === "box") finishBox(now, x, y);
    if (now.mode === "range" && view.gesture.zooming && span(view.gesture.zooming) > 0)
      profile.jump(view.gesture.zooming);
    view.setGesture(NO_GESTURE);
    hoverAt(x, y);
  }

  function leave(): void {
    if (!drag) view.setHover(null);
  }

  function wheel(event: WheelEvent): void {
    if (event.altKey) {
      scroller.scrollTop += event.deltaY;
      event.preventDefault();
      return;
    }
    event.preventDefault();
    // Lines and pages, as some mice count, to pixels.
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
    const { x, y } = place(event, canvas);
    const sideways = event.shiftKey ? dy || dx : Math.abs(dx) > Math.abs(dy) ? dx : 0;
    const now = profile.view.value;
    if (sideways !== 0) profile.view.set(panned(now, sideways * WHEEL_PAN, profile.extent));
    else profile.view.set(zoomed(now, timeOf(scene, x), Math.exp(dy * WHEEL_ZOOM), profile.extent));
    if (!drag) hoverAt(x, y);
  }

  function menu(event: MouseEvent): void {
    event.preventDefault();
    const { x, y } = place(event, canvas);
    if (view.annotationAt(x) !== null) return;
    if (!view.annotations.add(markAt(x, y).time))
      view.trouble.set(`A profile has at most ${MAX_ANNOTATIONS} annotations.`);
  }

  function double(event: MouseEvent): void {
    const { x, y } = place(event, canvas);
    const hit = hitAt(scene, view.data, x, y);
    if (hit) profile.focus({ start_ts: hit.data.start[hit.index]!, end_ts: hit.data.end[hit.index]! });
  }

  function keyZoom(factor: number): void {
    const at = view.hover.value?.time ?? (profile.view.value.from + profile.view.value.to) / 2;
    profile.view.set(zoomed(profile.view.value, at, factor, profile.extent));
  }

  function clear(): void {
    if (view.gesture.box || profile.box.value || profile.boxMode.value) {
      drag = null;
      view.setGesture(NO_GESTURE);
      profile.box.set(null);
      profile.boxMode.set(false);
    } else profile.select(null);
  }

  const pan = (share: number) => profile.view.set(panned(profile.view.value, share, profile.extent));
  const keys: Record<string, () => void> = {
    a: () => pan(-KEY_PAN),
    d: () => pan(KEY_PAN),
    arrowleft: () => pan(-KEY_PAN),
    arrowright: () => pan(KEY_PAN),
    w: () => keyZoom(1 / KEY_ZOOM),
    s: () => keyZoom(KEY_ZOOM),
    "+": () => keyZoom(1 / KEY_ZOOM),
    "-": () => keyZoom(KEY_ZOOM),
    arrowup: () => scroller.scrollBy({ top: -60 }),
    arrowdown: () => scroller.scrollBy({ top: 60 }),
    "0": () => profile.fit(),
    n: () => profile.step(true),
    p: () => profile.step(false),
    home: () => void profile.goToEnd(profile.track.value, false),
    end: () => void profile.goToEnd(profile.track.value, true),
    b: () => profile.boxMode.set(!profile.boxMode.value),
    escape: clear,
  };

  function key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    const name = event.key.toLowerCase();
    // Outside the timeline the arrows belong to whatever has the focus.
    const mine =
      event.target === document.body || (event.target instanceof Node && canvas.parentElement!.contains(event.target));
    const focused = event.target instanceof Node && canvas.parentElement!.contains(event.target);
    if (!callbacks.alone && !focused && view.hover.value === null) return;
    const action = keys[name];
    const scrolls = name.startsWith("arrow") || name === "home" || name === "end";
    if (!action || (scrolls && !mine)) return;
    event.preventDefault();
    action();
  }

  const listeners: [EventTarget, string, (event: never) => void][] = [
    [canvas, "pointerdown", down],
    [canvas, "pointermove", move],
    [canvas, "pointerup", up],
    [canvas, "pointercancel", up],
    [canvas, "pointerleave", leave],
    [canvas, "wheel", wheel],
    [canvas, "contextmenu", menu],
    [canvas, "dblclick", double],
    [window, "keydown", key],
  ];
  for (const [target, name, listener] of listeners)
    target.addEventListener(name, listener as EventListener, { passive: false });
  return () => {
    for (const [target, name, listener] of listeners) target.removeEventListener(name, listener as EventListener);
  };
}
