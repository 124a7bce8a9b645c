// The labels of the tracks, left of the canvas: pin, hide, drag to another place, drag the lower edge to another height.

import { useRef, useState } from "preact/hooks";
import type { Track } from "../api/types";
import type { Profile } from "../state/profile";
import type { BandLane } from "./bands";
import { groupDigits } from "./scale";
import { AXIS_HEIGHT, LANE_HEIGHT } from "./scene";
import { moved, type Row, setHeight, setHidden, setPinned } from "./tracks";

interface LabelProps {
  profile: Profile;
  row: Row;
  pinned: boolean;
  over: string | null;
  /** Does Tab come to it? To one of all only; the arrows lead to the others. */
  active: boolean;
  onOver(id: string | null): void;
}

/** What a screen reader says of a track. */
export function trackText({ label, form, absent, events }: Track): string {
  if (absent !== null) return `${label}, nothing in it: ${absent}`;
  if (form === "series") return `${label}, plot`;
  return events === undefined ? `${label}, events` : `${label}, ${groupDigits(events)} events`;
}

function neighbour(label: HTMLElement, by: number): HTMLElement | null {
  const all = [...(label.closest(".timeline")?.querySelectorAll<HTMLElement>(".label") ?? [])];
  return all[all.indexOf(label) + by] ?? null;
}

/** Keys on a track's name: arrows go to other tracks, the rest along this one. */
function useTrackKeys(profile: Profile, track: Track) {
  const inView = () => void profile.goToEnd(track.id, false, Math.max(profile.view.value.from, profile.extent.from));
  const step = (forward: boolean) => {
    if (profile.details.value.value?.track === track.id) profile.step(forward);
    else inView();
  };
  const keys: Record<string, (label: HTMLElement) => void> = {
    arrowdown: (label) => neighbour(label, 1)?.focus(),
    arrowup: (label) => neighbour(label, -1)?.focus(),
    home: () => void profile.goToEnd(track.id, false),
    end: () => void profile.goToEnd(track.id, true),
    enter: inView,
    n: () => step(true),
    p: () => step(false),
  };
  return {
    onFocus() {
      profile.track.set(track.id);
    },
    onKeyDown(event: KeyboardEvent) {
      const action = keys[event.key.toLowerCase()];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      // Enter on one of its buttons is the button's.
      if (event.target !== event.currentTarget && event.key === "Enter") return;
      event.preventDefault();
      event.stopPropagation();
      action(event.currentTarget as HTMLElement);
    },
  };
}

function useResize(profile: Profile, row: Row) {
  const start = useRef<{ y: number; height: number } | null>(null);
  return {
    onPointerDown(event: PointerEvent) {
      event.stopPropagation();
      event.preventDefault();
      (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
      start.current = { y: event.clientY, height: row.height };
    },
    onPointerMove(event: PointerEvent) {
      if (!start.current) return;
      const height = start.current.height + event.clientY - start.current.y;
      profile.prefs.update((prefs) => setHeight(prefs, row.track.id, height));
    },
    onPointerUp() {
      start.current = null;
    },
  };
}

/** The track whose label lies under the pointer. */
function trackUnder(event: PointerEvent): string | null {
  const under = document
    .elementsFromPoint(event.clientX, event.clientY)
    .find((element) => element.hasAttribute("data-track"));
  return under?.getAttribute("data-track") ?? null;
}

function useMove(profile: Profile, track: Track, onOver: (id: string | null) => void) {
  const dragging = useRef<number | null>(null);
  return {
    onPointerDown(event: PointerEvent) {
      if (event.button !== 0 || (event.target as HTMLElement).closest("button")) return;
      dragging.current = event.clientY;
      (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
    },
    onPointerMove(event: PointerEvent) {
      if (dragging.current === null || Math.abs(event.clientY - dragging.current) < 5) return;
      const target = trackUnder(event);
      onOver(target === track.id ? null : target);
    },
    onPointerUp(event: PointerEvent) {
      const from = dragging.current;
      dragging.current = null;
      onOver(null);
      if (from === null || Math.abs(event.clientY - from) < 5) return;
      const target = trackUnder(event);
      if (target) profile.prefs.update((prefs) => moved(prefs, profile.overview.tracks, track.id, target));
    },
  };
}

function Label({ profile, row, pinned, over, active, onOver }: LabelProps) {
  const { track } = row;
  const move = useMove(profile, track, onOver);
  const resize = useResize(profile, row);
  const keys = useTrackKeys(profile, track);
  const classes = [
    "label",
    `group-${track.group}`,
    `form-${track.form}`,
    track.absent === null ? "" : "absent",
    over === track.id ? "over" : "",
  ];
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset does not lie absolutely in every browser
    <div
      role="group"
      aria-label={trackText(track)}
      tabIndex={active ? 0 : -1}
      class={classes.join(" ")}
      data-track={track.id}
      style={{ top: `${row.y}px`, height: `${row.height}px` }}
      title={track.absent ?? `${track.label}. Drag to move it, drag the lower edge to resize it.`}
      {...move}
      {...keys}
    >
      <span class="label-text">{track.label}</span>
      <span class="label-tools">
        <button
          type="button"
          class="tiny"
          aria-pressed={pinned}
          aria-label={`${pinned ? "Unpin" : "Pin"} ${track.label}`}
          title={pinned ? "Unpin" : "Pin to the top"}
          onClick={() => profile.prefs.update((prefs) => setPinned(prefs, track.id, !pinned))}
        >
          {pinned ? "▼" : "▲"}
        </button>
        <button
          type="button"
          class="tiny"
          aria-label={`Hide ${track.label}`}
          title="Hide; the Tracks dialog shows it again"
          onClick={() => profile.prefs.update((prefs) => setHidden(prefs, [track], true))}
        >
          ✕
        </button>
      </span>
      <div class="label-edge" {...resize} />
    </div>
  );
}

interface LabelsProps {
  profile: Profile;
  rows: Row[];
  pinned: boolean;
  tabStop: string | undefined;
}

export function Labels({ profile, rows, pinned, tabStop }: LabelsProps) {
  const [over, setOver] = useState<string | null>(null);
  return (
    <>
      {rows.map((row) => (
        <Label
          key={row.track.id}
          profile={profile}
          row={row}
          pinned={pinned}
          over={over}
          active={row.track.id === tabStop}
          onOver={setOver}
        />
      ))}
    </>
  );
}

export function LaneNames({ lanes }: { lanes: BandLane[] }) {
  return (
    <>
      {lanes.map((lane, i) => (
        <div
          key={`${lane.name}${i}`}
          class={`lane-name tone-${lane.tone}`}
          style={{ top: `${AXIS_HEIGHT + i * LANE_HEIGHT}px`, height: `${LANE_HEIGHT}px` }}
        >
          {lane.name}
        </div>
      ))}
    </>
  );
}
