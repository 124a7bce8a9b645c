// Summaries of the whole profile, of what the timeline shows, and of a box.

import { useLayoutEffect, useState } from "preact/hooks";
import { ApiError, Latest } from "../../api/client";
import type { Range } from "../../api/types";
import type { Profile } from "../../state/profile";
import { type Loaded, messageOf, nothing, useStore } from "../../state/store";
import { exactText, timeText } from "../../timeline/scale";
import type { WidgetProps } from "../registry";
import { Sections } from "./Sections";

/** A zoom in progress asks once, when it rests. */
const REST_MS = 180;

function reason(error: unknown): string {
  return error instanceof ApiError && error.status === 404 ? "This server makes no summaries." : messageOf(error);
}

type SummaryState = Loaded<Record<string, unknown>>;

export function useSummary(profile: Profile, range: Range | null, tracks: string[] | null): SummaryState {
  const [state, setState] = useState<SummaryState>(nothing());
  const [latest] = useState(() => new Latest());
  const key = range ? `${Math.floor(range.from)} ${Math.ceil(range.to)} ${tracks?.join(",") ?? ""}` : "";
  // Of the layout, not after the paint: a new view gives up the old question before it asks for its own data.
  useLayoutEffect(() => {
    if (!range) {
      setState(nothing());
      return;
    }
    setState((before) => ({ ...before, busy: true }));
    const timer = setTimeout(() => {
      latest
        .run((signal) => profile.api.summary(range, tracks, signal))
        .then((value) => value && setState({ value, busy: false, error: null }))
        .catch((error: unknown) => setState({ value: null, busy: false, error: reason(error) }));
    }, REST_MS);
    return () => {
      clearTimeout(timer);
      latest.cancel();
    };
  }, [key, profile]);
  return state;
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
      {exactText(range.from)} – {exactText(range.to)} ({timeText(range.to - range.from)})
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
  const view = useStore(profile.view);
  const range = cut(view, profile.extent);
  const state = useSummary(profile, range, null);
  return (
    <div class="scroll">
      <RangeLine range={range} />
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
