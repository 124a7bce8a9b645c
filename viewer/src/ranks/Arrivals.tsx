// The chosen collective: who came when, with what the clocks may be off.

import type { Arrival, Skew } from "../api/ranks";
import { useStore } from "../state/store";
import { exactText, timeText } from "../timeline/scale";
import { rankName } from "./clock";
import type { RanksModel } from "./model";
import { errorText } from "./RankLanes";

const WIDTH = 240;
const HEIGHT = 14;
const SIDE = 8;

/** How late a rank came, as a bar; its error as a whisker. */
function LateBar({ arrival, scale, last }: { arrival: Arrival; scale: number; last: boolean }) {
  const x = SIDE + (arrival.late_ns ?? 0) * scale;
  const half = (arrival.error_bound_ns ?? 0) * scale;
  const middle = HEIGHT / 2;
  return (
    <svg class="plot-svg late-bar" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT} aria-hidden="true">
      <rect class={last ? "last" : "part0"} x={SIDE} y={3} width={Math.max(x - SIDE, 1)} height={HEIGHT - 6} />
      {arrival.error_bound_ns !== null && (
        <path
          class="whisker"
          d={`M${x - half} ${middle}H${x + half}M${x - half} 2V${HEIGHT - 2}M${x + half} 2V${HEIGHT - 2}`}
        />
      )}
    </svg>
  );
}

function Rows({ model, skew }: { model: RanksModel; skew: Skew }) {
  const arrivals = skew.arrivals ?? [];
  const most = Math.max(...arrivals.map((one) => (one.late_ns ?? 0) + (one.error_bound_ns ?? 0)), 1);
  const scale = (WIDTH - 2 * SIDE) / most;
  return (
    <table class="results">
      <thead>
        <tr>
          <th scope="col">Rank</th>
          <th scope="col">Host</th>
          <th scope="col" class="number">
            After the first
          </th>
          <th scope="col" class="number">
            Waited
          </th>
          <th scope="col" class="number">
            Error
          </th>
          <th scope="col">Late</th>
        </tr>
      </thead>
      <tbody>
        {arrivals.map((arrival) => {
          const last = arrival.profile === skew.last_profile && skew.significant !== false;
          return (
            <tr
              key={`${arrival.profile} ${arrival.cc_op_id}`}
              class={last ? "last" : ""}
              data-arrival={arrival.profile}
            >
              <td>{rankName(model.byProfile.get(arrival.profile) ?? arrival)}</td>
              <td>{arrival.host ?? ""}</td>
              <td class="number" title={arrival.at === null ? "" : `at ${exactText(arrival.at)}`}>
                {arrival.late_ns === null ? "–" : timeText(arrival.late_ns)}
              </td>
              <td class="number">{arrival.wait_ns === null ? "–" : timeText(arrival.wait_ns)}</td>
              <td class="number muted">{errorText(arrival.error_bound_ns)}</td>
              <td>
                <LateBar arrival={arrival} scale={scale} last={last} />
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Facts({ skew }: { skew: Skew }) {
  const parts = [
    `spread ${skew.spread_ns === null ? "not known" : timeText(skew.spread_ns)} ${errorText(skew.error_bound_ns)}`,
    skew.significant === false ? "within what the clocks may be off" : "",
    skew.consistent === false
      ? "one was done before another had come: not one operation, or clocks that are wrong"
      : "",
    skew.missing_workers ? `workers ${skew.missing_workers} are missing` : "",
    skew.num_elements !== null ? `${skew.num_elements} × ${skew.dtype ?? "?"}` : "",
    `group ${skew.replica_group}`,
  ];
  return <p class="muted">{parts.filter(Boolean).join(" · ")}</p>;
}

export function Arrivals({ model }: { model: RanksModel }) {
  const { value, busy, error } = useStore(model.chosen);
  return (
    <section class="ranks-arrivals" aria-label="Arrivals at the chosen collective" aria-busy={busy}>
      <h2>{value ? `${value.operation} ${value.id}` : "Arrivals"}</h2>
      {error && <p class="error">{error}</p>}
      {!value && !error && <p class="muted">Choose a collective: in the list, or in the lanes.</p>}
      {value && (
        <>
          <div class="toolbar">
            <Facts skew={value} />
            <span class="space" />
            <button type="button" onClick={() => model.show(value)}>
              Zoom to it
            </button>
            <button type="button" onClick={() => model.choose(null, false)}>
              Clear
            </button>
          </div>
          <div class="ranks-table">
            <Rows model={model} skew={value} />
          </div>
        </>
      )}
    </section>
  );
}
