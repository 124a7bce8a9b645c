import { expect, test } from "vitest";
import type { SeriesData } from "../src/timeline/data";
import { drawSeries } from "../src/timeline/draw_series";
import type { PlacedRow, Scene } from "../src/timeline/scene";

const WIDTH = 100;

/** Where a line was drawn to, furthest to the right, before it was stroked. */
function reach(label: string, at: number[], to = 1200): number {
  let furthest = Number.NEGATIVE_INFINITY;
  let stroked = false;
  const point = (x: number) => {
    if (!stroked) furthest = Math.max(furthest, x);
  };
  const context = new Proxy({} as Record<string, unknown>, {
    get: (target, name: string) => {
      if (name === "lineTo") return point;
      if (name === "stroke") return () => (stroked = true);
      if (name === "measureText") return () => ({ width: 10 });
      return name in target ? target[name] : () => undefined;
    },
  }) as unknown as CanvasRenderingContext2D;
  const values = Float64Array.from(at, () => 5);
  const data = {
    from: 300,
    to,
    n: at.length,
    at: Float64Array.from(at),
    min: values,
    max: values,
    last: values,
    parts: [],
    step: 1,
    top: 5,
  };
  const scene = { width: WIDTH, height: 50, ratio: 1, view: { from: 1000, to: 1100 }, theme: {} };
  const placed = { row: { track: { label, unit: "percent" }, height: 30 }, top: 0 };
  drawSeries(context, scene as unknown as Scene, placed as unknown as PlacedRow, data as SeriesData);
  return furthest;
}

// Averages are joined by lines; deep inside the time between two samples there is only the one before.
for (const label of ["Estimated Cumulative MFU", "Estimated Instant MFU"])
  test(`${label} goes on to the edge`, () => {
    expect(reach(label, [400])).toBeGreaterThanOrEqual(WIDTH);
    expect(reach(label, [1020, 1060])).toBeGreaterThanOrEqual(WIDTH);
    expect(reach(label, [990, 1050, 1400])).toBeGreaterThanOrEqual(WIDTH);
    expect(reach(label, [])).toBe(Number.NEGATIVE_INFINITY);
  });

// What follows is not known until it has been asked for.
test("a line ends where nothing was asked for", () => {
  expect(reach("Estimated Instant MFU", [1020], 1060)).toBe(60);
  expect(reach("Estimated Cumulative MFU", [1020], 1060)).toBe(60);
});
