// The Code Viewer: source text, what its lines cost, and links both ways between lines and events.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Latest } from "../../api/client";
import { decorationsOf, type SourceFile, type SourceLine } from "../../api/source";
import type { SourceLocation } from "../../api/types";
import type { Profile } from "../../state/profile";
import { type Loaded, messageOf, nothing, useStore } from "../../state/store";
import { fieldTitle } from "../../ui/values";
import type { WidgetProps } from "../registry";
import { highlighted } from "./highlight";
import { Lines } from "./Lines";

interface Opened {
  file: string;
  text: string;
  lines: SourceLine[];
}

function useAnswer<T>(key: unknown[], ask: ((signal: AbortSignal) => Promise<T>) | null): Loaded<T> {
  const [state, setState] = useState<Loaded<T>>(nothing());
  const [latest] = useState(() => new Latest());
  useEffect(() => {
    setState({ value: null, busy: ask !== null, error: null });
    if (!ask) return;
    latest
      .run(ask)
      .then((value) => value && setState({ value, busy: false, error: null }))
      .catch((error: unknown) => setState({ value: null, busy: false, error: messageOf(error) }));
    return () => latest.cancel();
  }, key);
  return state;
}

async function open(profile: Profile, file: string, signal: AbortSignal): Promise<Opened> {
  const [{ text }, { lines }] = await Promise.all([
    profile.api.sourceText(file, signal),
    profile.api.sourceLines(file, signal),
  ]);
  return { file, text, lines };
}

/** The place to go to for an event: the innermost of which there is text, kernels before the framework. */
function bestOf(sources: SourceLocation[], files: SourceFile[]): SourceLocation | null {
  const there = new Set(files.filter((file) => file.available).map((file) => file.file));
  const list = sources
    .filter((source) => source.line !== null && there.has(source.file))
    .sort((a, b) => Number(b.kind === "nki") - Number(a.kind === "nki") || a.depth - b.depth);
  return list[0] ?? null;
}

function FileChooser({
  files,
  file,
  onChoose,
}: {
  files: SourceFile[];
  file: string | null;
  onChoose(file: string): void;
}) {
  return (
    <select
      aria-label="File"
      class="code-file"
      value={file ?? ""}
      onChange={(event) => onChoose(event.currentTarget.value)}
    >
      {file === null && <option value="">Choose a file</option>}
      {files.map((one) => (
        <option key={one.file} value={one.file} disabled={!one.available}>
          {one.file}
          {one.available ? "" : " (no text)"}
        </option>
      ))}
    </select>
  );
}

function Hint({ files }: { files: SourceFile[] }) {
  if (files.length === 0)
    return <p class="muted hint">This profile names no source lines: its program has no debug information.</p>;
  return (
    <p class="muted hint">
      This profile names {files.length} source {files.length === 1 ? "file" : "files"}, but has no text of them. Give it
      with the upload, or with --framework-source-root and --nki-source-root.
    </p>
  );
}

/** Which file is open: what the user chose, a line that another widget asks for, else where the selected event leads. */
function usePlace(profile: Profile, files: SourceFile[]) {
  const details = useStore(profile.details);
  const place = useStore(profile.place);
  const wish = useStore(profile.toSource);
  const [file, setFile] = useState<string | null>(null);
  const [target, setTarget] = useState<{ line: number; n: number } | null>(null);
  const [served, setServed] = useState(0);
  const sources = details.value?.sources ?? [];
  const best = bestOf(sources, files);
  useEffect(() => {
    if (!best) return;
    const wanted = wish > served;
    // A click only marks the line, unless nothing is open yet; with Ctrl or Cmd the viewer goes there.
    if (!wanted && file !== null) return;
    setServed(wish);
    setFile(best.file);
    setTarget({ line: best.line!, n: wish });
  }, [details.value, wish, files]);
  useEffect(() => {
    if (!place) return;
    setServed(wish);
    setFile(place.file);
    setTarget({ line: place.line, n: wish });
  }, [place]);
  const first = files.find((one) => one.available)?.file ?? null;
  return { file: file ?? first, choose: setFile, target: file === null ? null : target, sources };
}

export function CodeWidget({ profile }: WidgetProps) {
  const list = useAnswer([profile], (signal) => profile.api.sourceFiles(signal));
  const files = list.value?.files ?? [];
  const { file, choose, target, sources } = usePlace(profile, files);
  const opened = useAnswer([profile, file], file === null ? null : (signal) => open(profile, file, signal));
  const lit = useStore(profile.lit);
  const [decoration, setDecoration] = useState("instructions");
  const value = opened.value?.file === file ? opened.value : null;
  const lines = useMemo(() => (value ? highlighted(value.text) : []), [value]);
  const figures = useMemo(() => new Map(value?.lines.map((line) => [line.line, line])), [value]);
  const decorations = useMemo(() => decorationsOf(value?.lines ?? []), [value]);
  useEffect(
    () => () => {
      profile.lit.set(null);
      profile.place.set(null);
    },
    [profile],
  );
  const chosen = useMemo(() => new Set(lit && lit.file === file ? lit.lines : []), [lit, file]);
  const selected = new Map(
    sources
      .filter((source) => source.file === file && source.line !== null)
      .sort((a, b) => b.depth - a.depth)
      .map((source) => [source.line!, source.depth]),
  );
  const first = [...chosen].sort((a, b) => a - b).flatMap((line) => figures.get(line)?.first ?? [])[0];
  const show = () => {
    if (!first) return;
    profile.goTo(first);
  };
  const error = list.error ?? opened.error;
  return (
    <div class="code">
      <div class="toolbar">
        <FileChooser files={files} file={file} onChoose={choose} />
        {decorations.length > 0 && (
          <select
            aria-label="Decoration"
            title="What stands beside the lines"
            value={decoration}
            onChange={(event) => setDecoration(event.currentTarget.value)}
          >
            {decorations.map((name) => (
              <option key={name} value={name}>
                {fieldTitle(name)}
              </option>
            ))}
          </select>
        )}
        <span class="space" />
        {chosen.size > 0 && (
          <>
            <span class="muted">
              {chosen.size} {chosen.size === 1 ? "line" : "lines"}
            </span>
            <button type="button" disabled={!first} onClick={show}>
              First event
            </button>
            <button type="button" onClick={() => profile.lit.set(null)}>
              Clear
            </button>
          </>
        )}
      </div>
      {error && <p class="error">{error}</p>}
      {list.value && file === null && <Hint files={files} />}
      {opened.busy && <p class="muted">Loading…</p>}
      {value && (
        <Lines
          lines={lines}
          figures={figures}
          decoration={decoration}
          chosen={chosen}
          selected={selected}
          target={target}
          onChoose={(numbers) => profile.lit.set(numbers.length > 0 ? { file: value.file, lines: numbers } : null)}
        />
      )}
    </div>
  );
}
