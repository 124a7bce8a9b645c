// The timeline as a widget: toolbar, labels, canvases, card, dialogs.

import { useEffect, useRef, useState } from "preact/hooks";
import { Latest } from "../api/client";
import type { Packed } from "../api/packed";
import type { SearchQuery } from "../api/profile";
import type { Annotations } from "../state/annotations";
import type { Profile } from "../state/profile";
import { useStore } from "../state/store";
import { Trouble } from "../ui/Trouble";
import { theme } from "../ui/theme";
import { ColorsDialog, HelpDialog, SettingsDialog, TracksDialog } from "./Dialogs";
import { ExportDialog } from "./ExportDialog";
import { eventText } from "./event_text";
import { Labels, LaneNames } from "./Gutter";
import { HoverCard } from "./HoverCard";
import { attach } from "./interact";
import { rangeText, span, timeText, zoomed } from "./scale";
import { bodyTop, headHeight } from "./scene";
import type { Rows } from "./tracks";
import { TimelineView } from "./view";

/** A pan in progress asks for marks once, when it rests. */
const MARKS_MS = 120;

type DialogName = "settings" | "help" | "tracks" | "colors" | "export" | null;

interface Props {
  profile: Profile;
  annotations: Annotations;
  onSource(): void;
  /** Is it the only timeline of the page? Then all keys are its own, wherever the pointer is. */
  alone?: boolean;
}

function RangeText({ profile }: { profile: Profile }) {
  const view = useStore(profile.view);
  return (
    <span class="range-text" title={`${Math.round(view.from)} ns to ${Math.round(view.to)} ns`}>
      {rangeText(view)} <span class="muted">({timeText(span(view))})</span>
    </span>
  );
}

function Toolbar({ profile, onOpen }: { profile: Profile; onOpen(name: DialogName): void }) {
  const boxMode = useStore(profile.boxMode);
  const zoom = (factor: number) => {
    const view = profile.view.value;
    profile.view.set(zoomed(view, (view.from + view.to) / 2, factor, profile.extent));
  };
  return (
    <div class="toolbar">
      <RangeText profile={profile} />
      <span class="space" />
      <button type="button" aria-label="Zoom in" title="Zoom in (W)" onClick={() => zoom(0.5)}>
        +
      </button>
      <button type="button" aria-label="Zoom out" title="Zoom out (S)" onClick={() => zoom(2)}>
        −
      </button>
      <button type="button" title="Show the whole profile (0)" onClick={() => profile.fit()}>
        Fit
      </button>
      <button
        type="button"
        aria-pressed={boxMode}
        title="Box selection: drag over a region (B); Esc clears it"
        onClick={() => profile.boxMode.set(!boxMode)}
      >
        Box selection
      </button>
      <button type="button" onClick={() => onOpen("tracks")}>
        Tracks
      </button>
      <button type="button" onClick={() => onOpen("colors")}>
        Colours
      </button>
      <button type="button" onClick={() => onOpen("settings")}>
        Settings
      </button>
      <button type="button" onClick={() => onOpen("help")}>
        Help
      </button>
      <button type="button" onClick={() => onOpen("export")}>
        Export to CSV
      </button>
    </div>
  );
}

/** Follows the size of an element. */
function observe(element: HTMLElement, resized: (width: number, height: number) => void): () => void {
  const observer = new ResizeObserver(() => resized(element.clientWidth, element.clientHeight));
  observer.observe(element);
  resized(element.clientWidth, element.clientHeight);
  return () => observer.disconnect();
}

/** All events of a question in what is seen, for their borders; asked again when the question or the view changes. */
function watchMarks<T>(
  view: TimelineView,
  question: { value: T | null; watch(watcher: () => void): () => void },
  ask: (question: T, width: number, signal: AbortSignal) => Promise<Packed>,
  show: (marks: Packed | null) => void,
): () => void {
  const latest = new Latest();
  let timer = 0;
  const now = () => {
    const { value } = question;
    if (value === null) {
      latest.cancel();
      show(null);
      return;
    }
    latest
      .run((signal) => ask(value, Math.max(Math.round(view.scene.width), 1), signal))
      .then((marks) => marks && show(marks))
      .catch(() => show(null));
  };
  const soon = () => {
    clearTimeout(timer);
    timer = window.setTimeout(now, MARKS_MS);
  };
  const ends = [question.watch(soon), view.profile.view.watch(() => question.value !== null && soon())];
  if (question.value !== null) soon();
  return () => {
    for (const end of ends) end();
    clearTimeout(timer);
    latest.cancel();
  };
}

/** The question of the search, apart from its pages. */
function searchQuestion({ search }: Profile): { value: SearchQuery | null; watch(watcher: () => void): () => void } {
  return {
    get value() {
      return search.value.query;
    },
    watch(watcher) {
      let before = search.value.query;
      return search.watch(({ query }) => {
        if (query !== before) watcher();
        before = query;
      });
    },
  };
}

interface Parts {
  plot: HTMLDivElement;
  scroller: HTMLDivElement;
  frame: HTMLCanvasElement;
  overlay: HTMLCanvasElement;
  pointer: HTMLElement;
  /** What takes the input. */
  surface: HTMLElement;
}

