// Region Highlighter: the NKI regions of the profile and their instances, a click away on the timeline, and side by side.

import { useEffect, useState } from "preact/hooks";
import { Latest } from "../../api/client";
import type { RegionRow } from "../../api/regions";
import type { RegionBand } from "../../api/types";
import type { Profile } from "../../state/profile";
import { messageOf, useStore } from "../../state/store";
import { around, timeText } from "../../timeline/scale";
import { valueText } from "../../ui/values";
import type { WidgetProps } from "../registry";
import { Comparison } from "./Comparison";
import { keyOf } from "./compare";

const MAX_ROWS = 500;
export const MAX_COMPARED = 8;

/** What the timeline's bands tell of a region, until the server has its figures. */
function rowOf({ path, pcore_idx, start_ts, end_ts, instructions }: RegionBand): RegionRow {
  return { path, pcore: pcore_idx, instance: null, instances: 1, start_ts, end_ts, instructions };
}

interface Answer {
  rows: RegionRow[];
  truncated: boolean;
  error: string | null;
}

/** Regions with their figures; null while there is no answer. */
function useRegions(profile: Profile): Answer | null {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [latest] = useState(() => new Latest());
  useEffect(() => {
    setAnswer(null);
    latest
      .run((signal) => profile.api.regions(signal))
      .then((value) => value && setAnswer({ rows: value.regions ?? [], truncated: value.truncated, error: null }))
      .catch((error: unknown) => setAnswer({ rows: [], truncated: false, error: messageOf(error) }));
    return () => latest.cancel();
  }, [profile]);
  return answer;
}

interface RowProps {
  profile: Profile;
  row: RegionRow;
  chosen: boolean;
  full: boolean;
  onChoose(): void;
  /** Null: it cannot be unfolded. */
  open: boolean | null;
  onUnfold(): void;
}

function Row({ profile, row, chosen, full, onChoose, open, onUnfold }: RowProps) {
  const name = row.instance === null ? row.path : `${row.path} #${row.instance}`;
  const core = row.pcore === null ? "" : `nc${row.pcore}`;
  const go = () => profile.jump(around(row.start_ts, row.end_ts, profile.extent, 0.8));
  return (
    <tr class={row.instance === null ? "" : "region-instance"}>
      <td>
        <input
          type="checkbox"
          aria-label={`Compare ${name} ${core}`}
          checked={chosen}
          disabled={full && !chosen}
          onChange={onChoose}
        />
      </td>
      <td>
        {open !== null && (
          <button
            type="button"
            class="tiny"
            aria-expanded={open}
            aria-label={`${open ? "Fold" : "Unfold"} ${name} ${core}`}
            onClick={onUnfold}
          >
            {open ? "▾" : "▸"}
          </button>
        )}
        <button type="button" class="plain" title="Zoom to it" onClick={go}>
          {row.instance === null ? row.path : `#${row.instance}`}
        </button>
      </td>
      <td>{core}</td>
      <td class="number">{row.instance === null && row.duration_ns !== undefined ? row.instances : ""}</td>
      <td class="number">{timeText(row.start_ts)}</td>
      <td class="number">{timeText(row.duration_ns ?? row.end_ts - row.start_ts)}</td>
      <td class="number">{row.mfu_percent == null ? "" : valueText("mfu_percent", row.mfu_percent)}</td>
      <td class="number">{row.instructions ?? ""}</td>
    </tr>
  );
}

function useInstances(profile: Profile) {
  const [lists, setLists] = useState<Map<string, RegionRow[]>>(new Map());
  useEffect(() => setLists(new Map()), [profile]);
  const toggle = (row: RegionRow) => {
    const key = keyOf(row);
    const without = new Map(lists);
    if (without.delete(key)) {
      setLists(without);
      return;
    }
    profile.api
      .regionInstances(row)
      .then(({ instances }) => setLists((now) => new Map(now).set(key, instances ?? [])))
      .catch(() => undefined); // It stays folded.
  };
  return { lists, toggle };
}

export function RegionsWidget({ profile }: WidgetProps) {
  const bands = useStore(profile.bands);
  const answer = useRegions(profile);
  const { lists, toggle } = useInstances(profile);
  const [chosen, setChosen] = useState<RegionRow[]>([]);
  useEffect(() => setChosen([]), [profile]);
  const rows = answer && answer.error === null ? answer.rows : (bands?.regions ?? []).map(rowOf);
  if (rows.length === 0)
    return (
      <p class="muted hint">
        This profile has no NKI regions. A kernel marks them with nki.language.profiler_region_open and
        profiler_region_close.
      </p>
    );
  const choose = (row: RegionRow) =>
    setChosen((now) => {
      const without = now.filter((other) => keyOf(other) !== keyOf(row));
      return without.length < now.length ? without : [...now, row].slice(0, MAX_COMPARED);
    });
  const line = (row: RegionRow, open: boolean | null) => (
    <Row
      key={keyOf(row)}
      profile={profile}
      row={row}
      chosen={chosen.some((other) => keyOf(other) === keyOf(row))}
      full={chosen.length >= MAX_COMPARED}
      onChoose={() => choose(row)}
      open={open}
      onUnfold={() => toggle(row)}
    />
  );
  return (
    <div class="scroll">
      <table class="results regions">
        <thead>
          <tr>
            <th scope="col">
              <span class="unseen">Compare</span>
            </th>
            <th scope="col">Region</th>
            <th scope="col">Core</th>
            <th scope="col" class="number">
              Instances
            </th>
            <th scope="col" class="number">
              Start
            </th>
            <th scope="col" class="number" title="Of a region: of all its instances">
              Duration
            </th>
            <th scope="col" class="number">
              MFU
            </th>
            <th scope="col" class="number">
              Instructions
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MAX_ROWS).flatMap((row) => {
            const list = lists.get(keyOf(row));
            return [
              line(row, row.duration_ns === undefined ? null : list !== undefined),
              ...(list ?? []).slice(0, MAX_ROWS).map((instance) => line(instance, null)),
            ];
          })}
        </tbody>
      </table>
      {answer?.truncated && <p class="muted">There are more regions than are listed.</p>}
      {chosen.length === 1 && <p class="muted">Choose one more to compare.</p>}
      {chosen.length > 1 && <Comparison rows={chosen} onClear={() => setChosen([])} />}
    </div>
  );
}
