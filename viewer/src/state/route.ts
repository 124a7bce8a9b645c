// Which page the address names: what stands behind the #, up to the ?.

import type { Overview, Range } from "../api/types";
import { type FleetQuestion, readFleet } from "../fleet/question";
import { type Link, rangeOf, readLink } from "./link";

export type Route =
  | { page: "profiles" }
  | { page: "profile"; link: Link }
  | { page: "summary"; profile: string }
  | { page: "sql"; profile: string | null; sql: string | null }
  | { page: "compare"; profiles: string[]; base: string | null }
  | { page: "ranks"; profile: string; range: Range | null; collective: number | null }
  | { page: "fleet"; question: FleetQuestion };

export const MAX_COMPARED = 8;

function decoded(parts: string[]): string[] | null {
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return null; // no escape of ours: there is no such profile
  }
}

export function readRoute(hash: string): Route {
  const [path = "", rest = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s, 2);
  const params = new URLSearchParams(rest);
  const [page, ...parts] = path.split("/").filter(Boolean);
  const names = decoded(parts);
  const first = names?.[0];
  if (page === "profile" && first) return { page, link: readLink(hash) };
  if (page === "summary" && first) return { page, profile: first };
  if (page === "sql") return { page, profile: first ?? null, sql: params.get("sql") };
  if (page === "compare" && names && names.length > 0)
    return { page, profiles: [...new Set(names)].slice(0, MAX_COMPARED), base: params.get("base") };
  if (page === "ranks" && first) {
    const collective = params.get("collective") ?? "";
    const range = rangeOf(params.get("from"), params.get("to"));
    return { page, profile: first, range, collective: /^\d{1,15}$/.test(collective) ? Number(collective) : null };
  }
  if (page === "fleet") return { page, question: readFleet(params) };
  return { page: "profiles" };
}

export function ranksAddress(profile: string, range?: Range, collective?: number): string {
  const params = new URLSearchParams();
  if (range) {
    params.set("from", String(Math.floor(range.from)));
    params.set("to", String(Math.ceil(range.to)));
  }
  if (collective !== undefined) params.set("collective", String(collective));
  const text = params.toString();
  return `#/ranks/${encodeURIComponent(profile)}${text ? `?${text}` : ""}`;
}

export function summaryAddress(profile: string): string {
  return `#/summary/${encodeURIComponent(profile)}`;
}

export function sqlAddress(profile: string | null, sql?: string): string {
  const path = profile === null ? "#/sql" : `#/sql/${encodeURIComponent(profile)}`;
  return sql ? `${path}?sql=${encodeURIComponent(sql)}` : path;
}

export function compareAddress(profiles: string[], base?: string): string {
  const path = `#/compare/${profiles.map(encodeURIComponent).join("/")}`;
  return base ? `${path}?base=${encodeURIComponent(base)}` : path;
}

/** One of many ranks has no events of its own, but a page. */
export function hasRanks({ tables }: Overview): boolean {
  return !!tables.Member && !tables.Instruction;
}

/** Is it a system trace, and nothing else? */
export function isSystem({ tables }: Overview): boolean {
  return !tables.Instruction && Object.keys(tables).some((name) => name.startsWith("SystemProfile"));
}

/** Where a row of the list leads: one of many ranks has a page of its own. */
export function openAddress({ name, kind }: { name: string; kind?: string }): string {
  return kind === "ranks" ? ranksAddress(name) : profileAddress(name);
}

export function profileAddress(profile: string): string {
  return `#/profile/${encodeURIComponent(profile)}`;
}
