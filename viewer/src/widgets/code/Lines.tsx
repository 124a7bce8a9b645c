// The lines of a file: only those in sight are drawn. Clicks, Shift, Ctrl and drags choose lines.

import { useEffect, useRef, useState } from "preact/hooks";
import type { SourceLine } from "../../api/source";
import { fieldTitle, valueText } from "../../ui/values";
import type { Piece } from "./highlight";

export const LINE_HEIGHT = 18;
const BEYOND = 12;

export interface LinesProps {
  lines: Piece[][];
  figures: Map<number, SourceLine>;
  decoration: string;
  chosen: ReadonlySet<number>;
  /** Lines of the event that is selected: the number is the depth in the stack, 0 innermost. */
  selected: Map<number, number>;
  /** Scrolls there when it changes. */
  target: { line: number; n: number } | null;
  onChoose(lines: number[]): void;
}

function between(a: number, b: number): number[] {
  const [low, high] = [Math.min(a, b), Math.max(a, b)];
  return Array.from({ length: high - low + 1 }, (_, i) => low + i);
}

interface LineProps {
  number: number;
  pieces: Piece[];
  figure: SourceLine | undefined;
  decoration: string;
  share: number;
  chosen: boolean;
  depth: number | undefined;
}

function classOf({ chosen, depth, figure }: LineProps): string {
  const names = ["code-line"];
  if (chosen) names.push("chosen");
  if (depth !== undefined) names.push(depth === 0 ? "selected" : "selected-outer");
  if (figure) names.push("has-events");
  return names.join(" ");
}

function Line(props: LineProps) {
  const { number, pieces, figure, decoration, share } = props;
  const value = figure?.[decoration];
  const hint = figure
    ? Object.entries(figure)
        .filter(([name, item]) => name !== "line" && typeof item === "number")
        .map(([name, item]) => `${fieldTitle(name)}: ${valueText(name, item)}`)
        .join("\n")
    : "";
  return (
    <div
      class={classOf(props)}
      data-line={number}
      style={{ top: `${(number - 1) * LINE_HEIGHT}px`, height: `${LINE_HEIGHT}px` }}
      title={hint}
    >
      <span class="code-number">{number}</span>
      <span class="code-figure">
        {value !== undefined && (
          <>
            <span class="code-heat" style={{ width: `${Math.round(share * 100)}%` }} />
            <span class="code-value">{valueText(decoration, value)}</span>
          </>
        )}
      </span>
      <code>
        {pieces.map((piece, i) =>
          piece.tone === "plain" ? (
            piece.text
          ) : (
            <span key={i} class={`tone-${piece.tone}`}>
              {piece.text}
            </span>
          ),
        )}
      </code>
    </div>
  );
}

/** How lines are chosen by pointer and keys; the anchor is where a range begins. */
function useChoice({ lines, chosen, onChoose }: LinesProps) {
  const anchor = useRef<number | null>(null);
  const last = useRef<number | null>(null);
  const dragging = useRef(false);
  const numberOf = (event: Event) => {
    const line = (event.target as HTMLElement).closest<HTMLElement>("[data-line]");
    return line ? Number(line.dataset.line) : null;
  };
  const extend = (to: number) => {
    last.current = to;
    onChoose(between(anchor.current ?? to, to));
  };
  return {
    onPointerDown(event: PointerEvent) {
      const line = numberOf(event);
      if (event.button !== 0 || line === null) return;
      if (event.shiftKey && anchor.current !== null) {
        event.preventDefault();
        extend(line);
        return;
      }
      anchor.current = line;
      last.current = line;
      if (event.ctrlKey || event.metaKey) {
        const next = new Set(chosen);
        if (!next.delete(line)) next.add(line);
        onChoose([...next]);
        return;
      }
      dragging.current = true;
      onChoose(chosen.size === 1 && chosen.has(line) ? [] : [line]);
    },
    onPointerMove(event: PointerEvent) {
      if (!dragging.current) return;
      if (!(event.buttons & 1)) {
        dragging.current = false;
        return;
      }
      const line = numberOf(event);
      if (line !== null && line !== last.current) extend(line);
    },
    onPointerUp() {
      dragging.current = false;
    },
    onKeyDown(event: KeyboardEvent) {
      if (event.key === "Escape") onChoose([]);
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      const to = Math.min(Math.max((last.current ?? 0) + by, 1), lines.length);
      if (!event.shiftKey) anchor.current = to;
      extend(to);
    },
  };
}

export function Lines(props: LinesProps) {
  const { lines, figures, decoration, chosen, selected, target } = props;
  const scroller = useRef<HTMLElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 600 });
  const choice = useChoice(props);
  useEffect(() => {
    const element = scroller.current!;
    const read = () => setSeen({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(read);
    observer.observe(element);
    element.addEventListener("scroll", read, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", read);
    };
  }, []);
  useEffect(() => {
    const element = scroller.current;
    if (target && element) element.scrollTop = (target.line - 1) * LINE_HEIGHT - element.clientHeight / 2;
  }, [target, lines]);
  let most = 0;
  for (const figure of figures.values()) most = Math.max(most, Number(figure[decoration] ?? 0));
  const first = Math.max(Math.floor(seen.top / LINE_HEIGHT) - BEYOND, 0);
  const behind = Math.min(Math.ceil((seen.top + seen.height) / LINE_HEIGHT) + BEYOND, lines.length);
  return (
    <section ref={scroller} class="code-lines" tabIndex={0} aria-label="Source text" {...choice}>
      <div class="code-page" style={{ height: `${lines.length * LINE_HEIGHT}px` }}>
        {lines.slice(first, behind).map((pieces, i) => {
          const number = first + i + 1;
          const figure = figures.get(number);
          return (
            <Line
              key={number}
              number={number}
              pieces={pieces}
              figure={figure}
              decoration={decoration}
              share={most > 0 ? Number(figure?.[decoration] ?? 0) / most : 0}
              chosen={chosen.has(number)}
              depth={selected.get(number)}
            />
          );
        })}
      </div>
    </section>
  );
}
