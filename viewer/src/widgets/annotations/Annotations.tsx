// Annotations: names, what each is compared with, what lies between the two; save, load, export.

import { useRef, useState } from "preact/hooks";
import type { Range } from "../../api/types";
import { type Annotation, annotationsCsv, readAnnotations, versusOf, writeAnnotations } from "../../state/annotations";
import { messageOf, useStore } from "../../state/store";
import { around, exactText, timeText } from "../../timeline/scale";
import { download } from "../../ui/copy";
import type { WidgetProps } from "../registry";
import { Report } from "../summary/Report";
import { useSummary } from "../summary/Summary";

interface RowProps extends WidgetProps {
  annotation: Annotation;
  list: Annotation[];
  zoomed: boolean;
  onZoom(on: boolean): void;
}

function between(a: Annotation, b: Annotation): Range {
  return { from: Math.min(a.ts, b.ts), to: Math.max(a.ts, b.ts) };
}

function Row({ profile, annotations, annotation, list, zoomed, onZoom }: RowProps) {
  const other = versusOf(list, annotation);
  // A choice of hundreds in each of hundreds of rows would take seconds: it is made where it is looked at.
  const [choosing, setChoosing] = useState(false);
  const show = () => profile.jump(around(annotation.ts, annotation.ts, profile.extent));
  return (
    <tr>
      <td>
        <input
          type="checkbox"
          aria-label={`Zoom to the region of ${annotation.name}`}
          title="Zoom to the region between the two"
          checked={zoomed}
          disabled={!other}
          onChange={(event) => onZoom(event.currentTarget.checked)}
        />
      </td>
      <td>
        <input
          type="text"
          class="name"
          aria-label="Name"
          maxLength={200}
          value={annotation.name}
          onInput={(event) => annotations.change(annotation.id, { name: event.currentTarget.value })}
        />
      </td>
      <td class="number">
        <button type="button" class="plain" title="Show it" onClick={show}>
          {exactText(annotation.ts)}
        </button>
      </td>
      <td>
        <select
          aria-label={`Diff vs of ${annotation.name}`}
          value={annotation.versus === null ? "" : String(annotation.versus)}
          onPointerDown={() => setChoosing(true)}
          onFocus={() => setChoosing(true)}
          onChange={(event) => {
            const { value } = event.currentTarget;
            annotations.change(annotation.id, { versus: value === "" ? null : Number(value) });
          }}
        >
          <option value="">the one before</option>
          {list
            .filter((a) => a.id !== annotation.id && (choosing || a.id === annotation.versus))
            .map((a) => (
              <option key={a.id} value={String(a.id)}>
                {a.name}
              </option>
            ))}
        </select>
      </td>
      <td class="number">{other ? timeText(annotation.ts - other.ts) : "–"}</td>
      <td>
        <button
          type="button"
          class="tiny"
          aria-label={`Delete ${annotation.name}`}
          onClick={() => annotations.remove(annotation.id)}
        >
          ✕
        </button>
      </td>
    </tr>
  );
}

function Between({ profile, range }: { profile: WidgetProps["profile"]; range: Range }) {
  const state = useSummary(profile, range, null);
  if (state.error) return <p class="error">{state.error}</p>;
  return state.value ? <Report value={state.value} /> : <p class="muted">Loading…</p>;
}

/** Whether what is there may go, where that is not clear. */
function mayReplace(profile: string, before: Annotation[], file: { profile: string; list: Annotation[] }): boolean {
  const foreign = file.profile !== profile;
  if (before.length === 0 && !foreign) return true;
  const of = foreign ? ` of another profile, ${file.profile || "which is not named"}` : "";
  const what = before.length > 0 ? `Replace ${before.length} annotations by` : "Load";
  return window.confirm(`${what} ${file.list.length}${of}?`);
}

function useFile({ profile, annotations }: WidgetProps) {
  const [error, setError] = useState<string | null>(null);
  const input = useRef<HTMLInputElement>(null);
  const load = async () => {
    const file = input.current?.files?.[0];
    if (!file) return;
    try {
      const read = readAnnotations(await file.text());
      if (mayReplace(profile.name, annotations.list.value, read)) annotations.replace(read.list);
      setError(null);
    } catch (reason) {
      setError(messageOf(reason));
    }
    input.current!.value = "";
  };
  return { error, input, load };
}

export function AnnotationsWidget({ profile, annotations }: WidgetProps) {
  const list = useStore(annotations.list);
  const [zoom, setZoom] = useState<number | null>(null);
  const file = useFile({ profile, annotations });
  const sorted = [...list].sort((a, b) => a.ts - b.ts);
  const current = list.find((a) => a.id === zoom);
  const other = current ? versusOf(list, current) : null;
  const choose = (annotation: Annotation, on: boolean) => {
    setZoom(on ? annotation.id : null);
    const versus = versusOf(list, annotation);
    if (on && versus) {
      const { from, to } = between(annotation, versus);
      profile.jump(around(from, to, profile.extent, 0.95));
    }
  };
  const save = () =>
    download(`${profile.name}-annotations.json`, "application/json", writeAnnotations(profile.name, list));
  const csv = () => download(`${profile.name}-annotations.csv`, "text/csv", annotationsCsv(list));
  return (
    <div class="annotations">
      <div class="toolbar">
        <button type="button" disabled={list.length === 0} onClick={save}>
          Save
        </button>
        <button type="button" onClick={() => file.input.current?.click()}>
          Load
        </button>
        <button type="button" disabled={list.length === 0} onClick={csv}>
          Export CSV
        </button>
        <input
          ref={file.input}
          type="file"
          class="off-screen"
          accept=".json,application/json"
          aria-label="File of annotations"
          onChange={() => void file.load()}
        />
      </div>
      {file.error && <p class="error">{file.error}</p>}
      <div class="scroll">
        {list.length === 0 && (
          <p class="muted hint">Right-click the timeline to set a mark; drag its line to move it.</p>
        )}
        {list.length > 0 && (
          <table class="results">
            <thead>
              <tr>
                <th scope="col" aria-label="Zoom" />
                <th scope="col">Name</th>
                <th scope="col" class="number">
                  Time
                </th>
                <th scope="col">diff vs</th>
                <th scope="col" class="number">
                  Difference
                </th>
                <th scope="col" aria-label="Delete" />
              </tr>
            </thead>
            <tbody>
              {sorted.map((annotation) => (
                <Row
                  key={annotation.id}
                  profile={profile}
                  annotations={annotations}
                  annotation={annotation}
                  list={list}
                  zoomed={zoom === annotation.id}
                  onZoom={(on) => choose(annotation, on)}
                />
              ))}
            </tbody>
          </table>
        )}
        {current && other && (
          <>
            <h4>
              Between {other.name} and {current.name}
            </h4>
            <Between profile={profile} range={between(current, other)} />
          </>
        )}
      </div>
    </div>
  );
}
