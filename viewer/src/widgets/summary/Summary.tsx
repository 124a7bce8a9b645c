// Summaries of the whole profile, of what the timeline shows, and of a box.

import { useEffect, useState } from "preact/hooks";
import { Latest } from "../../api/client";
import type { Range } from "../../api/types";
import type { Profile } from "../../state/profile";
import { type Loaded, messageOf, nothing, type Store, useStore } from "../../state/store";
import { exactText, timeText } from "../../timeline/scale";
import type { WidgetProps } from "../registry";
import { Sections } from "./Sections";

/** A zoom in progress asks once, when it rests: longer than between two turns of a wheel, which the answer would slow down. */
const VIEW_REST_MS = 350;
const REST_MS = 180;

interface SummaryState extends Loaded<Record<string, unknown>> {
  /** What it is the summary of, and the time of that. */
  key: string;
  range: Range | null;
}

interface Rested<T> {
  value: T;
  turn: number;
}

/** A value once it has rested, and how often it did: what follows each turn of the wheel takes time from the timeline's frames. */
function useRested<T>(store: Store<T>): Rested<T> {
  const [rested, setRested] = useState<Rested<T>>({ value: store.value, turn: 0 });
  useEffect(() => {
    let timer = 0;
    const soon = () => {
      clearTimeout(timer);
      timer = window.setTimeout(() => setRested(({ turn }) => ({ value: store.value, turn: turn + 1 })), VIEW_REST_MS);
    };
    if (store.value !== rested.value) soon();
    const end = store.watch(soon);
    return () => {
      end();
      clearTimeout(timer);
    };
  }, [store]);
  return rested;
}

/** `moving`: what has rested, if that is what the range follows; each time it moves, the question is given up at once. */
export function useSummary(
  profile: Profile,
  range: Range | null,
  tracks: string[] | null,
  moving?: { store: { watch(watcher: () => void): () => void }; turn: number },
): SummaryState {
  const [state, setState] = useState<SummaryState>({ ...nothing(), key: "", range: null });
  const [latest] = useState(() => new Latest());
  const { store, turn = 0 } = moving ?? {};
  const key = range
    ? `${profile.name} ${Math.floor(range.from)} ${Math.ceil(range.to)} ${tracks?.join(",") ?? ""}`
    : "";
  useEffect(() => store?.watch(() => latest.cancel()), [store]);
  useEffect(() => {
    if (!range) setState({ ...nothing(), key, range });
    if (!range || (state.key === key && state.value)) return;
    const ask = () =>
      latest
        .run((signal) => profile.api.summary(range, tracks, signal))
        .then((value) => value && setState({ value, busy: false, error: null, key, range }))
        .catch((error: unknown) => setState({ value: null, busy: false, error: messageOf(error), key, range }));
    const timer = setTimeout(ask, turn > 0 ? 0 : REST_MS);
    return () => {
      clearTimeout(timer);
      latest.cancel();
    };
  }, [key, profile, turn]);
  return { ...state, busy: state.key !== key };
}

function Body({ state }: { state: SummaryState }) {
  if (state.error) return <p class="error">{state.error}</p>;
  if (!state.value) return <p class="muted">{state.busy ? "Loading…" : ""}</p>;
  return (
    <div class={state.busy ? "stale" : ""}>
      <Sections value={state.value} />
    </div>
  );
}

function RangeLine({ range }: { range: Range }) {
  return (
    <p class="muted range-line">
      {exactText(Math.floor(range.from))} – {exactText(Math.ceil(range.to))} ({timeText(range.to - range.from)})
    </p>
  );
}

function cut(range: Range, extent: Range): Range {
  return { from: Math.max(range.from, extent.from), to: Math.min(range.to, extent.to) };
}

export function OverallSummary({ profile }: WidgetProps) {
  const state = useSummary(profile, profile.extent, null);
  return (
    <div class="scroll">
      <Body state={state} />
    </div>
  );
}

export function SelectionSummary({ profile }: WidgetProps) {
  const { value, turn } = useRested(profile.view);
  const range = cut(value, profile.extent);
  const state = useSummary(profile, range, null, { store: profile.view, turn });
  return (
    <div class="scroll">
      <RangeLine range={state.range ?? range} />
      <Body state={state} />
    </div>
  );
}

export function BoxSummary({ profile }: WidgetProps) {
  const box = useStore(profile.box);
  const mode = useStore(profile.boxMode);
  const state = useSummary(profile, box, box?.tracks ?? null);
  if (!box)
    return (
      <div class="scroll">
        <p class="muted hint">Drag over a region of the timeline in box selection mode. Esc clears it.</p>
        <button type="button" aria-pressed={mode} onClick={() => profile.boxMode.set(!mode)}>
          Box selection
        </button>
      </div>
    );
  return (
    <div class="scroll">
      <RangeLine range={box} />
      <p class="muted">{box.tracks.length} tracks</p>
      <Body state={state} />
    </div>
  );
}
