import { expect, test } from "vitest";
import type { RegionRow } from "../src/api/regions";
import { compared, figureOf, keyOf } from "../src/widgets/regions/compare";

const whole: RegionRow = {
  path: "attend",
  pcore: 0,
  instance: null,
  instances: 4,
  start_ts: 0,
  end_ts: 900,
  duration_ns: 400,
  instructions: 40,
  mfu_percent: 6,
  wait_ns: 0,
};
const one: RegionRow = { ...whole, instance: 2, instances: 1, duration_ns: 150, instructions: 10, mfu_percent: null };

test("of a region that ran several times the mean of one time is compared", () => {
  expect(figureOf(whole, "duration_ns")).toBe(100);
  expect(figureOf(whole, "mfu_percent")).toBe(6);
  expect(figureOf(one, "duration_ns")).toBe(150);
});

test("figures that some row has are compared, also where others do not have them", () => {
  const rows = compared([whole, one]);
  expect(rows).toEqual([
    { figure: "duration_ns", values: [100, 150] },
    { figure: "instructions", values: [10, 10] },
    { figure: "mfu_percent", values: [6, null] },
  ]);
});

test("regions, cores and instances have keys of their own", () => {
  expect(new Set([whole, one, { ...whole, pcore: 1 }, { ...whole, pcore: null }].map(keyOf)).size).toBe(4);
});