function start(props: Props, parts: Parts): { view: TimelineView; stop(): void } {
  const { frame, overlay, pointer, surface, plot, scroller } = parts;
  const { profile } = props;
  const view = new TimelineView(props.profile, props.annotations, { frame, overlay, pointer });
  const onScroll = () => view.scroll(scroller.scrollTop);
  scroller.addEventListener("scroll", onScroll);
  const ends = [
    attach(view, surface, scroller, { toSource: props.onSource, alone: props.alone !== false }),
    observe(plot, (width, height) => view.resize(width, height, window.devicePixelRatio || 1)),
    theme.watch(() => view.restyle()),
    view.scrollTo.watch((top) => top !== null && scroller.scrollTo({ top })),
    watchMarks(
      view,
      searchQuestion(profile),
      (query, width, signal) => profile.api.searchMarks(query, profile.view.value, width, signal),
      (marks) => view.setMarks(marks),
    ),
    watchMarks(
      view,
      profile.lit,
      (lines, width, signal) => profile.api.sourceMarks(lines, profile.view.value, width, signal),
      (marks) => view.setLit(marks),
    ),
    () => scroller.removeEventListener("scroll", onScroll),
    () => view.close(),
  ];
  return {
    view,
    stop: () => {
      for (const end of ends) end();
    },
  };
}

/** What is drawn, as attributes: for the tests, and for people who look under the hood. */
function useFigures(view: TimelineView | null, element: HTMLElement | null): void {
  useEffect(() => {
    if (!view || !element) return;
    const show = () => {
      const { from, to } = view.scene.view;
      Object.assign(element.dataset, {
        from: String(from),
        to: String(to),
        wide: String(view.drawn.value.wide),
        narrow: String(view.drawn.value.narrow),
        busy: String(view.data.busy),
      });
    };
    show();
    return view.drawn.watch(show);
  }, [view, element]);
}

/** The one track that Tab leads to: the chosen one, where it is shown. */
function useTabStop(profile: Profile, rows: Rows): string | undefined {
  const track = useStore(profile.track);
  const all = [...rows.pinned, ...rows.rest];
  return (all.find((row) => row.track.id === track) ?? all[0])?.track.id;
}

/** What a screen reader says when an event is selected. */
function Announcer({ profile }: { profile: Profile }) {
  const { value } = useStore(profile.details);
  return (
    <p class="unseen" role="status" aria-label="Selected event">
      {value ? eventText(value) : ""}
    </p>
  );
}

function LabelColumn({ view, profile }: { view: TimelineView; profile: Profile }) {
  const rows = useStore(view.layout);
  const head = headHeight(view.scene);
  const tabStop = useTabStop(profile, rows);
  return (
    <>
      <LaneNames lanes={view.scene.lanes} />
      <div class="pinned-labels" style={{ top: `${head}px`, height: `${rows.pinnedHeight}px` }}>
        <Labels profile={profile} rows={rows.pinned} pinned tabStop={tabStop} />
      </div>
    </>
  );
}

export function Timeline(props: Props) {
  const { profile } = props;
  const root = useRef<HTMLElement>(null);
  const plot = useRef<HTMLDivElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const frame = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const pointer = useRef<HTMLDivElement>(null);
  const surface = useRef<HTMLCanvasElement>(null);
  const [view, setView] = useState<TimelineView | null>(null);
  const [dialog, setDialog] = useState<DialogName>(null);
  useEffect(() => {
    const started = start(props, {
      plot: plot.current!,
      scroller: scroller.current!,
      frame: frame.current!,
      overlay: overlay.current!,
      pointer: pointer.current!,
      surface: surface.current!,
    });
    setView(started.view);
    return started.stop;
  }, [profile]);
  useFigures(view, root.current);
  const close = () => setDialog(null);
  return (
    <section ref={root} class="timeline" aria-label="Device timeline">
      <Toolbar profile={profile} onOpen={setDialog} />
      <div class="timeline-body">
        {view && <LabelColumn view={view} profile={profile} />}
        <Scroller view={view} profile={profile} element={scroller} />
        <div ref={plot} class="plot">
          <canvas ref={frame} />
          <canvas ref={overlay} />
          <div ref={pointer} class="pointer-layer" aria-hidden="true" hidden />
          <canvas ref={surface} class="pointer" tabIndex={0} aria-label="Events over time. The keys are in Help." />
          <Announcer profile={profile} />
          {view && <HoverCard view={view} />}
          {view && <AllHidden view={view} />}
          {view && (
            <div class="troubles">
              <Trouble trouble={view.annotations.trouble} />
              <Trouble trouble={view.trouble} />
            </div>
          )}
        </div>
      </div>
      {dialog === "settings" && <SettingsDialog profile={profile} onClose={close} />}
      {dialog === "help" && <HelpDialog onClose={close} />}
      {dialog === "tracks" && <TracksDialog profile={profile} onClose={close} />}
      {dialog === "export" && <ExportDialog profile={profile} width={view?.scene.width ?? 1} onClose={close} />}
      {dialog === "colors" && <ColorsDialog profile={profile} onClose={close} />}
    </section>
  );
}

function AllHidden({ view }: { view: TimelineView }) {
  const { pinned, rest } = useStore(view.layout);
  if (pinned.length + rest.length > 0) return null;
  return <p class="muted all-hidden">No track is shown. “Tracks” above shows them again.</p>;
}

interface ScrollerProps {
  view: TimelineView | null;
  profile: Profile;
  element: preact.RefObject<HTMLDivElement | null>;
}

function Scroller({ view, profile, element }: ScrollerProps) {
  return (
    <div ref={element} class="scroller" style={view ? { top: `${bodyTop(view.scene)}px` } : {}}>
      {view && <ScrolledLabels view={view} profile={profile} element={element} />}
    </div>
  );
}

function ScrolledLabels({ view, profile, element }: ScrollerProps & { view: TimelineView }) {
  const rows = useStore(view.layout);
  const tabStop = useTabStop(profile, rows);
  useEffect(() => {
    if (element.current) element.current.style.top = `${bodyTop(view.scene)}px`;
  }, [rows]);
  return (
    <div class="labels" style={{ height: `${rows.restHeight + 8}px` }}>
      <Labels profile={profile} rows={rows.rest} pinned={false} tabStop={tabStop} />
    </div>
  );
}
