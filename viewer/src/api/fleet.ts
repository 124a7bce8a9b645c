// The fleet over days (collector/query/SERVE.md, "fleet").

import { getJson, type Params, query } from "./client";

export const GROUPS = ["job", "host", "rank", "cluster", "instance_type"] as const;
export type Group = (typeof GROUPS)[number];

export interface Figures {
  profiles: number;
  mfu_percent: number | null;
  hfu_percent: number | null;
  time_s: number | null;
  step_ns: number | null;
  throttled_percent: number | null;
  lost_records: number | null;
  lost_unknown: boolean | null;
}

export type Key = Partial<Record<Group, string | number | null>>;

export interface FleetRow {
  key: Key;
  name: string;
  profiles: number;
  this_week: Figures | null;
  week_before: Figures | null;
  delta: Record<"mfu_percent" | "hfu_percent" | "step_ns" | "throttled_percent" | "lost_records", number | null>;
  days: (Figures | null)[];
}

export interface FleetAnswer {
  from: string;
  to: string;
  days: string[];
  first_day: string | null;
  last_day: string | null;
  profiles: number;
  files: number;
  /** How many profiles of these days have been read; null: all. */
  loading: { read: number; of: number } | null;
  unreadable: number;
  total: number;
  page: number;
  size: number;
  rows: FleetRow[];
}

export interface FleetProfile {
  profile: string;
  job: string | null;
  host: string | null;
  rank: number | null;
  cluster: string | null;
  instance_type: string | null;
  day: string;
  time_unix_ns: string | null;
  mfu_percent: number | null;
  hfu_percent: number | null;
  time_s: number | null;
  step_ns: number | null;
  throttled_percent: number | null;
  lost_records: number | null;
  parent: string | null;
}

export interface FleetProfiles {
  total: number;
  page: number;
  size: number;
  rows: FleetProfile[];
}

export function fleet(params: Params, signal?: AbortSignal): Promise<FleetAnswer> {
  return getJson(`api/v1/fleet${query(params)}`, signal);
}

export function fleetProfiles(params: Params, signal?: AbortSignal): Promise<FleetProfiles> {
  return getJson(`api/v1/fleet/profiles${query(params)}`, signal);
}
