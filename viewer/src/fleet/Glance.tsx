// Beside the list of profiles: the jobs, hosts and ranks that lost most MFU this week.

import { useEffect, useState } from "preact/hooks";
import { type FleetAnswer, type FleetRow, fleet, type Group } from "../api/fleet";
import { filtersOf, fleetAddress, GROUP_NAMES, rangeOf, SPANS } from "./question";
import { Sparkline } from "./Sparkline";

const SHOWN: Group[] = ["job", "host", "rank"];
const SIZE = 3;
const RANGE = { to: null, days: SPANS[0]! };

interface Lost {
  group: Group;
  days: string[];
  rows: FleetRow[];
}

function lostOf(group: Group, { days, rows }: FleetAnswer): Lost {
  return { group, days, rows: rows.filter((row) => (row.delta.mfu_percent ?? 0) < 0) };
}

/** A server without a fleet, or one that is busy, leaves the list as it is. */
function useLost(): Lost[] {
  const [lost, setLost] = useState<Lost[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    const ask = async () => {
      const found: Lost[] = [];
      // One after the other: the first says whether there is a fleet.
      for (const group of SHOWN)
        found.push(lostOf(group, await fleet({ ...rangeOf(RANGE), group, size: SIZE }, abort.signal)));
      setLost(found);
    };
    ask().catch(() => {});
    return () => abort.abort();
  }, []);
  return lost;
}

function Loser({ row, group, days }: { row: FleetRow; group: Group; days: string[] }) {
  const delta = row.delta.mfu_percent ?? 0;
  const name = row.name || "(not known)";
  return (
    <a
      class="loser"
      href={fleetAddress({ group, filters: filtersOf({}, row.key) })}
      data-lost={row.name}
      title={`${row.week_before?.mfu_percent?.toPrecision(3)} % the week before, ${row.this_week?.mfu_percent?.toPrecision(3)} % this week`}
    >
      <span class="name">{name}</span>
      <Sparkline
        days={days}
        values={row.days.map((day) => day?.mfu_percent ?? null)}
        counts={row.days.map((day) => day?.profiles ?? 0)}
        unit=" %"
        title={`MFU of ${name} by day`}
      />
      <span class="worse">−{Math.abs(delta).toPrecision(3)}</span>
    </a>
  );
}

export function Glance() {
  const lost = useLost();
  if (lost.every(({ rows }) => rows.length === 0)) return null;
  return (
    <section class="glance" aria-label="Lost MFU this week">
      <h2>
        Lost MFU this week <a href={fleetAddress()}>All of the fleet</a>
      </h2>
      {lost.map(
        ({ group, days, rows }) =>
          rows.length > 0 && (
            <div key={group}>
              <h3>{GROUP_NAMES[group]}s</h3>
              {rows.map((row) => (
                <Loser key={JSON.stringify(row.key)} row={row} group={group} days={days} />
              ))}
            </div>
          ),
      )}
    </section>
  );
}
