// Questions of the Profile Manager: a name, a folder, tags, and whether profiles are really to go.

import { useState } from "preact/hooks";
import { sendJson } from "../api/client";
import type { ProfileRow } from "../state/profiles";
import { messageOf } from "../state/store";
import { Dialog } from "../ui/Dialog";
import type { Shelf, ShelfState } from "./shelf";

interface Base {
  onClose(): void;
}

/** Runs what was asked for; closes when it is done, and says why not. */
function useAction(onClose: () => void): {
  busy: boolean;
  error: string | null;
  run(act: () => Promise<void>): Promise<void>;
} {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const run = async (act: () => Promise<void>) => {
    setBusy(true);
    setError(null);
    try {
      await act();
      onClose();
    } catch (reason) {
      setError(messageOf(reason));
    }
    setBusy(false);
  };
  return { busy, error, run };
}

interface NameProps extends Base {
  title: string;
  label: string;
  before: string;
  action: string;
  onName(name: string): Promise<void>;
}

export function NameDialog({ title, label, before, action, onName, onClose }: NameProps) {
  const [name, setName] = useState(before);
  const { busy, error, run } = useAction(onClose);
  const onSubmit = (event: Event) => {
    event.preventDefault();
    void run(() => onName(name.trim()));
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form class="ask" onSubmit={onSubmit}>
        <label>
          {label}
          <input type="text" maxLength={100} value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        {error && (
          <p class="error" role="alert">
            {error}
          </p>
        )}
        <footer>
          <button type="submit" class="primary" disabled={busy || name.trim() === ""}>
            {action}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

interface ShelfProps extends Base {
  shelf: Shelf;
  state: ShelfState;
  names: string[];
}

export function FolderDialog({ shelf, state, names, onClose }: ShelfProps) {
  const [chosen, setChosen] = useState<string | null>(state.folders[0]?.name ?? "");
  const [fresh, setFresh] = useState("");
  const { busy, error, run } = useAction(onClose);
  const move = async () => {
    const target = chosen === "" ? fresh.trim() : chosen;
    if (chosen === "") await shelf.create("folders", fresh.trim());
    await shelf.move(names, target);
  };
  const onSubmit = (event: Event) => {
    event.preventDefault();
    void run(move);
  };
  const choice = (value: string | null, label: string) => (
    <label class="choice">
      <input type="radio" name="folder" checked={chosen === value} onChange={() => setChosen(value)} />
      {label}
    </label>
  );
  return (
    <Dialog title="Move to folder" onClose={onClose}>
      <form class="ask" onSubmit={onSubmit}>
        <p class="muted">{names.length === 1 ? names[0] : `${names.length} profiles`}</p>
        <fieldset>
          <legend>Folder</legend>
          {state.folders.map(({ name }) => choice(name, name))}
          {choice(null, "No folder")}
          {choice("", "A new folder")}
          <input
            type="text"
            aria-label="Name of the new folder"
            maxLength={100}
            value={fresh}
            onFocus={() => setChosen("")}
            onInput={(event) => setFresh(event.currentTarget.value)}
          />
        </fieldset>
        {error && (
          <p class="error" role="alert">
            {error}
          </p>
        )}
        <footer>
          <button type="submit" class="primary" disabled={busy || (chosen === "" && fresh.trim() === "")}>
            Move
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

/** All, some or none of the profiles have a tag. */
function share(profiles: string[], names: string[]): "all" | "some" | "none" {
  const n = names.filter((name) => profiles.includes(name)).length;
  return n === 0 ? "none" : n === names.length ? "all" : "some";
}

export function TagDialog({ shelf, state, names, onClose }: ShelfProps) {
  const [fresh, setFresh] = useState("");
  const { busy, error, run } = useAction(() => setFresh(""));
  const toggle = (tag: string, on: boolean) =>
    void run(() => (on ? shelf.addTo("tags", tag, names) : shelf.takeFrom("tags", tag, names)));
  const add = async () => {
    const tag = fresh.trim();
    if (state.tags.some((list) => list.name === tag)) await shelf.addTo("tags", tag, names);
    else await shelf.create("tags", tag, names);
  };
  const onSubmit = (event: Event) => {
    event.preventDefault();
    void run(add);
  };
  return (
    <Dialog title="Tags" onClose={onClose}>
      <form class="ask" onSubmit={onSubmit}>
        <p class="muted">{names.length === 1 ? names[0] : `${names.length} profiles`}</p>
        {state.tags.map(({ name, profiles }) => (
          <span key={name} class="tag-line">
            <label class="choice">
              <input
                type="checkbox"
                checked={share(profiles, names) === "all"}
                indeterminate={share(profiles, names) === "some"}
                disabled={busy}
                onChange={(event) => toggle(name, event.currentTarget.checked)}
              />
              {name}
            </label>
            <button
              type="button"
              class="plain"
              title={`Take ${name} from all profiles`}
              onClick={() => void run(() => shelf.remove("tags", name))}
            >
              Delete tag
            </button>
          </span>
        ))}
        <label>
          New tag
          <input type="text" maxLength={100} value={fresh} onInput={(event) => setFresh(event.currentTarget.value)} />
        </label>
        {error && (
          <p class="error" role="alert">
            {error}
          </p>
        )}
        <footer>
          <button type="submit" class="primary" disabled={busy || fresh.trim() === ""}>
            Add tag
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

interface DeleteProps extends Base {
  shelf: Shelf;
  rows: ProfileRow[];
  onDeleted(names: string[]): void;
}

type Outcome = { name: string; error: string | null };

/** Each profile has an outcome of its own. */
export function DeleteDialog({ shelf, rows: asked, onDeleted, onClose }: DeleteProps) {
  // What is gone is not chosen any more, and stays in the list of outcomes.
  const [rows] = useState(asked);
  const [busy, setBusy] = useState(false);
  const [outcomes, setOutcomes] = useState<Outcome[] | null>(null);
  const remove = async () => {
    const done: Outcome[] = [];
    setBusy(true);
    for (const { name } of rows) {
      try {
        await sendJson("DELETE", `api/v1/profiles/${encodeURIComponent(name)}`);
        done.push({ name, error: null });
      } catch (error) {
        done.push({ name, error: messageOf(error) });
      }
      setOutcomes([...done]);
    }
    const gone = done.filter(({ error }) => error === null).map(({ name }) => name);
    try {
      await shelf.forget(gone);
    } catch {
      // They stay named in folders, where nothing is shown for them.
    }
    setBusy(false);
    onDeleted(gone);
    if (gone.length === done.length) onClose();
  };
  const errorOf = (name: string) => outcomes?.find((outcome) => outcome.name === name);
  return (
    <Dialog title={rows.length === 1 ? "Delete profile" : `Delete ${rows.length} profiles`} onClose={onClose}>
      <div class="ask">
        <p>
          The tables go, and with the last profile of a capture its files, so that it cannot be made again. This cannot
          be undone.
        </p>
        <ul class="outcomes">
          {rows.map(({ name }) => (
            <li key={name}>
              {name}
              {errorOf(name)?.error === null && <span class="muted"> deleted</span>}
              {errorOf(name)?.error && <span class="error"> {errorOf(name)?.error}</span>}
            </li>
          ))}
        </ul>
        <footer>
          <button type="button" onClick={onClose}>
            {outcomes ? "Close" : "Cancel"}
          </button>
          {!outcomes && (
            <button type="button" class="danger" disabled={busy} onClick={() => void remove()}>
              Delete
            </button>
          )}
        </footer>
      </div>
    </Dialog>
  );
}
