// What the fleet page shows, as its address has it.

import { GROUPS, type Group, type Key } from "../api/fleet";

export const FILTERS = ["job", "host", "rank", "cluster", "instance_type", "text"] as const;
export type Filter = (typeof FILTERS)[number];

export const SORTS = [
  { sort: "loss", name: "Greatest loss of MFU" },
  { sort: "mfu", name: "Least MFU" },
  { sort: "step", name: "Steps that grew longest" },
  { sort: "lost", name: "Most records lost" },
  { sort: "name", name: "Name" },
] as const;

export interface FleetQuestion {
  group: Group;
  sort: string;
  /** Last day; null: today. */
  to: string | null;
  days: number;
  page: number;
  filters: Partial<Record<Filter, string>>;
}

export const SPANS = [14, 28, 56, 92];
export const GROUP_NAMES: Record<Group, string> = {
  job: "Job",
  host: "Host",
  rank: "Rank",
  cluster: "Cluster",
  instance_type: "Instance type",
};

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const DAY_MS = 86_400_000;

export function readFleet(params: URLSearchParams): FleetQuestion {
  const filters: FleetQuestion["filters"] = {};
  for (const name of FILTERS) {
    const value = params.get(name);
    if (value) filters[name] = value;
  }
  const to = params.get("to");
  return {
    group: GROUPS.find((name) => name === params.get("group")) ?? "job",
    sort: SORTS.find(({ sort }) => sort === params.get("sort"))?.sort ?? "loss",
    to: to && DAY.test(to) ? to : null,
    days: SPANS.find((days) => String(days) === params.get("days")) ?? SPANS[0]!,
    page: Math.max(Number.parseInt(params.get("page") ?? "0", 10) || 0, 0),
    filters,
  };
}

export function fleetAddress(question: Partial<FleetQuestion> = {}): string {
  const params = new URLSearchParams();
  const { group = "job", sort = "loss", to = null, days = SPANS[0]!, page = 0, filters = {} } = question;
  if (group !== "job") params.set("group", group);
  if (sort !== "loss") params.set("sort", sort);
  if (to) params.set("to", to);
  if (days !== SPANS[0]) params.set("days", String(days));
  if (page) params.set("page", String(page));
  for (const name of FILTERS) if (filters[name]) params.set(name, filters[name]);
  const text = params.toString();
  return text ? `#/fleet?${text}` : "#/fleet";
}

export function dayBefore(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) - days * DAY_MS).toISOString().slice(0, 10);
}

export function today(): string {
  return new Date().toISOString().slice(0, 10);
}

/** What the server is asked. */
export function rangeOf({ to, days }: Pick<FleetQuestion, "to" | "days">): { from: string; to: string } {
  const last = to ?? today();
  return { from: dayBefore(last, days - 1), to: last };
}

/** Filters that hold exactly a row's profiles. A row whose key is not known holds those of no name, which no filter finds. */
export function filtersOf(filters: FleetQuestion["filters"], key: Key): FleetQuestion["filters"] {
  const out = { ...filters };
  for (const [name, value] of Object.entries(key)) if (value !== null) out[name as Filter] = String(value);
  return out;
}
