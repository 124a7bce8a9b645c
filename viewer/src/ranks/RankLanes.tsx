// The lanes as a widget: names of the ranks, canvases, card.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Rank } from "../api/ranks";
import { profileAddress } from "../state/route";
import { useStore } from "../state/store";
import { exactText, span, timeText, zoomed } from "../timeline/scale";
import { AXIS_HEIGHT } from "../timeline/scene";
import { Trouble } from "../ui/Trouble";
import { theme } from "../ui/theme";
import { rankName } from "./clock";
import { attachLanes } from "./interact";
import { ORDERS, type Order, type RanksModel } from "./model";
import { LanesView } from "./view";

export function errorText(ns: number | null): string {
  return ns === null ? "no bound" : `± ${timeText(ns)}`;
}

function Toolbar({ model }: { model: RanksModel }) {
  const order = useStore(model.order);
  const view = useStore(model.view);
  const zoom = (factor: number) => model.view.set(zoomed(view, (view.from + view.to) / 2, factor, model.extent));
  return (
    <div class="toolbar">
      <span class="range-text" title={`${exactText(view.from)} to ${exactText(view.to)}`}>
        {timeText(view.from)} – {timeText(view.to)} <span class="muted">({timeText(span(view))})</span>
      </span>
      <span class="space" />
      <select
        aria-label="Order of ranks"
        value={order}
        onChange={(e) => model.order.set(e.currentTarget.value as Order)}
      >
        {ORDERS.map((one) => (
          <option key={one.order} value={one.order}>
            {one.name}
          </option>
        ))}
      </select>
      <button type="button" aria-label="Zoom in" title="Zoom in (W)" onClick={() => zoom(0.5)}>
        +
      </button>
      <button type="button" aria-label="Zoom out" title="Zoom out (S)" onClick={() => zoom(2)}>
        −
      </button>
      <button type="button" title="Show all (0)" onClick={() => model.look(model.extent)}>
        Fit
      </button>
    </div>
  );
}

interface LabelProps {
  rank: Rank;
  model: RanksModel;
  top: number;
  height: number;
  unfolded: boolean;
}

function Label({ rank, model, top, height, unfolded }: LabelProps) {
  const name = rankName(rank);
  const hints = [rank.profile, rank.host, rank.why, `Clock: ${errorText(rank.error_ns)}`].filter(Boolean).join("\n");
  return (
    <div
      class={`rank-label${rank.outlier ? " outlier" : ""}`}
      style={{ top: `${top}px`, height: `${height}px` }}
      data-rank={rank.rank ?? rank.worker ?? ""}
      data-profile={rank.profile}
      title={hints}
    >
      <button
        type="button"
        class="plain"
        aria-expanded={unfolded}
        aria-label={`Timeline of ${name}`}
        title="Show its tracks below, on the same clock"
        onClick={() => model.toggle(rank.profile)}
      >
        {unfolded ? "▾" : "▸"}
      </button>
      <a href={profileAddress(rank.profile)}>{name}</a>
      <span class="muted host">{rank.host ?? ""}</span>
      <span class="number">{rank.mfu_percent === null ? "–" : `${rank.mfu_percent.toPrecision(3)} %`}</span>
      <span class="number muted">{errorText(rank.error_ns)}</span>
    </div>
  );
}

interface Seen {
  scroll: number;
  height: number;
}

function Labels({ view, model, seen }: { view: LanesView; model: RanksModel; seen: Seen }) {
  const rows = useStore(view.rows);
  const unfolded = useStore(model.unfolded);
  const { rowHeight } = view;
  const first = Math.max(Math.floor(seen.scroll / rowHeight) - 2, 0);
  const count = Math.ceil(seen.height / rowHeight) + 4;
  return (
    <div class="labels" style={{ height: `${rows.length * rowHeight}px` }}>
      {rows.slice(first, first + count).map((rank, i) => (
        <Label
          key={rank.profile}
          rank={rank}
          model={model}
          top={(first + i) * rowHeight}
          height={rowHeight}
          unfolded={unfolded.includes(rank.profile)}
        />
      ))}
    </div>
  );
}

