// Region Highlighter: the NKI regions of the profile, a click away on the timeline.

import type { RegionBand } from "../../api/types";
import { useStore } from "../../state/store";
import { around, timeText } from "../../timeline/scale";
import type { WidgetProps } from "../registry";

const MAX_ROWS = 500;

export function RegionsWidget({ profile }: WidgetProps) {
  const bands = useStore(profile.bands);
  const regions = bands?.regions ?? [];
  if (regions.length === 0)
    return (
      <p class="muted hint">
        This profile has no NKI regions. A kernel marks them with nki.language.profiler_region_open and
        profiler_region_close.
      </p>
    );
  const go = (region: RegionBand) => profile.view.set(around(region.start_ts, region.end_ts, profile.extent, 0.8));
  return (
    <div class="scroll">
      <table class="results">
        <thead>
          <tr>
            <th scope="col">Region</th>
            <th scope="col">Core</th>
            <th scope="col" class="number">
              Start
            </th>
            <th scope="col" class="number">
              Duration
            </th>
            <th scope="col" class="number">
              Instructions
            </th>
          </tr>
        </thead>
        <tbody>
          {regions.slice(0, MAX_ROWS).map((region, i) => (
            <tr key={i}>
              <td>
                <button type="button" class="plain" title="Zoom to it" onClick={() => go(region)}>
                  {region.path}
                </button>
              </td>
              <td>{region.pcore_idx === null ? "" : `nc${region.pcore_idx}`}</td>
              <td class="number">{timeText(region.start_ts)}</td>
              <td class="number">{timeText(region.end_ts - region.start_ts)}</td>
              <td class="number">{region.instructions ?? ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {bands?.truncated.includes("regions") && <p class="muted">There are more; these are the longest.</p>}
    </div>
  );
}
