// What a frame of the timeline needs to know, and where things lie in it. All lengths are CSS pixels.

import type { Range } from "../api/types";
import type { BandLane } from "./bands";
import { span } from "./scale";
import type { Row, Rows } from "./tracks";

export interface Theme {
  ground: string;
  row: string;
  rowAlt: string;
  line: string;
  text: string;
  muted: string;
  accent: string;
  amber: string;
  danger: string;
  found: string;
  focused: string;
  dark: boolean;
}

export const AXIS_HEIGHT = 26;
export const LANE_HEIGHT = 15;
export const FONT = '11px "DejaVu Sans", system-ui, sans-serif';

export interface Scene {
  width: number;
  height: number;
  ratio: number;
  view: Range;
  lanes: BandLane[];
  rows: Rows;
  scroll: number;
  theme: Theme;
}

export interface PlacedRow {
  row: Row;
  top: number;
  /** Where it may be seen: pinned rows cover those that scroll below them. */
  clipTop: number;
  clipBottom: number;
}

export function readTheme(element: Element): Theme {
  const style = getComputedStyle(element);
  const get = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    ground: get("plot"),
    row: get("row"),
    rowAlt: get("row-alt"),
    line: get("line"),
    text: get("text"),
    muted: get("muted"),
    accent: get("accent"),
    amber: get("amber"),
    danger: get("danger"),
    found: get("found"),
    focused: get("focused"),
    dark: get("scheme") === "dark",
  };
}

export function headHeight(scene: Pick<Scene, "lanes">): number {
  return AXIS_HEIGHT + scene.lanes.length * LANE_HEIGHT;
}

export function bodyTop(scene: Pick<Scene, "lanes" | "rows">): number {
  const pinned = scene.rows.pinnedHeight;
  return headHeight(scene) + (pinned ? pinned + 4 : 0);
}

export function xOf(scene: Pick<Scene, "view" | "width">, time: number): number {
  return ((time - scene.view.from) / span(scene.view)) * scene.width;
}

export function timeOf(scene: Pick<Scene, "view" | "width">, x: number): number {
  return scene.view.from + (x / Math.max(scene.width, 1)) * span(scene.view);
}

export function placedRows(scene: Scene): PlacedRow[] {
  const head = headHeight(scene);
  const body = bodyTop(scene);
  const out: PlacedRow[] = [];
  for (const row of scene.rows.pinned) out.push({ row, top: head + row.y, clipTop: head, clipBottom: body });
  for (const row of scene.rows.rest) {
    const top = body + row.y - scene.scroll;
    if (top + row.height > body && top < scene.height) out.push({ row, top, clipTop: body, clipBottom: scene.height });
  }
  return out;
}

export function rowAt(scene: Scene, y: number): PlacedRow | null {
  for (const placed of placedRows(scene)) {
    if (y < placed.clipTop || y >= placed.clipBottom) continue;
    if (y >= placed.top && y < placed.top + placed.row.height) return placed;
  }
  return null;
}
