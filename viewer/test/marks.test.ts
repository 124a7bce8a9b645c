import { expect, test } from "vitest";
import type { Column, PackedTrack } from "../src/api/packed";
import { markShape, stripShare } from "../src/timeline/marks";

const VIEW = { from: 1000, to: 2000 };

/** Marks [start, end, count] over 100 pixels of 10 ns. */
function shape(marks: [number, number, number][], named = true) {
  const columns = new Map<string, Column>([
    ["start", Float64Array.from(marks, (mark) => mark[0])],
    ["end", Float64Array.from(marks, (mark) => mark[1])],
  ]);
  if (named)
    columns.set(
      "count",
      Uint32Array.from(marks, (mark) => mark[2]),
    );
  const track: PackedTrack = { id: "t", mode: "marks", n: marks.length, bucketNs: 0, columns };
  return markShape(track, VIEW, 100);
}

test("wide marks have boxes", () => {
  expect(shape([[1100, 1200, 1]])).toEqual({ boxes: [[10, 20]], strips: [] });
});

test("a narrow mark alone is told apart from a crowd", () => {
  const { strips } = shape([
    [1100, 1105, 1],
    [1500, 1505, 3],
    [1520, 1525, 2],
  ]);
  expect(strips).toEqual([
    { x0: 10, x1: 11, count: 1, alone: true },
    { x0: 50, x1: 51, count: 3, alone: false },
    { x0: 52, x1: 53, count: 2, alone: false },
  ]);
});

test("the number of marks in a pixel counts, from the server's count and from themselves", () => {
  expect(shape([[1300, 1309, 40]]).strips).toEqual([{ x0: 30, x1: 31, count: 40, alone: true }]);
  const { strips } = shape(
    [
      [1300, 1302, 0],
      [1304, 1306, 0],
      [1311, 1312, 0],
    ],
    false,
  );
  expect(strips.map(({ x0, count }) => [x0, count])).toEqual([
    [30, 2],
    [31, 1],
  ]);
});

test("what reaches into a column is there, and the same numbers are one strip", () => {
  expect(shape([[1100, 1140, 1]]).strips).toEqual([{ x0: 10, x1: 14, count: 1, alone: true }]);
});

test("marks outside the view or at its edges do not break out of it", () => {
  const { strips } = shape([
    [0, 500, 1],
    [995, 1005, 1],
    [1995, 2100, 9],
    [2000, 2001, 1],
  ]);
  expect(strips).toEqual([
    { x0: 0, x1: 1, count: 1, alone: true },
    { x0: 99, x1: 100, count: 9, alone: true },
  ]);
});

test("heights grow with the number", () => {
  expect(stripShare(1, 100)).toBe(0);
  expect(stripShare(100, 100)).toBe(1);
  expect(stripShare(10, 100)).toBeCloseTo(0.5);
  expect(stripShare(1, 1)).toBe(0);
});
