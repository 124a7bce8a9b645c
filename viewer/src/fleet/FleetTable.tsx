// Rows of the fleet: a small plot each, this week beside the week before, and the profiles behind it.

import { useEffect, useState } from "preact/hooks";
import { isAbort } from "../api/client";
import { type FleetAnswer, type FleetProfile, type FleetProfiles, type FleetRow, fleetProfiles } from "../api/fleet";
import { profileAddress, ranksAddress } from "../state/route";
import { messageOf } from "../state/store";
import { groupDigits, timeText } from "../timeline/scale";
import { type FleetQuestion, filtersOf, fleetAddress, GROUP_NAMES, rangeOf } from "./question";
import { Sparkline } from "./Sparkline";

const PROFILES = 20;
const WAIT_MS = 1000;

function percent(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : `${value.toPrecision(3)} %`;
}

function signed(value: number, text: string): string {
  return value > 0 ? `+${text}` : text.replace("-", "−");
}

/** Points of percent; worse when it fell. */
function Points({ value, less = false }: { value: number | null; less?: boolean }) {
  if (value === null) return <span class="muted">–</span>;
  const tone = value === 0 ? "" : value > 0 !== less ? "better" : "worse";
  return (
    <span class={tone} data-delta={String(value)}>
      {signed(value, value.toPrecision(3))}
    </span>
  );
}

interface WithPointsProps {
  value: number | null | undefined;
  delta: number | null;
  less?: boolean;
}

function WithPoints({ value, delta, less }: WithPointsProps) {
  return (
    <>
      {percent(value)}
      {delta !== null && (
        <>
          {" ("}
          <Points value={delta} less={less ?? false} />)
        </>
      )}
    </>
  );
}

function StepDelta({ row }: { row: FleetRow }) {
  const step = row.this_week?.step_ns ?? null;
  const delta = row.delta.step_ns;
  return (
    <>
      {step === null ? "–" : timeText(step)}{" "}
      {delta !== null && (
        <span class={delta > 0 ? "worse" : delta < 0 ? "better" : ""}>({signed(delta, timeText(delta))})</span>
      )}
    </>
  );
}

function ProfileRow({ row }: { row: FleetProfile }) {
  return (
    <tr data-profile={row.profile}>
      <td>
        <a href={profileAddress(row.profile)}>{row.profile}</a>
        {row.parent && (
          <>
            {" "}
            <a href={ranksAddress(row.parent)} title={row.parent}>
              Ranks
            </a>
          </>
        )}
      </td>
      <td>{row.day}</td>
      <td>{row.job ?? ""}</td>
      <td>{row.host ?? ""}</td>
      <td class="number">{row.rank ?? ""}</td>
      <td class="number">{percent(row.mfu_percent)}</td>
      <td class="number">{row.step_ns === null ? "–" : timeText(row.step_ns)}</td>
      <td class="number">{percent(row.throttled_percent)}</td>
      <td class="number">{row.lost_records === null ? "–" : groupDigits(row.lost_records)}</td>
    </tr>
  );
}

function useProfilesOf(question: FleetQuestion, row: FleetRow, sort: string, page: number) {
  const [answer, setAnswer] = useState<FleetProfiles | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    const params = {
      ...rangeOf(question),
      ...filtersOf(question.filters, row.key),
      sort,
      page,
      size: PROFILES,
      wait: WAIT_MS,
    };
    fleetProfiles(params, abort.signal)
      .then(setAnswer)
      .catch((why: unknown) => !isAbort(why) && setError(messageOf(why)));
    return () => abort.abort();
  }, [question, row, sort, page]);
  return { answer, error };
}

