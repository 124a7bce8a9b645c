// The rows that the Profile Manager shows: a page of the server's list, or profiles that a folder, a tag or the user's
// favourites name. Never all: a server may have many thousands.

import { getJson, query, sendJson } from "../api/client";
import type { ProfileRow } from "../state/profiles";

export const PAGE = 50;
const FIND_MAX = 100;
const EMPTY_PAGES_MAX = 100;

export type SortKey = "name" | "received" | "finished";

export interface Sort {
  key: SortKey;
  descending: boolean;
}

export interface Wanted {
  text: string;
  state: string;
  sort: Sort;
  /** Only these, from a folder and the like; null: all. */
  names: string[] | null;
  /** In the order of the names instead of the sort's: what was opened last. */
  asNamed: boolean;
}

export interface Page {
  rows: ProfileRow[];
  /** Where the next page begins; null: there is none. */
  next: string | null;
}

export function matches(row: ProfileRow, text: string, state: string): boolean {
  if (state && row.state !== state) return false;
  return `${row.name} ${row.job ?? ""} ${row.host ?? ""}`.toLowerCase().includes(text.toLowerCase());
}

function value(row: ProfileRow, key: SortKey): string | number {
  return key === "name" ? row.name : ((key === "received" ? row.received_ns : row.finished_ns) ?? 0);
}

export function sorted(rows: ProfileRow[], { key, descending }: Sort): ProfileRow[] {
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const x = value(a, key);
    const y = value(b, key);
    return sign * (x < y ? -1 : x > y ? 1 : a.name < b.name ? -1 : 1);
  });
}

export async function findProfiles(names: string[], signal?: AbortSignal): Promise<ProfileRow[]> {
  const found: ProfileRow[] = [];
  for (let i = 0; i < names.length; i += FIND_MAX) {
    const response = await sendJson("POST", "api/v1/profiles/find", { names: names.slice(i, i + FIND_MAX) }, signal);
    found.push(...((await response.json()) as { profiles: ProfileRow[] }).profiles);
  }
  return found;
}

function cut(rows: ProfileRow[], place: string | null): Page {
  const from = Number(place ?? 0);
  const end = from + PAGE;
  return { rows: rows.slice(from, end), next: end < rows.length ? String(end) : null };
}

/** A server of plain directories has few profiles, and gives them all. */
async function pageOfAll(wanted: Wanted, place: string | null, signal: AbortSignal): Promise<Page> {
  const { profiles } = await getJson<{ profiles: ProfileRow[] }>("api/v1/profiles", signal);
  const rows = profiles.filter((row) => matches(row, wanted.text, wanted.state));
  return cut(sorted(rows, wanted.sort), place);
}

async function pageOfNames(wanted: Wanted, place: string | null, signal: AbortSignal): Promise<Page> {
  const all = await findProfiles(wanted.names ?? [], signal);
  const rows = all.filter((row) => matches(row, wanted.text, wanted.state));
  return cut(wanted.asNamed ? rows : sorted(rows, wanted.sort), place);
}

/** A page of the server's may be empty though others follow: it looks at so many rows and no more for each answer. */
async function pageOfServer(wanted: Wanted, place: string | null, signal: AbortSignal): Promise<Page> {
  const { text, state, sort } = wanted;
  const order = `${sort.descending ? "-" : ""}${sort.key}`;
  const rows: ProfileRow[] = [];
  let cursor = place;
  for (let i = 0; i < EMPTY_PAGES_MAX; i++) {
    const url = `api/v1/profiles${query({ text, state, sort: order, limit: PAGE - rows.length, cursor })}`;
    const answer = await getJson<{ profiles: ProfileRow[]; next: string | null }>(url, signal);
    rows.push(...answer.profiles);
    cursor = answer.next;
    if (cursor === null || rows.length === PAGE) break;
  }
  return { rows, next: cursor };
}

export function loadPage(wanted: Wanted, place: string | null, plain: boolean, signal: AbortSignal): Promise<Page> {
  if (wanted.names !== null) return pageOfNames(wanted, place, signal);
  return plain ? pageOfAll(wanted, place, signal) : pageOfServer(wanted, place, signal);
}

/** Something is being made of it: its row will change. */
export function isMoving(row: ProfileRow): boolean {
  return row.state === "received" || row.state === "queued" || row.state === "processing";
}

export function isReady(row: ProfileRow): boolean {
  return row.state === undefined || row.state === "ready";
}

export function progressOf(row: ProfileRow): number | null {
  return row.total && row.done !== undefined ? Math.min(row.done / row.total, 1) : null;
}

/** Less where the collector keeps the file, and less what stands behind it as a number of its own. */
export function reasonText(reason: string | undefined): string {
  if (!reason) return "no reason is known";
  return reason.replace(/\S*\/raw\/(captures|neff)\/(\S*\/)?/g, "").replace(/: offset \d+:/, ":");
}

/** The state as a person reads it, with why and where. */
export function stateText(row: ProfileRow): string {
  const at = row.file_offset === undefined ? "" : ` (at byte ${row.file_offset} of the file)`;
  if (row.state === "failed") return `failed: ${reasonText(row.reason)}${at}`;
  if (row.state === "queued" && row.reason) return `queued: ${row.reason}`;
  if (row.state !== "processing") return row.state ?? "ready";
  const part = progressOf(row);
  return `processing${row.stage ? `: ${row.stage}` : ""}${part === null ? "" : `, ${Math.round(part * 100)} %`}`;
}
