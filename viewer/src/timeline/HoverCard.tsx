// What the pointer rests on, at a glance: time window, hierarchy, instruction and symbolic operands.

import { useEffect, useState } from "preact/hooks";
import { Latest } from "../api/client";
import type { EventDetails } from "../api/types";
import { useStore } from "../state/store";
import { type Band, bandText } from "./bands";
import { indexAt, valueText } from "./draw_series";
import { type Hit, refOf } from "./hit";
import { bytesText, exactText, groupDigits, timeText } from "./scale";
import { rowAt } from "./scene";
import type { Hover, TimelineView } from "./view";

const REST_MS = 90;
const KEPT = 200;
/** Details of what was hovered before, so that going back and forth asks nothing. */
const seen = new Map<string, EventDetails>();

function remember(key: string, details: EventDetails): void {
  if (seen.size >= KEPT) seen.delete(seen.keys().next().value!);
  seen.set(key, details);
}

function useDetails(view: TimelineView, hit: Hit | null): EventDetails | null {
  const ref = hit ? refOf(hit) : null;
  const key = ref ? `${view.profile.name} ${ref.table} ${ref.id}` : "";
  const [details, setDetails] = useState<{ key: string; value: EventDetails } | null>(null);
  useEffect(() => {
    const before = seen.get(key);
    if (!ref || before) return;
    const latest = new Latest();
    const timer = setTimeout(() => {
      latest
        .run((signal) => view.profile.api.details(ref, signal))
        .then((value) => {
          if (!value) return;
          remember(key, value);
          setDetails({ key, value });
        })
        .catch(() => undefined); // The card shows what the timeline knows.
    }, REST_MS);
    return () => {
      clearTimeout(timer);
      latest.cancel();
    };
  }, [key]);
  return seen.get(key) ?? (details?.key === key ? details.value : null);
}

function Line({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return (
    <div class="hover-line">
      <span class="muted">{name}</span>
      <span>{children}</span>
    </div>
  );
}

function text(value: unknown): string {
  return value === null || value === undefined ? "" : String(value);
}

function EventCard({ view, hit }: { view: TimelineView; hit: Hit }) {
  const { data, index, track } = hit;
  const details = useDetails(view, hit);
  const [start, end] = [data.start[index]!, data.end[index]!];
  const count = data.count?.[index] ?? 1;
  const fields = details?.fields ?? {};
  const wait = data.wait?.[index] ?? 0;
  const color = data.dict[data.color[index]!] ?? "";
  return (
    <>
      <div class="hover-title">{data.dict[data.label[index]!] || track.label}</div>
      <Line name="Track">{track.label}</Line>
      {count > 1 && (
        <Line name="Here">
          {groupDigits(count)} events, {timeText(data.busy?.[index] ?? 0)} busy; the longest takes{" "}
          {timeText(data.longest?.[index] ?? 0)}. Zoom in to see each.
        </Line>
      )}
      <Line name="Time">
        {exactText(start)} – {exactText(end)}
      </Line>
      <Line name="Duration">
        {timeText(end - start)}
        {wait > 0 && `, of which ${timeText(wait)} waiting`}
      </Line>
      {(data.bytes?.[index] ?? 0) > 0 && <Line name="Bytes">{bytesText(data.bytes![index]!)}</Line>}
      {details && details.hierarchy.length > 0 && <Line name="Hierarchy">{details.hierarchy.join(" › ")}</Line>}
      {!details && color && <Line name="Operator">{color}</Line>}
      {text(fields.opcode) && <Line name="Instruction">{`${text(fields.opcode)} ${text(fields.operands)}`}</Line>}
      {text(fields.symbolic_operands) && <Line name="Symbolic Operands">{text(fields.symbolic_operands)}</Line>}
      {text(fields.queue_name) && <Line name="Queue">{text(fields.queue_name)}</Line>}
      {text(fields.variable) && <Line name="Variable">{text(fields.variable)}</Line>}
    </>
  );
}

function BandCard({ band }: { band: Band }) {
  const { title, range, duration } = bandText(band);
  return (
    <>
      <div class="hover-title">{title}</div>
      <Line name="Time range">{range}</Line>
      {band.to > band.from && <Line name="Duration">{duration}</Line>}
      {band.details.map((details) => (
        <Line key={details} name="Details">
          {details}
        </Line>
      ))}
    </>
  );
}

function SeriesCard({ view, hover }: { view: TimelineView; hover: Hover }) {
  const placed = rowAt(view.scene, hover.y);
  if (placed?.row.track.form !== "series") return null;
  const { track } = placed.row;
  const series = view.data.seriesOf(track.id);
  const i = series ? indexAt(series, hover.time) : -1;
  if (!series || i < 0 || hover.time > series.to) return null;
  const [low, high] = [series.min[i]!, series.max[i]!];
  return (
    <>
      <div class="hover-title">{track.label}</div>
      <Line name="Value">{valueText(series.last[i]!, track.unit)}</Line>
      {low !== high && (
        <Line name="Within the pixel">
          {valueText(low, track.unit)} – {valueText(high, track.unit)}
        </Line>
      )}
      {series.parts.map((part) => (
        <Line key={part.name} name={part.name}>
          {valueText(part.last[i]!, track.unit)}
        </Line>
      ))}
    </>
  );
}

function contentOf(view: TimelineView, hover: Hover) {
  if (hover.band) return <BandCard band={hover.band} />;
  if (hover.hit) return <EventCard view={view} hit={hover.hit} />;
  return SeriesCard({ view, hover });
}

export function HoverCard({ view }: { view: TimelineView }) {
  const hover = useStore(view.hover);
  if (!hover) return null;
  const content = contentOf(view, hover);
  if (!content) return null;
  const { width, height } = view.scene;
  const left = hover.x > width * 0.55;
  const above = hover.y > height * 0.6;
  const style = {
    left: left ? "auto" : `${hover.x + 16}px`,
    right: left ? `${width - hover.x + 16}px` : "auto",
    top: above ? "auto" : `${hover.y + 14}px`,
    bottom: above ? `${height - hover.y + 14}px` : "auto",
  };
  return (
    <div class="hover-card" style={style}>
      {content}
    </div>
  );
}
