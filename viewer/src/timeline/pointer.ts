// The pointer's line, its time and the border of what it rests on: elements, not a canvas, because a canvas that changes is copied and
// blended whole, and the pointer moves with every turn of the wheel.

import type { Range } from "../api/types";
import type { Hit } from "./hit";
import { span, tickText } from "./scale";
import { type Scene, xOf } from "./scene";

const BORDER = 1.5;

export interface PointerInput {
  x: number;
  time: number;
  snapped: boolean;
  hit: Hit | null;
}

export interface Border extends Pick<DOMRect, "left" | "top" | "width" | "height"> {
  clipTop: number;
  clipBottom: number;
}

/** Where the border around an event lies, cut off a little beside the view: an event may be much wider than that. */
export function borderOf(scene: Pick<Scene, "view" | "width">, hit: Omit<Hit, "track">): Border {
  const { data, index, placed } = hit;
  const tall = (placed.row.height - 4) / data.lanes;
  const x0 = xOf(scene, data.start[index]!);
  const x1 = Math.max(xOf(scene, data.end[index]!), x0 + 3);
  const left = Math.max(x0 - BORDER, -8);
  return {
    left,
    top: placed.top + 2 + (data.lane?.[index] ?? 0) * tall - BORDER,
    width: Math.min(x1 + BORDER, scene.width + 8) - left,
    height: tall + 2 * BORDER,
    clipTop: placed.clipTop,
    clipBottom: placed.clipBottom,
  };
}

function part(parent: HTMLElement, name: string): HTMLElement {
  const element = document.createElement("div");
  element.className = name;
  parent.append(element);
  return element;
}

export class Pointer {
  private readonly line: HTMLElement;
  private readonly clip: HTMLElement;
  private readonly border: HTMLElement;
  private readonly time: HTMLElement;
  private measured = { shape: "", width: 0 };

  constructor(private readonly root: HTMLElement) {
    root.replaceChildren();
    this.line = part(root, "pointer-line");
    this.clip = part(root, "pointer-clip");
    this.border = part(this.clip, "pointer-border");
    this.time = part(root, "pointer-time");
  }

  draw(scene: Scene, input: PointerInput | null): void {
    this.root.hidden = input === null;
    if (!input) return;
    const x = input.snapped ? xOf(scene, input.time) : input.x;
    this.line.style.transform = `translateX(${Math.round(x)}px)`;
    this.drawTime(scene, x, tickText(input.time, span(scene.view) / scene.width, span(scene.view)));
    this.drawBorder(input.hit && borderOf(scene, input.hit));
  }

  private drawTime(scene: { width: number; view: Range }, x: number, text: string): void {
    this.time.textContent = text;
    // All figures are equally wide, and measuring makes the page lay itself out.
    const shape = text.replace(/\d/g, "0");
    if (shape !== this.measured.shape) this.measured = { shape, width: this.time.offsetWidth };
    const { width } = this.measured;
    const left = Math.min(Math.max(x - width / 2, 0), scene.width - width);
    this.time.style.transform = `translateX(${Math.round(left)}px)`;
  }

  private drawBorder(border: Border | null): void {
    this.clip.hidden = border === null;
    if (!border) return;
    Object.assign(this.clip.style, {
      top: `${border.clipTop}px`,
      height: `${border.clipBottom - border.clipTop}px`,
    });
    Object.assign(this.border.style, {
      left: `${border.left}px`,
      top: `${border.top - border.clipTop}px`,
      width: `${border.width}px`,
      height: `${border.height}px`,
    });
  }
}
