// Sides of several captures each, and which of their differences exceed what the captures of one side differ among themselves.

import { getJson } from "./client";

export interface CompareSide {
  n: number;
  mean: number;
  min: number;
  max: number;
  values: (number | null)[];
}

export interface CompareDelta {
  abs: number;
  rel: number | null;
  spread: number | null;
  /** Null: with one capture on either side the noise is not known. */
  differs: boolean | null;
}

export interface CompareRow {
  key: string;
  field: string;
  unit: "ns" | "s" | "percent" | "bytes" | "count" | "number";
  sides: (CompareSide | null)[];
  deltas: (CompareDelta | null)[];
}

export type CompareList = "summary" | "operators" | "opcodes" | "throttles";

export interface CompareAnswer {
  sides: { base: boolean; profiles: string[] }[];
  summary: CompareRow[];
  operators: CompareRow[];
  opcodes: CompareRow[];
  throttles: CompareRow[];
  truncated: string[];
  /** Damaged tables that the figures are without, with commas between. */
  left_out: { profile: string; tables: string }[];
}

/** The first side is the base. */
export function compare(sides: string[][], signal?: AbortSignal): Promise<CompareAnswer> {
  const [base = [], ...others] = sides.map((side) => side.map(encodeURIComponent).join(","));
  return getJson(`api/v1/compare?base=${base}&profiles=${others.join(";")}`, signal);
}
