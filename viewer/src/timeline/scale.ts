// Time and pixels: ranges that stay inside the profile, steps of zoom and pan, ticks of the axis, times as text.

import type { Range } from "../api/types";

export const MIN_SPAN = 10;
/** How much of the profile's length may lie beside it, so that its edges can be seen. */
const MARGIN = 0.02;

export function span(range: Range): number {
  return range.to - range.from;
}

export function padded(extent: Range): Range {
  const margin = Math.max(span(extent) * MARGIN, MIN_SPAN);
  return { from: extent.from - margin, to: extent.to + margin };
}

/** The range moved, and if need be shortened, to lie in the profile with its margin. */
export function clamped(range: Range, extent: Range): Range {
  const bounds = padded(extent);
  const length = Math.min(Math.max(span(range), MIN_SPAN), span(bounds));
  const middle = (range.from + range.to) / 2;
  const from = Math.min(Math.max(middle - length / 2, bounds.from), bounds.to - length);
  return { from, to: from + length };
}

/** factor < 1 zooms in. The time `at` stays where it is on the screen. */
export function zoomed(range: Range, at: number, factor: number, extent: Range): Range {
  const length = Math.min(Math.max(span(range) * factor, MIN_SPAN), span(padded(extent)));
  const share = (at - range.from) / span(range);
  const from = at - share * length;
  return clamped({ from, to: from + length }, extent);
}

/** Moves by a share of what is seen, so that a step looks the same at any zoom. */
export function panned(range: Range, share: number, extent: Range): Range {
  const by = share * span(range);
  return clamped({ from: range.from + by, to: range.to + by }, extent);
}

export function around(from: number, to: number, extent: Range, share = 0.3): Range {
  const length = Math.max((to - from) / share, MIN_SPAN * 4);
  const middle = (from + to) / 2;
  return clamped({ from: middle - length / 2, to: middle + length / 2 }, extent);
}

const STEPS = [1, 2, 5];

export function tickStep(length: number, pixels: number, distance = 90): number {
  const least = (length / Math.max(pixels, 1)) * distance;
  let power = 1;
  for (let i = 0; i < 18; i++, power *= 10) {
    for (const step of STEPS) if (step * power >= least) return step * power;
  }
  return power;
}

export function ticks(range: Range, pixels: number): { step: number; at: number[] } {
  const step = tickStep(span(range), pixels);
  const at: number[] = [];
  for (let t = Math.ceil(range.from / step) * step; t <= range.to && at.length < 1000; t += step) at.push(t);
  return { step, at };
}

const UNITS: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

/** A time on an axis with such a step: one unit for the whole axis, and as many digits as tell neighbours apart. */
export function tickText(ns: number, step: number, length: number): string {
  const [size, unit] = UNITS.find(([s]) => s <= Math.max(length / 5, 1)) ?? UNITS[3]!;
  const digits = Math.max(0, Math.ceil(Math.log10(size / step)));
  return `${(ns / size).toFixed(Math.min(digits, 9))} ${unit}`;
}

/** A duration or a time with four significant digits; exact below a microsecond. */
export function timeText(ns: number): string {
  const [size, unit] = UNITS.find(([s]) => Math.abs(ns) >= s) ?? UNITS[3]!;
  if (size === 1) return `${Math.round(ns * 100) / 100} ns`;
  return `${(ns / size).toPrecision(4).replace(/\.?0+$/, "")} ${unit}`;
}

/** The ends of a range, in the unit of the later one, with as many digits as tell apart places some pixels from each other. */
export function rangeText({ from, to }: Range): string {
  const [size, unit] = UNITS.find(([s]) => Math.max(Math.abs(from), Math.abs(to)) >= s) ?? UNITS[3]!;
  const wanted = Math.ceil(Math.log10((size / Math.max(to - from, 1)) * 100));
  const digits = Math.min(Math.max(wanted, 0), Math.round(Math.log10(size)));
  const text = (ns: number) => (ns / size).toFixed(digits).replace(/^-/, "\u2212");
  return `${text(from)} – ${text(to)} ${unit}`;
}

/** A place in time, to the nanosecond: 1 234 567 ns. */
export function exactText(ns: number): string {
  return `${groupDigits(Math.round(ns))} ns`;
}

export function groupDigits(value: number): string {
  const text = String(Math.abs(value)).replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
  return value < 0 ? `\u2212${text}` : text;
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytesText(bytes: number): string {
  let value = Math.abs(bytes);
  let unit = 0;
  while (value >= 1024 && unit < BYTE_UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${bytes < 0 ? "\u2212" : ""}${value.toFixed(digits)} ${BYTE_UNITS[unit]}`;
}

const RATE_UNITS = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"];

export function rateText(rate: number): string {
  let value = Math.abs(rate);
  let unit = 0;
  while (value >= 1000 && unit < RATE_UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${RATE_UNITS[unit]}`;
}

const FLOP_UNITS = ["", "K", "M", "G", "T", "P", "E"];

export function flopsText(flops: number): string {
  let value = Math.abs(flops);
  let unit = 0;
  while (value >= 1000 && unit < FLOP_UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${flops < 0 ? "\u2212" : ""}${Number(value.toPrecision(4))} ${FLOP_UNITS[unit]}FLOP`;
}

/** The least of 1, 2, 2.5, 5, 10, ... that holds the value: the top of a plot's scale. */
export function niceTop(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const found = [1, 2, 2.5, 5, 10].find((m) => m * power >= value * 0.9999);
  return (found ?? 10) * power;
}
