// Collectives with the spread of their arrivals: sorted, filtered, and a click away from the place where they are.

import { useEffect, useMemo, useState } from "preact/hooks";
import { isAbort } from "../api/client";
import { SKEW_PAGE, type Skew, type SkewAnswer } from "../api/ranks";
import type { Range } from "../api/types";
import { messageOf, useStore } from "../state/store";
import { groupDigits, timeText } from "../timeline/scale";
import { rankName } from "./clock";
import type { RanksModel } from "./model";
import { errorText } from "./RankLanes";

const COLUMNS = [
  { key: "first", name: "Came at" },
  { key: "spread_ns", name: "Spread" },
  { key: "duration_ns", name: "Duration" },
  { key: "transfer_ns", name: "Transfer" },
] as const;

const VIEW_MS = 250;

interface Filter {
  operation: string;
  last: string;
  significant: boolean;
  inView: boolean;
}

export const NO_FILTER: Filter = { operation: "", last: "", significant: false, inView: false };

interface Asked {
  filter: Filter;
  sort: string;
  window: Range | null;
}

/** The page of what is asked for: another question begins with its first. */
function usePage(asked: Asked): [number, (page: number) => void] {
  const [chosen, setChosen] = useState<{ page: number; asked: Asked | null }>({ page: 0, asked: null });
  return [chosen.asked === asked ? chosen.page : 0, (page) => setChosen({ page, asked })];
}

function useSkew(model: RanksModel, asked: Asked, page: number) {
  const [answer, setAnswer] = useState<SkewAnswer | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    const { filter, sort, window } = asked;
    const abort = new AbortController();
    const ask = () =>
      model.api
        .skew({ ...filter, sort, page, window }, abort.signal)
        .then((value) => {
          setAnswer(value);
          setError(null);
        })
        .catch((why: unknown) => !isAbort(why) && setError(messageOf(why)));
    const timer = globalThis.setTimeout(ask, window ? VIEW_MS : 0);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [model, asked, page]);
  return { answer, error };
}

function Spread({ row }: { row: Skew }) {
  if (row.spread_ns === null) return <>–</>;
  const doubt = row.significant === false ? " muted" : "";
  const title = row.significant === false ? "Within what the clocks may be off" : "";
  return (
    <span class={doubt} title={title}>
      {timeText(row.spread_ns)} <span class="muted">{errorText(row.error_bound_ns)}</span>
    </span>
  );
}

interface RowProps {
  row: Skew;
  model: RanksModel;
  current: boolean;
}

function Row({ row, model, current }: RowProps) {
  const last = row.last_profile === null ? null : model.byProfile.get(row.last_profile);
  const choose = () => model.choose(row.id, true);
  return (
    <tr class={current ? "current" : ""} data-collective={row.id} onClick={choose}>
      <td>
        <button type="button" class="plain" onClick={choose}>
          {row.operation}
        </button>{" "}
        <span class="muted">
          {row.op_id !== null && `#${row.op_id} `}·{row.invocation}
        </span>
      </td>
      <td class="number">{row.first === null ? "–" : timeText(row.first)}</td>
      <td class="number">
        <Spread row={row} />
      </td>
      <td class="number">{row.duration_ns === null ? "–" : timeText(row.duration_ns)}</td>
      <td class="number">{row.transfer_ns === null ? "–" : timeText(row.transfer_ns)}</td>
      <td class={row.significant ? "" : "muted"}>{last ? rankName(last) : (row.last_profile ?? "–")}</td>
      <td class="number">
        {row.arrived}/{row.members}
        {row.consistent === false && <span title="One was done before another had come"> ⚠</span>}
      </td>
    </tr>
  );
}

interface FilterProps {
  model: RanksModel;
  filter: Filter;
  onFilter(filter: Filter): void;
}

function Filters({ model, filter, onFilter }: FilterProps) {
  const { operations, ranks } = model.answer;
  return (
    <div class="toolbar">
      <select
        aria-label="Operation"
        value={filter.operation}
        onChange={(e) => onFilter({ ...filter, operation: e.currentTarget.value })}
      >
        <option value="">All operations</option>
        {operations.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
      <select
        aria-label="Came last"
        value={filter.last}
        onChange={(e) => onFilter({ ...filter, last: e.currentTarget.value })}
      >
        <option value="">Whoever came last</option>
        {ranks
          .filter((rank) => rank.state === "ready")
          .map((rank) => (
            <option key={rank.profile} value={rank.profile}>
              {rankName(rank)} came last
            </option>
          ))}
      </select>
      <label title="Only spreads that are more than the clocks may be off">
        <input
          type="checkbox"
          checked={filter.significant}
          onChange={(e) => onFilter({ ...filter, significant: e.currentTarget.checked })}
        />{" "}
        Beyond the error
      </label>
      <label>
        <input
          type="checkbox"
          checked={filter.inView}
          onChange={(e) => onFilter({ ...filter, inView: e.currentTarget.checked })}
        />{" "}
        In view
      </label>
    </div>
  );
}

function Pages({ answer, page, onPage }: { answer: SkewAnswer; page: number; onPage(page: number): void }) {
  const first = page * SKEW_PAGE;
  return (
    <div class="toolbar">
      <span class="muted">
        {answer.rows.length ? `${first + 1} – ${first + answer.rows.length} of ${groupDigits(answer.total)}` : "None"}
      </span>
      <span class="space" />
      <button type="button" disabled={page === 0} onClick={() => onPage(page - 1)}>
        Previous
      </button>
      <button type="button" disabled={first + answer.rows.length >= answer.total} onClick={() => onPage(page + 1)}>
        Next
      </button>
    </div>
  );
}

export function SkewList({ model, filter, onFilter }: FilterProps) {
  const [sort, setSort] = useState("-spread_ns");
  const view = useStore(model.view);
  const window = filter.inView ? view : null;
  const asked = useMemo(() => ({ filter, sort, window }), [filter, sort, window]);
  const [page, setPage] = usePage(asked);
  const { answer, error } = useSkew(model, asked, page);
  const chosen = useStore(model.chosen).value?.id;
  return (
    <section class="ranks-skew" aria-label="Skew of collectives">
      <h2>Collectives</h2>
      <Filters model={model} filter={filter} onFilter={onFilter} />
      {error && <p class="error">{error}</p>}
      <div class="ranks-table">
        <table class="results">
          <thead>
            <tr>
              <th scope="col">Operation</th>
              {COLUMNS.map(({ key, name }) => (
                <th
                  key={key}
                  scope="col"
                  class="number"
                  aria-sort={sort === key ? "ascending" : sort === `-${key}` ? "descending" : "none"}
                >
                  <button type="button" class="plain" onClick={() => setSort(sort === `-${key}` ? key : `-${key}`)}>
                    {name}
                    {sort === key ? " ▴" : sort === `-${key}` ? " ▾" : ""}
                  </button>
                </th>
              ))}
              <th scope="col">Last</th>
              <th scope="col" class="number">
                Came
              </th>
            </tr>
          </thead>
          <tbody>
            {answer?.rows.map((row) => (
              <Row key={row.id} row={row} model={model} current={row.id === chosen} />
            ))}
          </tbody>
        </table>
      </div>
      {answer && <Pages answer={answer} page={page} onPage={setPage} />}
    </section>
  );
}
