// Device Timeline settings, Device Timeline Help, which tracks are shown, and colours of operators.

import { useState } from "preact/hooks";
import type { Profile } from "../state/profile";
import { useStore } from "../state/store";
import { Dialog } from "../ui/Dialog";
import { colorOf, customColors, DEPENDENCIES, hex } from "./color";
import { DMA_MODES, GROUP_NAMES, isHidden, matches, NO_PREFS, type Settings, setHidden } from "./tracks";

interface Props {
  profile: Profile;
  onClose(): void;
}

function Switch(props: { label: string; means: string; on: boolean; onChange(on: boolean): void }) {
  return (
    <label class="switch">
      <input type="checkbox" checked={props.on} onChange={(event) => props.onChange(event.currentTarget.checked)} />
      <span>
        {props.label}
        <small>{props.means}</small>
      </span>
    </label>
  );
}

export function SettingsDialog({ profile, onClose }: Props) {
  const settings = useStore(profile.settings);
  const set = (change: Partial<Settings>) => profile.settings.update((now) => ({ ...now, ...change }));
  return (
    <Dialog title="Device Timeline settings" onClose={onClose}>
      <fieldset>
        <legend>DMA Aggregation</legend>
        {DMA_MODES.map(({ mode, name, means }) => (
          <label key={mode} class="switch">
            <input type="radio" name="dma" checked={settings.dma === mode} onChange={() => set({ dma: mode })} />
            <span>
              {name}
              {mode === "engine" && " (default)"}
              <small>{means}</small>
            </span>
          </label>
        ))}
      </fieldset>
      <fieldset>
        <legend>Engines</legend>
        <Switch
          label="Separate Sequencer and Compute Engine Timelines"
          means="Control instructions that the sequencer executes itself and data-path instructions on tracks of their own."
          on={settings.split}
          onChange={(split) => set({ split })}
        />
        <Switch
          label="Show waiting"
          means="The part of an instruction in which it only waits for semaphores is drawn thin."
          on={settings.waits}
          onChange={(waits) => set({ waits })}
        />
        <Switch
          label="Show bands"
          means="Executions, NKI regions, warnings, losses, throttling and errors below the axis."
          on={settings.bands}
          onChange={(bands) => set({ bands })}
        />
      </fieldset>
    </Dialog>
  );
}

const KEYS: [string, string][] = [
  ["Wheel", "zoom at the pointer"],
  ["Shift + wheel", "pan"],
  ["Drag the axis, or the tracks", "pan"],
  ["A D, ← →", "pan by a step that fits the zoom"],
  ["W S, + −", "zoom"],
  ["Shift + drag", "zoom to a range"],
  ["Alt + wheel, ↑ ↓, wheel over the names", "scroll the tracks"],
  ["0", "the whole profile"],
  ["Click", "select an event; Ctrl or Cmd + click goes to its source line"],
  ["Double click", "zoom to an event"],
  ["N P", "the next and the previous event on the track of the selected one"],
  ["Home End", "the first and the last event of that track"],
  ["Tab to a track's name, then ↑ ↓", "choose a track; Enter, its first event in view; N P, Home End, its events"],
  ["Right click", "set an annotation; drag its line to move it"],
  ["B", "select a box by dragging"],
  ["Esc", "clear the box, then the selection"],
];

export function HelpDialog({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Device Timeline Help" onClose={onClose}>
      <h3>Dependency legend</h3>
      <table class="legend">
        <tbody>
          {DEPENDENCIES.map(({ kind, name, color, means }) => (
            <tr key={kind}>
              <td>
                <span class="swatch" style={{ background: color }} />
              </td>
              <th scope="row">{name}</th>
              <td class="muted">{means}</td>
            </tr>
          ))}
          <tr>
            <td>
              <span class="swatch found" />
            </td>
            <th scope="row">Search result</th>
            <td class="muted">yellow border; the one in focus has a cyan border</td>
          </tr>
        </tbody>
      </table>
      <h3>Mouse and keys</h3>
      <table class="legend">
        <tbody>
          {KEYS.map(([keys, means]) => (
            <tr key={keys}>
              <th scope="row">{keys}</th>
              <td class="muted">{means}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}

export function TracksDialog({ profile, onClose }: Props) {
  const prefs = useStore(profile.prefs);
  const settings = useStore(profile.settings);
  const [open, setOpen] = useState<string | null>(null);
  const tracks = profile.overview.tracks.filter((track) => matches(track, settings));
  const groups = [...new Set(tracks.map((track) => track.group))];
  return (
    <Dialog title="Tracks" onClose={onClose}>
      <p class="muted">Which tracks are shown. Order, heights and pins are kept, for other profiles too.</p>
      {groups.map((group) => {
        const mine = tracks.filter((track) => track.group === group);
        const shown = mine.filter((track) => !isHidden(track, prefs));
        return (
          <div key={group} class="track-group">
            <div class="track-head">
              <label>
                <input
                  type="checkbox"
                  checked={shown.length > 0}
                  onChange={(event) =>
                    profile.prefs.update((now) => setHidden(now, mine, !event.currentTarget.checked))
                  }
                />
                {GROUP_NAMES[group] ?? group}
              </label>
              <button
                type="button"
                class="plain"
                aria-expanded={open === group}
                onClick={() => setOpen(open === group ? null : group)}
              >
                {shown.length} of {mine.length}
              </button>
            </div>
            {open === group &&
              mine.map((track) => (
                <label key={track.id} class="track-one">
                  <input
                    type="checkbox"
                    checked={!isHidden(track, prefs)}
                    onChange={(event) =>
                      profile.prefs.update((now) => setHidden(now, [track], !event.currentTarget.checked))
                    }
                  />
                  {track.label}
                  {track.absent !== null && <small class="muted">{track.absent}</small>}
                </label>
              ))}
          </div>
        );
      })}
      <footer>
        <button type="button" onClick={() => profile.prefs.set(NO_PREFS)}>
          Back to the original order
        </button>
      </footer>
    </Dialog>
  );
}

export function ColorsDialog({ profile, onClose }: Props) {
  const custom = useStore(customColors);
  const change = (name: string, color: string | null) =>
    customColors.update((colors) => {
      const { [name]: _, ...rest } = colors;
      return color === null ? rest : { ...rest, [name]: color };
    });
  return (
    <Dialog title="Colours" onClose={onClose}>
      <p class="muted">An operator has one colour, in every track, view and profile. Choose another where you like.</p>
      <div class="colors">
        {profile.overview.operators.map((name) => (
          <div key={name} class="color-row">
            <input
              type="color"
              aria-label={`Colour of ${name}`}
              value={custom[name] ?? hex(colorOf(name))}
              onChange={(event) => change(name, event.currentTarget.value)}
            />
            <span>{name}</span>
            {custom[name] && (
              <button type="button" class="plain" onClick={() => change(name, null)}>
                original
              </button>
            )}
          </div>
        ))}
        {profile.overview.operators.length === 0 && <p>This profile names no operators.</p>}
      </div>
    </Dialog>
  );
}
