// NKI regions and their instances, with the figures by which they are compared.

export const REGION_FIGURES = [
  "duration_ns",
  "instructions",
  "time_ns",
  "wait_ns",
  "mfu_percent",
  "hfu_percent",
  "hardware_flops",
  "hbm_read_bytes",
  "hbm_write_bytes",
  "sbuf_read_bytes",
  "sbuf_write_bytes",
  "psum_read_bytes",
  "psum_write_bytes",
  "tensor",
  "vector",
  "scalar",
  "gpsimd",
  "sync",
] as const;

export type RegionFigure = (typeof REGION_FIGURES)[number];

export type RegionRow = {
  path: string;
  pcore: number | null;
  /** Which of the region's instances, from 1; null: the region as a whole. */
  instance: number | null;
  instances: number;
  start_ts: number;
  end_ts: number;
} & Partial<Record<RegionFigure, number | null>>;

export interface RegionsAnswer {
  regions?: RegionRow[];
  instances?: RegionRow[];
  truncated: boolean;
}
