// A profile of many ranks: who is out of line, all ranks under each other on one clock, the skew of each collective.

import { useEffect, useState } from "preact/hooks";
import { ApiError, isAbort } from "../api/client";
import type { Rank } from "../api/ranks";
import type { Range } from "../api/types";
import { Arrivals } from "../ranks/Arrivals";
import { rankName } from "../ranks/clock";
import { RanksModel } from "../ranks/model";
import { RankLanes } from "../ranks/RankLanes";
import { RankTimeline } from "../ranks/RankTimeline";
import { NO_FILTER, SkewList } from "../ranks/SkewList";
import { ranksAddress, sqlAddress } from "../state/route";
import { messageOf, useStore } from "../state/store";
import { groupDigits, timeText } from "../timeline/scale";
import { TopBar } from "../ui/TopBar";

const LINK_MS = 300;

function useModel(name: string): { model: RanksModel | null; error: string | null } {
  const [state, setState] = useState<{ model: RanksModel | null; error: string | null }>({ model: null, error: null });
  useEffect(() => {
    const abort = new AbortController();
    let made: RanksModel | null = null;
    RanksModel.open(name, abort.signal)
      .then((model) => {
        made = model;
        setState({ model, error: null });
      })
      .catch((why: unknown) => {
        if (isAbort(why)) return;
        const none = why instanceof ApiError && why.status === 404;
        setState({ model: null, error: none ? `${name} is no profile of many ranks.` : messageOf(why) });
      });
    return () => {
      abort.abort();
      made?.close();
    };
  }, [name]);
  return state;
}

function Outlier({ rank, onLast }: { rank: Rank; onLast(): void }) {
  return (
    <div class="outlier-card" data-outlier={rank.rank ?? rank.worker ?? ""}>
      <strong>
        {rankName(rank)}
        {rank.host && ` on ${rank.host}`}
      </strong>
      <p>{rank.why}</p>
      <button type="button" onClick={onLast}>
        Show where it came last
      </button>
    </div>
  );
}

function Findings({ model, onLast }: { model: RanksModel; onLast(rank: Rank): void }) {
  const { answer } = model;
  const outliers = answer.ranks.filter((rank) => rank.outlier);
  const missing = answer.ranks.filter((rank) => rank.state !== "ready");
  return (
    <section class="findings" aria-label="Who is out of line">
      {outliers.map((rank) => (
        <Outlier key={rank.profile} rank={rank} onLast={() => onLast(rank)} />
      ))}
      <p class="muted">
        {outliers.length === 0 && "No rank comes last more often than chance would have it. "}
        {groupDigits(answer.total)} ranks, {answer.collectives} collectives
        {answer.spread_ns !== null && `, spread ${timeText(answer.spread_ns)} at the most`}
        {answer.one_clock ? ", all on one host's clock" : ", on the clocks of several hosts"}
        {!answer.certain && answer.collectives > 0 && "; how far these are off each other is not known"}.
      </p>
      {answer.left_out > 0 && (
        <p class="amber-text" data-left-out={answer.left_out}>
          {groupDigits(answer.left_out)} of {groupDigits(answer.total)} ranks are left out: outliers are shown, and of
          the others the first by rank.
        </p>
      )}
      {!answer.figures && <p class="amber-text">There are too many ranks to read the MFU of each.</p>}
      {missing.map((rank) => (
        <p key={rank.profile} class="amber-text">
          {rankName(rank)}: {rank.why}
        </p>
      ))}
      {answer.warnings.length > 0 && (
        <details>
          <summary>{answer.warnings.length} warnings</summary>
          {answer.warnings.map((warning) => (
            <p key={warning.message}>
              <strong>{warning.category}:</strong> {warning.message}
            </p>
          ))}
        </details>
      )}
    </section>
  );
}

/** The address follows the view, so that a link shows the same place. */
function useLink(model: RanksModel, name: string): void {
  useEffect(() => {
    let timer = 0;
    const write = () => {
      clearTimeout(timer);
      timer = window.setTimeout(
        () => history.replaceState(null, "", ranksAddress(name, model.view.value, model.chosen.value.value?.id)),
        LINK_MS,
      );
    };
    const ends = [model.view.watch(write), model.chosen.watch(write)];
    return () => {
      clearTimeout(timer);
      for (const end of ends) end();
    };
  }, [model]);
}

function Body({ model, name, range, collective }: Props & { model: RanksModel }) {
  const unfolded = useStore(model.unfolded);
  const [filter, setFilter] = useState(NO_FILTER);
  useEffect(() => {
    if (range) model.look(range);
    if (collective !== null) model.choose(collective, range === null);
  }, [model, range, collective]);
  useLink(model, name);
  return (
    <main class="ranks">
      <Findings
        model={model}
        onLast={(rank) => setFilter({ ...NO_FILTER, last: rank.profile, significant: model.answer.certain })}
      />
      <RankLanes model={model} />
      {unfolded.map((profile) => {
        const rank = model.byProfile.get(profile);
        return rank && <RankTimeline key={profile} model={model} rank={rank} />;
      })}
      <div class="ranks-tables">
        <SkewList model={model} filter={filter} onFilter={setFilter} />
        <Arrivals model={model} />
      </div>
    </main>
  );
}

interface Props {
  name: string;
  range: Range | null;
  collective: number | null;
}

export function RanksPage(props: Props) {
  const { name } = props;
  const { model, error } = useModel(name);
  useEffect(() => {
    document.title = `Ranks of ${name} – kymo`;
  }, [name]);
  return (
    <>
      <TopBar title={name} about={<span class="muted">ranks on one clock</span>}>
        <a href={sqlAddress(name)}>SQL</a>
      </TopBar>
      {error && (
        <main class="message">
          <p class="error">{error}</p>
        </main>
      )}
      {!error && !model && <main class="message muted">Opening {name}…</main>}
      {model && <Body {...props} model={model} />}
    </>
  );
}
