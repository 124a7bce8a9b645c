// Questions of one's own: an editor, the schema beside it, the answer below.

import { useEffect, useRef, useState } from "preact/hooks";
import { Latest } from "../api/client";
import { MAX_ROWS, runSql, type SqlAnswer } from "../api/sql";
import { ResultTable } from "../sql/ResultTable";
import { SchemaPanel } from "../sql/SchemaPanel";
import { keep, kept } from "../state/keep";
import { useProfiles } from "../state/profiles";
import { profileAddress, sqlAddress } from "../state/route";
import { messageOf } from "../state/store";
import { TopBar } from "../ui/TopBar";

const FIRST = `select engine, opcode, count(*) as instructions, sum(duration_ns) as time_ns
from Instruction
group by engine, opcode
order by time_ns desc`;

const LIMITS = [100, 1000, MAX_ROWS];

interface Outcome {
  answer: SqlAnswer | null;
  ms: number;
  busy: boolean;
  error: string | null;
}

const NO_OUTCOME: Outcome = { answer: null, ms: 0, busy: false, error: null };

function useQuestion() {
  const [outcome, setOutcome] = useState<Outcome>(NO_OUTCOME);
  const [latest] = useState(() => new Latest());
  useEffect(() => () => latest.cancel(), []);
  const run = (profile: string, sql: string, limit: number) => {
    const start = performance.now();
    setOutcome((before) => ({ ...before, busy: true, error: null }));
    latest
      .run((signal) => runSql(profile, sql, limit, signal))
      .then((answer) => answer && setOutcome({ answer, ms: performance.now() - start, busy: false, error: null }))
      .catch((error: unknown) => setOutcome({ ...NO_OUTCOME, error: messageOf(error) }));
  };
  const stop = () => {
    latest.cancel();
    setOutcome((before) => ({ ...before, busy: false }));
  };
  return { outcome, run, stop };
}

/** Puts a name where the cursor is, or over what is selected. */
function inserted(area: HTMLTextAreaElement, name: string): string {
  const quoted = /^[A-Za-z_]\w*$/.test(name) ? name : `"${name.replace(/"/g, '""')}"`;
  area.focus();
  area.setRangeText(quoted, area.selectionStart, area.selectionEnd, "end");
  return area.value;
}

interface ChooserProps {
  profile: string | null;
  onChoose(name: string): void;
}

function ProfileChooser({ profile, onChoose }: ChooserProps) {
  const { rows, error } = useProfiles();
  const ready = rows?.filter((row) => row.state === undefined || row.state === "ready") ?? [];
  useEffect(() => {
    if (profile === null && ready[0]) onChoose(ready[0].name);
  }, [rows]);
  if (error) return <span class="error">{error}</span>;
  const names = ready.map((row) => row.name);
  if (profile !== null && !names.includes(profile)) names.unshift(profile);
  return (
    <select aria-label="Profile" value={profile ?? ""} onChange={(event) => onChoose(event.currentTarget.value)}>
      {names.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}

export function SqlPage({ profile, sql }: { profile: string | null; sql: string | null }) {
  const [text, setText] = useState(() => sql ?? kept<string>("sql", FIRST));
  const [limit, setLimit] = useState(1000);
  const { outcome, run, stop } = useQuestion();
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    document.title = "SQL – kymo";
  }, []);
  // A question that came with the address is asked at once: it can only read.
  useEffect(() => {
    if (sql === null || profile === null) return;
    setText(sql);
    run(profile, sql, limit);
  }, [sql, profile]);
  const ask = () => {
    if (profile === null || text.trim() === "") return;
    keep("sql", text);
    history.replaceState(null, "", sqlAddress(profile, text));
    run(profile, text, limit);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    ask();
  };
  const choose = (name: string) => location.replace(sqlAddress(name));
  return (
    <>
      <TopBar title="SQL" about={<ProfileChooser profile={profile} onChoose={choose} />}>
        {profile !== null && <a href={profileAddress(profile)}>Timeline</a>}
      </TopBar>
      <main class="sql">
        <SchemaPanel profile={profile} onPick={(name) => area.current && setText(inserted(area.current, name))} />
        <div class="sql-main">
          <textarea
            ref={area}
            aria-label="SQL"
            spellcheck={false}
            rows={Math.min(Math.max(text.split("\n").length + 1, 7), 18)}
            maxLength={100_000}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={onKey}
          />
          <div class="toolbar">
            <button type="button" class="primary" title="Ctrl or Cmd and Enter" disabled={outcome.busy} onClick={ask}>
              Run
            </button>
            <button type="button" disabled={!outcome.busy} onClick={stop}>
              Stop
            </button>
            <label>
              at most{" "}
              <select
                aria-label="Rows at most"
                value={String(limit)}
                onChange={(event) => setLimit(Number(event.currentTarget.value))}
              >
                {LIMITS.map((rows) => (
                  <option key={rows} value={String(rows)}>
                    {rows}
                  </option>
                ))}
              </select>{" "}
              rows
            </label>
            <span class="muted">{outcome.busy ? "Running…" : "Reads only. The tables are those on the left."}</span>
          </div>
          {outcome.error && (
            <pre class="error sql-error" role="alert">
              {outcome.error}
            </pre>
          )}
          {outcome.answer && (
            <div class={`sql-answer ${outcome.busy ? "stale" : ""}`}>
              <ResultTable answer={outcome.answer} name={profile ?? "result"} ms={outcome.ms} />
            </div>
          )}
        </div>
      </main>
    </>
  );
}
