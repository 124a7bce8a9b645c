// Event Details: all that is known of the selected event, its place among the matches of a search, and its dependencies.

import { useState } from "preact/hooks";
import type { EventDetails, SourceLocation } from "../../api/types";
import { type Profile, tracksOf } from "../../state/profile";
import { useStore } from "../../state/store";
import { groupDigits } from "../../timeline/scale";
import { isHidden, matches, setHidden } from "../../timeline/tracks";
import { fieldTitle, valueText } from "../../ui/values";
import type { WidgetProps } from "../registry";
import { DependenciesTab } from "./Dependencies";

/** What one looks for first stands at the top; everything else follows in the table's order. */
const FIRST = [
  "opcode",
  "operands",
  "symbolic_operands",
  "operator",
  "start_ts",
  "end_ts",
  "duration_ns",
  "evt_wait_time_ns",
];

export function ordered(fields: Record<string, unknown>): [string, unknown][] {
  const first = FIRST.filter((name) => name in fields).map((name) => [name, fields[name]] as [string, unknown]);
  const rest = Object.entries(fields).filter(([name]) => !FIRST.includes(name));
  return [...first, ...rest];
}

function Paging({ profile }: { profile: Profile }) {
  const search = useStore(profile.search);
  if (!search.answer || search.answer.total === 0) return null;
  const { total, more } = search.answer;
  const step = (by: number) => void profile.showHit(search.current + by, search.focused !== null);
  return (
    <nav class="paging" aria-label="Matches of the search">
      <button type="button" disabled={search.current === 0} onClick={() => step(-1)}>
        ‹ Previous
      </button>
      <span>
        Match {groupDigits(search.current + 1)} of {groupDigits(total)}
        {more ? "+" : ""}
      </span>
      <button type="button" disabled={search.current + 1 >= total} onClick={() => step(1)}>
        Next ›
      </button>
    </nav>
  );
}

function Neighbours({ profile, details }: { profile: Profile; details: EventDetails }) {
  const { previous, next } = details.neighbours;
  return (
    <nav class="paging" aria-label="Neighbours on the track">
      <button type="button" disabled={!previous} title={previous?.label ?? ""} onClick={() => profile.step(false)}>
        ‹ Before it
      </button>
      <span class="muted">{details.track?.replace(/^[a-z_]+:/, "")}</span>
      <button type="button" disabled={!next} title={next?.label ?? ""} onClick={() => profile.step(true)}>
        After it ›
      </button>
    </nav>
  );
}

/** An event that was gone to and whose tracks are all hidden is nowhere to be seen. */
function Unseen({ profile, details }: { profile: Profile; details: EventDetails }) {
  const settings = useStore(profile.settings);
  const prefs = useStore(profile.prefs);
  const ids = tracksOf(details);
  const tracks = profile.overview.tracks.filter((track) => ids.includes(track.id) && matches(track, settings));
  if (tracks.length === 0 || tracks.some((track) => !isHidden(track, prefs))) return null;
  const show = () => {
    profile.prefs.update((now) => setHidden(now, tracks, false));
    profile.reveal.set(ids);
  };
  return (
    <p class="muted track-hidden">
      Its track is hidden.{" "}
      <button type="button" onClick={show}>
        Show it
      </button>
    </p>
  );
}

function FieldTable({ fields, filter }: { fields: Record<string, unknown>; filter: string }) {
  const wanted = filter.toLowerCase();
  const rows = ordered(fields).filter(
    ([name, value]) => !wanted || name.includes(wanted) || String(value).toLowerCase().includes(wanted),
  );
  return (
    <table class="fields">
      <tbody>
        {rows.map(([name, value]) => (
          <tr key={name}>
            <th scope="row" title={name}>
              {fieldTitle(name)}
            </th>
            <td title={value === null ? "" : String(value)}>{valueText(name, value)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Where it comes from: a click opens the Code Viewer there. Lines that are chosen in it are marked here. */
function Sources({ profile, sources }: { profile: Profile; sources: SourceLocation[] }) {
  const lit = useStore(profile.lit);
  if (sources.length === 0) return null;
  const isLit = ({ file, line }: SourceLocation) => lit?.file === file && line !== null && lit.lines.includes(line);
  return (
    <>
      <h4>Source</h4>
      <ol class="sources">
        {sources.map((source) => {
          const { file, line, kind, depth } = source;
          const text = <code>{line === null ? file : `${file}:${line}`}</code>;
          return (
            <li key={`${kind}${depth}${file}${line}`} class={isLit(source) ? "lit" : ""}>
              {line === null ? (
                text
              ) : (
                <button
                  type="button"
                  class="plain"
                  title="Open the Code Viewer at this line"
                  onClick={() => profile.openSource(file, line)}
                >
                  {text}
                </button>
              )}{" "}
              <span class="muted">
                {source.function ? `${source.function}, ` : ""}
                {kind}
              </span>
            </li>
          );
        })}
      </ol>
    </>
  );
}

interface DetailsProps {
  profile: Profile;
  details: EventDetails;
  filter: string;
}

function Details({ profile, details, filter }: DetailsProps) {
  return (
    <>
      {details.hierarchy.length > 0 && (
        <p class="hierarchy" title="Hierarchy">
          {details.hierarchy.join(" › ")}
        </p>
      )}
      <FieldTable fields={details.fields} filter={filter} />
      {details.transfer && (
        <>
          <h4>Transfer that the packet belongs to</h4>
          <FieldTable fields={details.transfer} filter={filter} />
        </>
      )}
      {details.wait && (
        <>
          <h4>What it waited for</h4>
          <FieldTable fields={details.wait} filter={filter} />
        </>
      )}
      <Sources profile={profile} sources={details.sources} />
    </>
  );
}

type Tab = "details" | "dependencies";

export function DetailsWidget({ profile }: WidgetProps) {
  const loaded = useStore(profile.details);
  const selected = useStore(profile.selected);
  const [tab, setTab] = useState<Tab>("details");
  const [filter, setFilter] = useState("");
  const tabButton = (name: Tab, title: string) => (
    <button type="button" role="tab" aria-selected={tab === name} onClick={() => setTab(name)}>
      {title}
    </button>
  );
  return (
    <div class="details">
      <Paging profile={profile} />
      <div class="tabs" role="tablist">
        {tabButton("details", "Details")}
        {tabButton("dependencies", "Dependencies")}
        <span class="space" />
        {tab === "details" && loaded.value && (
          <input
            type="search"
            placeholder="Filter fields"
            aria-label="Filter fields"
            value={filter}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
        )}
      </div>
      <div class="scroll">
        {!selected && !(tab === "details" && loaded.value) && (
          <p class="muted hint">Click an event on the timeline to see all its details.</p>
        )}
        {loaded.error && <p class="error">{loaded.error}</p>}
        {tab === "details" && loaded.value && (
          <>
            <Neighbours profile={profile} details={loaded.value} />
            {selected && <Unseen profile={profile} details={loaded.value} />}
            <Details profile={profile} details={loaded.value} filter={filter} />
          </>
        )}
        {tab === "dependencies" && selected && <DependenciesTab profile={profile} />}
      </div>
    </div>
  );
}