function Card({ view }: { view: LanesView }) {
  const hover = useStore(view.hover);
  if (!hover?.hit) return null;
  const { rank, lane, at } = hover.hit;
  const { arrivals, busy } = lane;
  const place = { left: `${Math.min(hover.x + 14, view.scene.width - 290)}px`, top: `${hover.y + 16}px` };
  let rows: [string, string][] = [["Clock", errorText(rank.error_ns)]];
  for (let i = 0; i < busy.n; i++)
    if (busy.start[i]! <= hover.time && hover.time < busy.start[i]! + busy.length[i]!)
      rows.push(["Busiest", `${busy.engine[i]} ${Math.round(busy.share[i]! * 100)} %`]);
  let title = rankName(rank);
  if (at !== null) {
    title = `${title}: ${arrivals.operation[at]}`;
    const error = arrivals.error[at]!;
    const more = arrivals.count[at]! > 1 ? `the latest of ${arrivals.count[at]} here` : "";
    rows = [
      ["Collective", `${arrivals.id[at]} ${more}`.trim()],
      ["Came at", exactText(arrivals.start[at]!)],
      ["After the first", timeText(arrivals.late[at]!)],
      ["Waited for the last", timeText(arrivals.wait[at]!)],
      ["Done at", exactText(arrivals.end[at]!)],
      ["Times may be off", errorText(error < 0 ? null : error)],
    ];
    if (arrivals.last[at])
      rows.push(["Last", arrivals.late[at]! > Math.max(error, 0) ? "came last" : "last, within the error"]);
  }
  return (
    <div class="hover-card ranks-card" style={place}>
      <strong>{title}</strong>
      <dl>
        {rows.map(([name, value]) => (
          <>
            <dt key={name}>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
      </dl>
    </div>
  );
}

/** What is drawn, as attributes: for the tests, and for people who look under the hood. */
function useFigures(view: LanesView | null, element: HTMLElement | null): void {
  useEffect(() => {
    if (!view || !element) return;
    const show = () => {
      const { from, to } = view.scene.view;
      const { collectives, whiskers, lanes, busy } = view.drawn.value;
      Object.assign(element.dataset, {
        from: String(from),
        to: String(to),
        collectives: String(collectives),
        whiskers: String(whiskers),
        lanes: String(lanes),
        busy: String(busy),
      });
    };
    show();
    return view.drawn.watch(show);
  }, [view, element]);
}

function observe(element: HTMLElement, resized: () => void): () => void {
  const observer = new ResizeObserver(resized);
  observer.observe(element);
  resized();
  return () => observer.disconnect();
}

export function RankLanes({ model }: { model: RanksModel }) {
  const root = useRef<HTMLElement>(null);
  const plot = useRef<HTMLDivElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const frame = useRef<HTMLCanvasElement>(null);
  const pointer = useRef<HTMLCanvasElement>(null);
  const [view, setView] = useState<LanesView | null>(null);
  const [seen, setSeen] = useState<Seen>({ scroll: 0, height: 0 });
  useEffect(() => {
    const made = new LanesView(model, { frame: frame.current!, pointer: pointer.current! });
    const side = scroller.current!;
    const area = plot.current!;
    const look = () => setSeen({ scroll: side.scrollTop, height: area.clientHeight });
    const onScroll = () => {
      made.scroll(side.scrollTop);
      look();
    };
    side.addEventListener("scroll", onScroll);
    const ends = [
      attachLanes(made, pointer.current!, side),
      observe(area, () => {
        made.resize(area.clientWidth, area.clientHeight, devicePixelRatio || 1);
        look();
      }),
      theme.watch(() => made.restyle()),
      () => side.removeEventListener("scroll", onScroll),
      () => made.close(),
    ];
    setView(made);
    return () => {
      for (const end of ends) end();
    };
  }, [model]);
  useFigures(view, root.current);
  const height = AXIS_HEIGHT + (view?.height ?? 0) + 2;
  return (
    <section ref={root} class="ranks-lanes" aria-label="Ranks on one clock">
      <Toolbar model={model} />
      <div class="ranks-body" style={{ height: `min(${Math.max(height, 120)}px, 60vh)` }}>
        <div class="ranks-head muted">
          <span>Rank, host</span>
          <span class="number">MFU</span>
          <span class="number">Clock</span>
        </div>
        <div ref={scroller} class="ranks-scroller">
          {view && <Labels view={view} model={model} seen={seen} />}
        </div>
        <div ref={plot} class="ranks-plot">
          <canvas ref={frame} />
          <canvas
            ref={pointer}
            class="pointer"
            tabIndex={0}
            aria-label="Collectives of each rank over time. A, D, W, S and arrows move; Escape lets go of the chosen collective."
          />
          {view && <Card view={view} />}
          {view && <Trouble trouble={view.trouble} />}
        </div>
      </div>
    </section>
  );
}
