// Which jobs, hosts, ranks lost MFU this week.

import { useEffect, useState } from "preact/hooks";
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
import { messageOf } from "../state/store";
import { groupDigits } from "../timeline/scale";
import { ThemeButton } from "../ui/ThemeButton";

const SIZE = 50;
const TYPING_MS = 250;

function useFleet(question: FleetQuestion): { answer: FleetAnswer | null; busy: boolean; error: string | null } {
  const [answer, setAnswer] = useState<FleetAnswer | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(true);
  const key = JSON.stringify(question);
  useEffect(() => {
    const abort = new AbortController();
    const { group, sort, page, filters } = question;
    setBusy(true);
    fleet({ ...rangeOf(question), group, sort, page, size: SIZE, ...filters }, abort.signal)
      .then((value) => {
        setAnswer(value);
        setError(null);
        setBusy(false);
      })
      .catch((why: unknown) => {
        if (isAbort(why)) return;
        const none = why instanceof ApiError && (why.status === 404 || why.status === 501);
        setError(
          none
            ? "This server has no tables of a fleet: a collector makes them, and kymo view takes --fleet."
            : messageOf(why),
        );
        setBusy(false);
      });
    return () => abort.abort();
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

function Search({ question, onChange }: Change) {
  const [text, setText] = useState(question.filters.text ?? "");
  useEffect(() => {
    if (text === (question.filters.text ?? "")) return;
    const timer = setTimeout(
      () => onChange({ ...question, page: 0, filters: { ...question.filters, text } }),
      TYPING_MS,
    );
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <input
      type="search"
      placeholder="Filter by profile, job, host, cluster"
      aria-label="Filter"
      value={text}
      onInput={(e) => setText(e.currentTarget.value)}
    />
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
      <header class="bar">
        <a href="#/" class="home" title="Profile Manager">
          kymo
        </a>
        <h1>Fleet</h1>
        <span class="muted">who lost MFU this week</span>
        <span class="space" />
        <ThemeButton />
      </header>
      <main class="fleet-page" aria-busy={busy}>
        <div class="toolbar">
          <Choice question={question} onChange={change} />
          <Search question={question} onChange={change} />
          <Chips question={question} onChange={change} />
        </div>
        {error && <p class="error">{error}</p>}
        {!error && answer && answer.rows.length === 0 && (
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
