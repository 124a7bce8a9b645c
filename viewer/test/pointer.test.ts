import { expect, test } from "vitest";
import { decodePacked } from "../src/api/packed";
import type { Track } from "../src/api/types";
import { eventData } from "../src/timeline/data";
import { borderOf } from "../src/timeline/pointer";
import { pack } from "./pack";

const columns = [
  { name: "start", type: "i64", values: [0, 200, 400] },
  { name: "end", type: "i64", values: [1000, 300, 400] },
];
const data = eventData(decodePacked(pack([{ id: "a", mode: "events", columns }])).tracks[0]!, [""]);
const row = { track: {} as Track, y: 0, height: 24 };
const placed = { row, top: 100, clipTop: 90, clipBottom: 500 };

test("the border lies around the event, in its lane", () => {
  const border = borderOf({ view: { from: 0, to: 1000 }, width: 1000 }, { placed, data, index: 1 });
  expect(data.lanes).toBe(2);
  expect(border).toEqual({ left: 198.5, top: 110.5, width: 103, height: 13, clipTop: 90, clipBottom: 500 });
});

test("it is seen around an event without length, and ends a little beside the view", () => {
  const scene = { view: { from: 400, to: 500 }, width: 1000 };
  expect(borderOf(scene, { placed, data, index: 2 })).toMatchObject({ left: -1.5, width: 6 });
  const { left, width } = borderOf(scene, { placed, data, index: 0 });
  expect(left).toBeLessThan(-2);
  expect(left + width).toBeGreaterThan(1002);
  expect(left + width).toBeLessThan(1020);
});
