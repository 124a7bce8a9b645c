// Deep links: everything of a view that someone else should see lies behind the # of the address.

import type { EventRef, Range } from "../api/types";

export interface Link {
  page: "profiles" | "profile";
  profile: string | null;
  range: Range | null;
  selected: EventRef | null;
  layout: string | null;
  dma: string | null;
  split: boolean;
}

const WHOLE = /^-?\d{1,16}$/;

export function rangeOf(from: string | null, to: string | null): Range | null {
  if (!from || !to || !WHOLE.test(from) || !WHOLE.test(to)) return null;
  const range = { from: Number(from), to: Number(to) };
  return range.from < range.to ? range : null;
}

function eventOf(text: string | null): EventRef | null {
  const match = /^([A-Za-z]{1,40}):(\d{1,16})$/.exec(text ?? "");
  return match ? { table: match[1]!, id: Number(match[2]) } : null;
}

export function readLink(hash: string): Link {
  const [path = "", rest = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const params = new URLSearchParams(rest);
  const parts = path.split("/").filter(Boolean);
  let profile: string | null = null;
  if (parts[0] === "profile" && parts[1]) {
    try {
      profile = decodeURIComponent(parts[1]);
    } catch {
      profile = null; // no escape of ours: there is no such profile
    }
  }
  return {
    page: profile === null ? "profiles" : "profile",
    profile,
    range: rangeOf(params.get("from"), params.get("to")),
    selected: eventOf(params.get("event")),
    layout: params.get("layout"),
    dma: params.get("dma"),
    split: params.get("split") === "1",
  };
}

/** What an address asks for that is none: it is shown without, and should not be so without a word. */
export function unread(hash: string): string[] {
  const params = new URLSearchParams(hash.split(/\?(.*)/s, 2)[1] ?? "");
  const range = params.has("from") || params.has("to");
  const wrong: string[] = [];
  if (range && !rangeOf(params.get("from"), params.get("to"))) wrong.push("range");
  if (params.has("event") && !eventOf(params.get("event"))) wrong.push("event");
  return wrong;
}

export function writeLink(link: Link): string {
  if (link.page !== "profile" || link.profile === null) return "#/";
  const params = new URLSearchParams();
  if (link.range) {
    params.set("from", String(Math.floor(link.range.from)));
    params.set("to", String(Math.ceil(link.range.to)));
  }
  if (link.selected) params.set("event", `${link.selected.table}:${link.selected.id}`);
  if (link.dma) params.set("dma", link.dma);
  if (link.split) params.set("split", "1");
  if (link.layout) params.set("layout", link.layout);
  const text = params.toString().replaceAll("%3A", ":");
  return `#/profile/${encodeURIComponent(link.profile)}${text ? `?${text}` : ""}`;
}
