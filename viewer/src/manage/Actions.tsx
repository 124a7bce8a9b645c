// What can be done with the profiles that are checked.

import { sendJson } from "../api/client";
import type { ProfileRow } from "../state/profiles";
import { compareAddress, MAX_COMPARED, openAddress, sqlAddress, summaryAddress } from "../state/route";
import { copyText } from "../ui/copy";
import { Menu } from "../ui/Menu";
import { isReady } from "./list";
import { WHY_NOT } from "./session";
import type { Shelf, ShelfState } from "./shelf";

interface Props {
  chosen: ProfileRow[];
  shelf: Shelf;
  state: ShelfState;
  manages: boolean;
  onAsk(what: "folder" | "tags" | "delete"): void;
  /** Does it, tells what it did or what went wrong, and shows the list anew. */
  onDo(act: () => Promise<string>): void;
  onClear(): void;
}

interface ItemProps {
  label: string;
  why: string | null;
  onClick(): void;
}

function Item({ label, why, onClick }: ItemProps) {
  return (
    <button type="button" role="menuitem" disabled={why !== null} title={why ?? ""} onClick={onClick}>
      {label}
    </button>
  );
}

function whyNoComparison(chosen: ProfileRow[]): string | null {
  if (chosen.length < 2) return "Check two or more profiles";
  if (chosen.length > MAX_COMPARED) return `At most ${MAX_COMPARED}`;
  if (chosen.some((row) => row.kind === "ranks"))
    return "A profile of many ranks has no timeline of its own; check its ranks";
  return chosen.every(isReady) ? null : "Only profiles that are ready";
}

async function each(names: string[], act: (name: string) => Promise<unknown>): Promise<void> {
  for (const name of names) await act(name);
}

function count(n: number): string {
  return n === 1 ? "1 profile" : `${n} profiles`;
}

export function Actions({ chosen, shelf, state, manages, onAsk, onDo, onClear }: Props) {
  const names = chosen.map((row) => row.name);
  const [first] = names;
  const none = names.length === 0 ? "Check a profile" : null;
  const one = names.length === 1 ? (isReady(chosen[0]!) ? null : "It is not ready") : "Check one profile";
  const summed = chosen[0]?.kind === "ranks" ? "Its ranks have summaries" : one;
  const change = manages ? none : WHY_NOT;
  const liked = names.length > 0 && names.every((name) => state.favourites.includes(name));
  const pinned = chosen.length > 0 && chosen.every((row) => row.pinned);
  const go = (address: string) => {
    location.hash = address;
  };
  const favour = async () => {
    await shelf.favour(names, !liked);
    return liked ? `${count(names.length)} no favourites any more.` : `${count(names.length)} among the favourites.`;
  };
  const copy = async () => {
    const text = chosen.map((row) => new URL(openAddress(row), location.href).href).join("\n");
    if (!(await copyText(text))) throw new Error("The browser does not let the page copy.");
    return names.length === 1 ? "The link is copied." : `${names.length} links are copied.`;
  };
  const path = (name: string) => `api/v1/profiles/${encodeURIComponent(name)}`;
  const again = async () => {
    await each(names, (name) => sendJson("POST", `${path(name)}/reprocess`));
    return `${count(names.length)} will be processed again.`;
  };
  const pin = async () => {
    await each(names, (name) => sendJson("PUT", `${path(name)}/pin`, { pinned: !pinned }));
    return pinned ? `${count(names.length)} can be deleted again.` : `${count(names.length)} cannot be deleted.`;
  };
  return (
    <Menu label="Actions">
      <Item label="Compare profiles" why={whyNoComparison(chosen)} onClick={() => go(compareAddress(names))} />
      <Item label="Summary" why={summed} onClick={() => first && go(summaryAddress(first))} />
      <Item label="SQL" why={one} onClick={() => first && go(sqlAddress(first))} />
      <hr />
      <Item label="Add tag" why={none} onClick={() => onAsk("tags")} />
      <Item label="Move to folder" why={none} onClick={() => onAsk("folder")} />
      <Item label={liked ? "Remove from favourites" : "Favourite"} why={none} onClick={() => onDo(favour)} />
      <Item label="Copy link" why={none} onClick={() => onDo(copy)} />
      <hr />
      <Item label="Process again" why={change} onClick={() => onDo(again)} />
      <Item label={pinned ? "Unpin" : "Pin"} why={change} onClick={() => onDo(pin)} />
      <Item label="Delete" why={change} onClick={() => onAsk("delete")} />
      <hr />
      <Item label="Clear selection" why={none} onClick={onClear} />
    </Menu>
  );
}
