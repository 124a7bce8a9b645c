// Pointer, wheel and keys on the lanes, as on a profile's timeline.

import { panned, span, zoomed } from "../timeline/scale";
import { timeOf } from "../timeline/scene";
import type { LanesView } from "./view";

const DRAG_AFTER = 4;
const WHEEL_ZOOM = 0.0016;
const WHEEL_PAN = 0.0009;
const KEY_PAN = 0.12;
const KEY_ZOOM = 1.35;

const KEYS: Record<string, { pan?: number; zoom?: number; fit?: boolean }> = {
  a: { pan: -KEY_PAN },
  ArrowLeft: { pan: -KEY_PAN },
  d: { pan: KEY_PAN },
  ArrowRight: { pan: KEY_PAN },
  w: { zoom: 1 / KEY_ZOOM },
  s: { zoom: KEY_ZOOM },
  0: { fit: true },
};

/** Returns the function that lets go of everything. */
export function attachLanes(view: LanesView, canvas: HTMLElement, scroller: HTMLElement): () => void {
  const { model, scene } = view;
  let drag: { x: number; from: number; to: number; moved: boolean } | null = null;
  const place = (event: MouseEvent) => {
    const rect = canvas.getBoundingClientRect();
    return { x: event.clientX - rect.left, y: event.clientY - rect.top };
  };
  const zoom = (at: number, factor: number) => model.view.set(zoomed(model.view.value, at, factor, model.extent));

  function down(event: PointerEvent): void {
    if (event.button !== 0) return;
    drag = { x: place(event).x, ...model.view.value, moved: false };
    canvas.setPointerCapture(event.pointerId);
  }
  function move(event: PointerEvent): void {
    const { x, y } = place(event);
    if (drag && Math.abs(x - drag.x) > DRAG_AFTER) drag.moved = true;
    if (drag?.moved) {
      const by = ((drag.x - x) / Math.max(scene.width, 1)) * span(drag);
      model.look({ from: drag.from + by, to: drag.to + by });
    }
    view.point(x, y);
  }
  function up(): void {
    const hit = view.hover.value?.hit;
    if (drag && !drag.moved) model.choose(hit && hit.at !== null ? hit.lane.arrivals.id[hit.at]! : null, false);
    drag = null;
  }
  function wheel(event: WheelEvent): void {
    event.preventDefault();
    const by = event.deltaY || event.deltaX;
    if (event.ctrlKey) scroller.scrollTop += by;
    else if (event.shiftKey || event.deltaX) model.view.set(panned(model.view.value, by * WHEEL_PAN, model.extent));
    else zoom(timeOf(scene, place(event).x), Math.exp(by * WHEEL_ZOOM));
  }
  function key(event: KeyboardEvent): void {
    const action = KEYS[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowUp: -view.rowHeight, ArrowDown: view.rowHeight }[event.key];
    if (step) scroller.scrollTop += step;
    else if (event.key === "Escape") model.choose(null, false);
    else if (action?.fit) model.look({ from: model.extent.from, to: model.extent.to });
    else if (action?.pan) model.view.set(panned(model.view.value, action.pan, model.extent));
    else if (action?.zoom)
      zoom(view.hover.value?.time ?? (model.view.value.from + model.view.value.to) / 2, action.zoom);
    else return;
    event.preventDefault();
  }
  const leave = () => view.leave();
  canvas.addEventListener("pointerdown", down);
  canvas.addEventListener("pointermove", move);
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("wheel", wheel, { passive: false });
  canvas.addEventListener("keydown", key);
  return () => {
    canvas.removeEventListener("pointerdown", down);
    canvas.removeEventListener("pointermove", move);
    canvas.removeEventListener("pointerup", up);
    canvas.removeEventListener("pointerleave", leave);
    canvas.removeEventListener("wheel", wheel);
    canvas.removeEventListener("keydown", key);
  };
}
