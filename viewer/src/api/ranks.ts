// Profiles of many ranks (collector/query/SERVE.md, "ranks"): members with their clocks, collectives with their skew, lanes on one axis.

import { getJson, getPacked, query } from "./client";
import type { Packed } from "./packed";
import type { Range } from "./types";

export interface Rank {
  profile: string;
  state: string;
  reason: string | null;
  rank: number | null;
  worker: number | null;
  host: string | null;
  job: string | null;
  instance_type: string | null;
  warnings: number | null;
  lost_records: number | null;
  /** On the common axis; null: it has no clock. */
  from: number | null;
  to: number | null;
  offset_ns: number | null;
  drift_ppm: number | null;
  method: string | null;
  device_error_ns: number | null;
  host_error_ns: number | null;
  /** How far a time of it may be off the others'; null: nobody knows. */
  error_ns: number | null;
  contradict: boolean | null;
  mfu_percent: number | null;
  hfu_percent: number | null;
  collectives: number | null;
  wait_ns: number | null;
  late_ns: number | null;
  last_arrivals: number;
  counted: number;
  expected: number | null;
  caused_wait_ns: number;
  score: number | null;
  outlier: boolean;
  why: string | null;
}

export interface RanksAnswer {
  zero_unix_ns: string;
  extent: Range;
  one_clock: boolean;
  total: number;
  /** Members that are not among ranks. */
  left_out: number;
  /** Could members be asked for their own figures? There may be too many to name. */
  figures: boolean;
  collectives: number;
  counted: number;
  certain: boolean;
  spread_ns: number | null;
  operations: string[];
  outliers: number;
  warnings: { category: string; message: string }[];
  ranks: Rank[];
}

export interface Arrival {
  profile: string;
  rank: number | null;
  worker: number | null;
  host: string | null;
  at: number | null;
  end: number | null;
  late_ns: number | null;
  wait_ns: number | null;
  error_bound_ns: number | null;
  cc_op_id: number | null;
}

export interface Skew {
  id: number;
  operation: string;
  op_id: number | null;
  replica_group: string;
  invocation: number;
  num_elements: number | null;
  dtype: string | null;
  members: number;
  arrived: number;
  first: number | null;
  last: number | null;
  end: number | null;
  spread_ns: number | null;
  duration_ns: number | null;
  transfer_ns: number | null;
  error_bound_ns: number | null;
  significant: boolean | null;
  consistent: boolean | null;
  missing_workers: string | null;
  first_profile: string | null;
  last_profile: string | null;
  arrivals?: Arrival[];
}

export interface SkewAnswer {
  total: number;
  page: number;
  size: number;
  truncated: boolean;
  rows: Skew[];
}

export interface SkewQuestion {
  sort: string;
  operation: string;
  last: string;
  significant: boolean;
  window: Range | null;
  page: number;
}

export const SKEW_PAGE = 50;
const RANKS_PAGE = 256;
const RANKS_MAX = 16;

export class RanksApi {
  private readonly base: string;

  constructor(readonly name: string) {
    this.base = `api/v1/profiles/${encodeURIComponent(name)}`;
  }

  /** Members, outliers first, the rest by rank: all, or as many as the page can hold. */
  async ranks(signal?: AbortSignal): Promise<RanksAnswer> {
    const answer = await getJson<RanksAnswer>(`${this.base}/ranks`, signal);
    for (let page = 1; page < RANKS_MAX && page * RANKS_PAGE < answer.total; page++) {
      const more = await getJson<RanksAnswer>(`${this.base}/ranks${query({ page })}`, signal);
      answer.ranks.push(...more.ranks);
      answer.left_out = more.left_out;
    }
    return answer;
  }

  skew(question: SkewQuestion, signal?: AbortSignal): Promise<SkewAnswer> {
    const { window, significant, sort, operation, last, page } = question;
    const from = window && Math.floor(window.from);
    const to = window && Math.ceil(window.to);
    const params = { from, to, sort, operation, last, significant: significant || null, page, size: SKEW_PAGE };
    return getJson(`${this.base}/skew${query(params)}`, signal);
  }

  /** One collective with all its arrivals. */
  async collective(id: number, signal?: AbortSignal): Promise<Skew | null> {
    const answer = await getJson<SkewAnswer>(`${this.base}/skew${query({ id, arrivals: 1 })}`, signal);
    return answer.rows[0] ?? null;
  }

  lanes(range: Range, width: number, profiles: string[], signal?: AbortSignal): Promise<Packed> {
    const names = profiles.map(encodeURIComponent).join(",");
    return getPacked(`${this.base}/ranks/lanes${query({ ...range, width })}&profiles=${names}`, signal);
  }
}
