// Which jobs, hosts, ranks lost MFU this week.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, isAbort } from "../api/client";
import { type FleetAnswer, fleet, GROUPS, type Group } from "../api/fleet";
import { FleetTable } from "../fleet/FleetTable";
import {
  FILTERS,
  type FleetQuestion,
  fleetAddress,
  GROUP_NAMES,
  rangeOf,
  SORTS,
  SPANS,
  today,
} from "../fleet/question";
import { readRoute } from "../state/route";
import { messageOf } from "../state/store";
import { groupDigits } from "../timeline/scale";
import { TopBar } from "../ui/TopBar";

const SIZE = 50;
const TYPING_MS = 250;
/** A pause in typing after which Back leads to what was typed before it. */
const BURST_MS = 1000;
/** What has been read by then is shown, and it is asked again: soon at first, so that there is something to see. */
const WAITS_MS = [200, 1000];

function withoutText({ filters, ...rest }: FleetQuestion): string {
  return JSON.stringify([rest, { ...filters, text: "" }]);
}

function reasonOf(why: unknown): string {
  const none = why instanceof ApiError && (why.status === 404 || why.status === 501);
  return none
    ? "This server has no tables of a fleet: a collector makes them, and kymo view takes --fleet."
    : messageOf(why);
}

function useFleet(question: FleetQuestion): { answer: FleetAnswer | null; busy: boolean; error: string | null } {
  const [answer, setAnswer] = useState<FleetAnswer | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(true);
  const before = useRef("");
  const key = JSON.stringify(question);
  useEffect(() => {
    const abort = new AbortController();
    const { group, sort, page, filters } = question;
    const text = filters.text?.trim();
    const params = { ...rangeOf(question), group, sort, page, size: SIZE, ...filters, text };
    const ask = async () => {
      for (let i = 0, more = true; more; i = 1) {
        const value = await fleet({ ...params, wait: WAITS_MS[i]! }, abort.signal);
        setAnswer(value);
        setError(null);
        more = Boolean(value.loading);
      }
      setBusy(false);
    };
    const start = () =>
      ask().catch((why: unknown) => {
        if (isAbort(why)) return;
        setError(reasonOf(why));
        setBusy(false);
      });
    setBusy(true);
    // While somebody types, only the address follows each key.
    const typed = before.current === withoutText(question);
    before.current = withoutText(question);
    const timer = setTimeout(start, typed ? TYPING_MS : 0);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [key]);
  return { answer, busy, error };
}

interface Change {
  question: FleetQuestion;
  onChange(question: FleetQuestion): void;
}

function Choice({ question, onChange }: Change) {
  const change = (part: Partial<FleetQuestion>) => onChange({ ...question, page: 0, ...part });
  return (
    <>
      <fieldset class="groups" aria-label="Group by">
        {GROUPS.map((group: Group) => (
          <button key={group} type="button" aria-pressed={question.group === group} onClick={() => change({ group })}>
            {GROUP_NAMES[group]}
          </button>
        ))}
      </fieldset>
      <select aria-label="Order" value={question.sort} onChange={(e) => change({ sort: e.currentTarget.value })}>
        {SORTS.map(({ sort, name }) => (
          <option key={sort} value={sort}>
            {name}
          </option>
        ))}
      </select>
      <label>
        Week that ends{" "}
        <input
          type="date"
          aria-label="Last day"
          value={question.to ?? today()}
          onChange={(e) => change({ to: e.currentTarget.value || null })}
        />
      </label>
      <select
        aria-label="Days"
        value={String(question.days)}
        onChange={(e) => change({ days: Number(e.currentTarget.value) })}
      >
        {SPANS.map((days) => (
          <option key={days} value={String(days)}>
            {days} days
          </option>
        ))}
      </select>
    </>
  );
}

/** The text stands in the address from the first key on, so that Back and Forward lose nothing; a burst is one step. */
function Search({ question }: { question: FleetQuestion }) {
  const burst = useRef({ address: "", at: 0 });
  const type = (text: string) => {
    const now = readRoute(location.hash);
    const of = now.page === "fleet" ? now.question : question;
    const address = fleetAddress({ ...of, page: 0, filters: { ...of.filters, text } });
    const { at, address: last } = burst.current;
    burst.current = { address, at: performance.now() };
    if (last === location.hash && burst.current.at - at < BURST_MS) location.replace(address);
    else location.hash = address;
  };
  return (
    <input
      type="search"
      placeholder="Filter by profile, job, host, cluster"
      aria-label="Filter"
      value={question.filters.text ?? ""}
      onInput={(e) => type(e.currentTarget.value)}
    />
  );
}

function Progress({ answer }: { answer: FleetAnswer }) {
  const { loading, unreadable } = answer;
  return (
    <>
      {loading && (
        <p class="muted fleet-loading" role="status">
          <progress value={loading.read} max={loading.of} aria-label="Profiles that have been read" /> Reading profiles,
          the newest days first: {groupDigits(loading.read)} of {groupDigits(loading.of)}
        </p>
      )}
      {unreadable > 0 && (
        <p class="amber-text">{groupDigits(unreadable)} profiles are left out: their files cannot be read.</p>
      )}
    </>
  );
}

/** What is filtered by, each to be let go of. */
function Chips({ question, onChange }: Change) {
  return (
    <>
      {FILTERS.filter((name) => name !== "text" && question.filters[name]).map((name) => (
        <button
          key={name}
          type="button"
          class="chip"
          title="Show all again"
          onClick={() => onChange({ ...question, page: 0, filters: { ...question.filters, [name]: "" } })}
        >
          {name.replace("_", " ")} {question.filters[name]} ×
        </button>
      ))}
    </>
  );
}

function Empty({ answer, question, onChange }: Change & { answer: FleetAnswer }) {
  const last = answer.last_day;
  return (
    <p class="muted">
      No captures from {answer.from} to {answer.to}.{" "}
      {last && last !== answer.to && (
        <button type="button" onClick={() => onChange({ ...question, page: 0, to: last })}>
          Show the week that ends {last}
        </button>
      )}
    </p>
  );
}

function Pages({ answer, question, onChange }: Change & { answer: FleetAnswer }) {
  const first = answer.page * answer.size;
  return (
    <div class="toolbar">
      <span class="muted">
        {answer.rows.length > 0 && `${first + 1} – ${first + answer.rows.length} of ${groupDigits(answer.total)}`}, of{" "}
        {groupDigits(answer.profiles)} profiles from {answer.from} to {answer.to}
      </span>
      <span class="space" />
      <button
        type="button"
        disabled={question.page === 0}
        onClick={() => onChange({ ...question, page: question.page - 1 })}
      >
        Previous
      </button>
      <button
        type="button"
        disabled={first + answer.rows.length >= answer.total}
        onClick={() => onChange({ ...question, page: question.page + 1 })}
      >
        Next
      </button>
    </div>
  );
}

export function FleetPage({ question }: { question: FleetQuestion }) {
  const { answer, busy, error } = useFleet(question);
  const change = (next: FleetQuestion) => {
    location.hash = fleetAddress(next);
  };
  useEffect(() => {
    document.title = "Fleet – kymo";
  }, []);
  return (
    <>
      <TopBar title="Fleet" about={<span class="muted">who lost MFU this week</span>} />
      <main class="fleet-page" aria-busy={busy}>
        <div class="toolbar">
          <Choice question={question} onChange={change} />
          <Search question={question} />
          <Chips question={question} onChange={change} />
        </div>
        {error && <p class="error">{error}</p>}
        {!error && answer && <Progress answer={answer} />}
        {!error && answer && answer.rows.length === 0 && !answer.loading && (
          <Empty answer={answer} question={question} onChange={change} />
        )}
        {!error && answer && answer.rows.length > 0 && (
          <>
            <FleetTable answer={answer} question={question} />
            <Pages answer={answer} question={question} onChange={change} />
          </>
        )}
      </main>
    </>
  );
}