function ProfilesOf({ question, row }: { question: FleetQuestion; row: FleetRow }) {
  const [sort, setSort] = useState("mfu");
  const [page, setPage] = useState(0);
  const { answer, error } = useProfilesOf(question, row, sort, page);
  const shown = (answer?.page ?? 0) * PROFILES + (answer?.rows.length ?? 0);
  return (
    <div class="fleet-profiles">
      <div class="toolbar">
        <select aria-label="Order of profiles" value={sort} onChange={(e) => setSort(e.currentTarget.value)}>
          <option value="mfu">Least MFU first</option>
          <option value="time">Newest first</option>
          <option value="step">Longest step first</option>
          <option value="lost">Most lost records first</option>
        </select>
        <span class="muted">{answer && `${groupDigits(answer.total)} profiles`}</span>
        <span class="space" />
        <button type="button" disabled={page === 0} onClick={() => setPage(page - 1)}>
          Previous
        </button>
        <button type="button" disabled={!answer || shown >= answer.total} onClick={() => setPage(page + 1)}>
          Next
        </button>
      </div>
      {error && <p class="error">{error}</p>}
      <table class="results">
        <thead>
          <tr>
            {["Profile", "Day", "Job", "Host"].map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
            {["Rank", "MFU", "Step", "Throttled", "Lost"].map((name) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {answer?.rows.map((one) => (
            <ProfileRow key={one.profile} row={one} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface RowProps {
  row: FleetRow;
  answer: FleetAnswer;
  question: FleetQuestion;
}

function Split({ row, question }: Omit<RowProps, "answer">) {
  const groups = (["host", "rank"] as const).filter((group) => group !== question.group);
  return (
    <span class="muted split">
      {groups.map((group) => (
        <a
          key={group}
          href={fleetAddress({ ...question, group, page: 0, filters: filtersOf(question.filters, row.key) })}
        >
          by {GROUP_NAMES[group].toLowerCase()}
        </a>
      ))}
    </span>
  );
}

function Row({ row, answer, question }: RowProps) {
  const [open, setOpen] = useState(false);
  const name = row.name || "(not known)";
  return (
    <>
      <tr data-group={row.name} class={open ? "current" : ""}>
        <td>
          <button
            type="button"
            class="plain"
            aria-expanded={open}
            aria-label={`Profiles of ${name}`}
            onClick={() => setOpen(!open)}
          >
            {open ? "▾" : "▸"} {name}
          </button>
          <Split row={row} question={question} />
        </td>
        <td class="number">{groupDigits(row.profiles)}</td>
        <td>
          <Sparkline
            days={answer.days}
            values={row.days.map((day) => day?.mfu_percent ?? null)}
            counts={row.days.map((day) => day?.profiles ?? 0)}
            unit=" %"
            title={`MFU of ${name} by day`}
          />
        </td>
        <td class="number">{percent(row.this_week?.mfu_percent)}</td>
        <td class="number">{percent(row.week_before?.mfu_percent)}</td>
        <td class="number strong">
          <Points value={row.delta.mfu_percent} />
        </td>
        <td class="number">
          <WithPoints value={row.this_week?.hfu_percent} delta={row.delta.hfu_percent} />
        </td>
        <td class="number">
          <StepDelta row={row} />
        </td>
        <td class="number">
          <WithPoints value={row.this_week?.throttled_percent} delta={row.delta.throttled_percent} less />
        </td>
        <td class="number">
          {row.this_week?.lost_records == null ? "–" : groupDigits(row.this_week.lost_records)}
          {row.this_week?.lost_unknown && <span title="Records were lost that nobody counted">+</span>}
        </td>
      </tr>
      {open && (
        <tr class="unfolded">
          <td colSpan={10}>
            <ProfilesOf question={question} row={row} />
          </td>
        </tr>
      )}
    </>
  );
}

export function FleetTable({ answer, question }: { answer: FleetAnswer; question: FleetQuestion }) {
  return (
    <table class="results fleet">
      <thead>
        <tr>
          <th scope="col">{GROUP_NAMES[question.group]}</th>
          <th scope="col" class="number">
            Profiles
          </th>
          <th scope="col">MFU by day, this week shaded</th>
          {["This week", "Week before", "Change of MFU", "HFU", "Step", "Throttled", "Lost records"].map((name) => (
            <th key={name} scope="col" class="number">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {answer.rows.map((row) => (
          <Row key={JSON.stringify(row.key)} row={row} answer={answer} question={question} />
        ))}
      </tbody>
    </table>
  );
}
