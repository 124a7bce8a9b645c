// Regions side by side: figures of one time through each.

import { REGION_FIGURES, type RegionFigure, type RegionRow } from "../../api/regions";

export interface Compared {
  figure: RegionFigure;
  values: (number | null)[];
}

export function keyOf({ path, pcore, instance }: RegionRow): string {
  return `${path} ${pcore ?? ""} ${instance ?? ""}`;
}

/** Of a region that ran several times, what one time has on average; a share of what could be done is no sum. */
export function figureOf(row: RegionRow, figure: RegionFigure): number | null {
  const value = row[figure];
  if (value === null || value === undefined) return null;
  return figure.endsWith("_percent") ? value : Math.round(value / Math.max(row.instances, 1));
}

/** Figures that at least one of the rows has and that are not 0 in all. */
export function compared(rows: RegionRow[]): Compared[] {
  return REGION_FIGURES.map((figure) => ({ figure, values: rows.map((row) => figureOf(row, figure)) })).filter(
    ({ values }) => values.some((value) => value !== null && value !== 0),
  );
}
