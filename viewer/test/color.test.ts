import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ColorTable, colorOf, customColors, DEPENDENCIES, PALETTE } from "../src/timeline/color";
import { type Color, ciede2000, closest, labOf, SIGHTS } from "./vision";

const sights = Object.keys(SIGHTS);

function parse(text: string): Color {
  const value = Number.parseInt(text.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** Values that the style sheet gives a variable: light, dark, and dark again. */
function variable(name: string): Color[] {
  const css = new TextDecoder().decode(readFileSync(new URL("../src/ui/style.css", import.meta.url)));
  return [...css.matchAll(new RegExp(`--${name}: (#[0-9a-f]{6});`, "g"))].map((match) => parse(match[1]!));
}

const grounds = ["plot", "row", "row-alt"].flatMap(variable);

function nearest(colors: Color[], others: Color[], sight: string): number {
  const labs = others.map((other) => labOf(other, sight));
  return Math.min(...colors.flatMap((color) => labs.map((lab) => ciede2000(labOf(color, sight), lab))));
}

test("the distance is CIEDE2000: pairs of its authors", () => {
  expect(ciede2000([50, 2.6772, -79.7751], [50, 0, -82.7485])).toBeCloseTo(2.0425, 4);
  expect(ciede2000([50, 2.5, 0], [73, 25, -18])).toBeCloseTo(27.1492, 4);
  expect(ciede2000([2.0776, 0.0795, -1.135], [0.9033, -0.0636, -0.5514])).toBeCloseTo(0.9082, 4);
});

test("the simulation takes red from those who do not see it", () => {
  const apart = (sight: string) => ciede2000(labOf([200, 60, 40], sight), labOf([130, 110, 30], sight));
  expect(apart("normal")).toBeGreaterThan(30);
  expect(apart("deuteranopia")).toBeLessThan(12);
});

test.each(sights)("any two colours of operators are told apart: %s", (sight) => {
  expect(PALETTE).toHaveLength(48);
  expect(closest(PALETTE, sight).distance).toBeGreaterThan(5);
});

test.each(sights)("colours of operators stand out from the grounds of both themes: %s", (sight) => {
  expect(grounds.length).toBeGreaterThanOrEqual(6);
  expect(nearest(PALETTE, grounds, sight)).toBeGreaterThan(16);
});

test.each(sights)("kinds of dependency are told apart, on both grounds: %s", (sight) => {
  const colors = DEPENDENCIES.map(({ color }) => parse(color));
  expect(closest(colors, sight).distance).toBeGreaterThan(16);
  expect(nearest(colors, grounds, sight)).toBeGreaterThan(16);
});

test.each(sights)("a match and the focused one are told apart in both themes: %s", (sight) => {
  const [found, focused] = [variable("found"), variable("focused")];
  found.forEach((color, i) => {
    expect(ciede2000(labOf(color, sight), labOf(focused[i]!, sight))).toBeGreaterThan(20);
  });
  expect(found.length).toBeGreaterThanOrEqual(2);
});

test("the table of a dictionary has its names' colours as pixels, also after one was chosen anew", () => {
  const dict = ["", "matmul"];
  const pixel = (name: string) => colorOf(name).reduce((sum, part, i) => sum + part * 256 ** i, 0);
  for (const place of [1, 0, 1]) expect(new ColorTable(dict).pixel(place)).toBe(pixel(dict[place]!));
  expect(new ColorTable(dict).pixel(2)).toBe(pixel(""));
  customColors.set({ matmul: "#010203" });
  expect(new ColorTable(dict).pixel(1)).toBe(0x030201);
});
