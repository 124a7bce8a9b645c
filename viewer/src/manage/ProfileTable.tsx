// The rows of the list: what each profile is, its state, where it leads.

import type { ProfileRow } from "../state/profiles";
import { openAddress, sqlAddress, summaryAddress } from "../state/route";
import { bytesText } from "../timeline/scale";
import { isReady, progressOf, type Sort, type SortKey, stateText } from "./list";

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** 30 Nov 10:49, of another year 30 Nov 2025. */
function dayText(ns: number | undefined): string {
  if (!ns) return "";
  const date = new Date(ns / 1e6);
  const two = (n: number) => String(n).padStart(2, "0");
  const day = `${date.getDate()} ${MONTHS[date.getMonth()]}`;
  if (date.getFullYear() !== new Date().getFullYear()) return `${day} ${date.getFullYear()}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

function exactDay(ns: number | undefined): string {
  return ns ? new Date(ns / 1e6).toLocaleString() : "";
}

interface HeadProps {
  all: boolean;
  some: boolean;
  sort: Sort | null;
  onAll(on: boolean): void;
  onSort(sort: Sort): void;
}

function SortHead({
  name,
  label,
  sort,
  onSort,
}: { name: SortKey; label: string } & Pick<HeadProps, "sort" | "onSort">) {
  const now = sort?.key === name ? (sort.descending ? "descending" : "ascending") : "none";
  const mark = now === "none" ? "" : now === "descending" ? " ▾" : " ▴";
  // Names are read from A on, times from the newest.
  const next = now === "none" ? name !== "name" : now === "ascending";
  return (
    <th scope="col" aria-sort={now}>
      <button type="button" class="sort" disabled={!sort} onClick={() => onSort({ key: name, descending: next })}>
        {label}
        {mark}
      </button>
    </th>
  );
}

function Head({ all, some, sort, onAll, onSort }: HeadProps) {
  return (
    <thead>
      <tr>
        <th scope="col">
          <input
            type="checkbox"
            aria-label="Select all"
            checked={all}
            indeterminate={some && !all}
            onChange={(event) => onAll(event.currentTarget.checked)}
          />
        </th>
        <th scope="col">
          <span class="off-screen">Favourite</span>
        </th>
        <SortHead name="name" label="Profile" sort={sort} onSort={onSort} />
        <th scope="col">State</th>
        <th scope="col">Job</th>
        <th scope="col">Host</th>
        <th scope="col" class="number">
          Rank
        </th>
        <th scope="col" class="number">
          Size
        </th>
        <SortHead name="received" label="Received" sort={sort} onSort={onSort} />
        <SortHead name="finished" label="Finished" sort={sort} onSort={onSort} />
        <th scope="col">Open</th>
      </tr>
    </thead>
  );
}

export function State({ row }: { row: ProfileRow }) {
  const part = progressOf(row);
  return (
    <>
      <span class={`state state-${row.state ?? "ready"}`}>{stateText(row)}</span>
      {row.state === "processing" && part !== null && <progress aria-label={`Progress of ${row.name}`} value={part} />}
    </>
  );
}

interface RowProps {
  row: ProfileRow;
  checked: boolean;
  favourite: boolean;
  tags: string[];
  onCheck(on: boolean): void;
  onFavour(on: boolean): void;
  onTag(tag: string): void;
}

function Row({ row, checked, favourite, tags, onCheck, onFavour, onTag }: RowProps) {
  return (
    <tr class={checked ? "current" : ""} data-profile={row.name}>
      <td>
        <input
          type="checkbox"
          aria-label={`Select ${row.name}`}
          checked={checked}
          onChange={(event) => onCheck(event.currentTarget.checked)}
        />
      </td>
      <td>
        <button
          type="button"
          class="star"
          aria-label={`Favourite ${row.name}`}
          aria-pressed={favourite}
          onClick={() => onFavour(!favourite)}
        >
          {favourite ? "★" : "☆"}
        </button>
      </td>
      <td class="profile-name">
        {isReady(row) ? <a href={openAddress(row)}>{row.name}</a> : row.name}
        {row.pinned && <span class="badge">pinned</span>}
        {tags.map((tag) => (
          <button key={tag} type="button" class="chip" title={`Show all with ${tag}`} onClick={() => onTag(tag)}>
            {tag}
          </button>
        ))}
      </td>
      <td class="state-cell">
        <State row={row} />
      </td>
      <td>{row.job ?? ""}</td>
      <td class="time" title={row.owner ? `Uploaded by ${row.owner}` : ""}>
        {row.host ?? ""}
      </td>
      <td class="number">{row.rank ?? ""}</td>
      <td class="number">{row.bytes === undefined ? "" : bytesText(row.bytes)}</td>
      <td class="time" title={exactDay(row.received_ns)}>
        {dayText(row.received_ns)}
      </td>
      <td class="time" title={exactDay(row.finished_ns)}>
        {dayText(row.finished_ns)}
      </td>
      <td class="time">
        {isReady(row) && (
          <>
            {row.kind !== "ranks" && (
              <a href={summaryAddress(row.name)} aria-label={`Summary of ${row.name}`}>
                Summary
              </a>
            )}{" "}
            <a href={sqlAddress(row.name)} aria-label={`SQL on ${row.name}`}>
              SQL
            </a>
          </>
        )}
      </td>
    </tr>
  );
}

interface Props {
  rows: ProfileRow[];
  checked: ReadonlyMap<string, ProfileRow>;
  favourites: ReadonlySet<string>;
  tagsOf(name: string): string[];
  /** null: they are in an order of their own. */
  sort: Sort | null;
  onSort(sort: Sort): void;
  onCheck(rows: ProfileRow[], on: boolean): void;
  onFavour(name: string, on: boolean): void;
  onTag(tag: string): void;
}

export function ProfileTable({ rows, checked, favourites, tagsOf, sort, onSort, onCheck, onFavour, onTag }: Props) {
  return (
    <table class="results">
      <Head
        all={rows.every((row) => checked.has(row.name))}
        some={rows.some((row) => checked.has(row.name))}
        sort={sort}
        onAll={(on) => onCheck(rows, on)}
        onSort={onSort}
      />
      <tbody>
        {rows.map((row) => (
          <Row
            key={row.name}
            row={row}
            checked={checked.has(row.name)}
            favourite={favourites.has(row.name)}
            tags={tagsOf(row.name)}
            onCheck={(on) => onCheck([row], on)}
            onFavour={(on) => onFavour(row.name, on)}
            onTag={onTag}
          />
        ))}
      </tbody>
    </table>
  );
}
