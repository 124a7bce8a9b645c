// Where to look: all profiles, the user's favourites and recents, folders.

import { Menu } from "../ui/Menu";
import { look, lookAt, type Place } from "./place";
import type { ShelfState } from "./shelf";

function Entry({ place, label, count, current }: { place: Place; label: string; count?: number; current: boolean }) {
  return (
    <button type="button" class="entry" aria-current={current ? "page" : undefined} onClick={() => lookAt({ place })}>
      <span class="entry-name">{label}</span>
      {count !== undefined && <span class="muted">{count}</span>}
    </button>
  );
}

interface Props {
  shelf: ShelfState;
  place: Place;
  onNew(): void;
  onRename(name: string): void;
  onDelete(name: string): void;
}

export function Sidebar({ shelf, place, onNew, onRename, onDelete }: Props) {
  const isFolder = (name: string) => place.kind === "folder" && place.name === name;
  return (
    <nav class="places" aria-label="Places">
      <Entry place={{ kind: "all" }} label="All profiles" current={place.kind === "all"} />
      <Entry
        place={{ kind: "favourites" }}
        label="Favourites"
        count={shelf.favourites.length}
        current={place.kind === "favourites"}
      />
      <Entry
        place={{ kind: "recents" }}
        label="Recent"
        count={shelf.recents.length}
        current={place.kind === "recents"}
      />
      <div class="places-head">
        <h2>Folders</h2>
        <button type="button" class="tiny" aria-label="New folder" title="New folder" onClick={onNew}>
          +
        </button>
      </div>
      {shelf.folders.length === 0 && <p class="muted">None yet.</p>}
      <ul>
        {shelf.folders.map(({ name, profiles }) => (
          <li key={name}>
            <Entry place={{ kind: "folder", name }} label={name} count={profiles.length} current={isFolder(name)} />
            <Menu label="…" title={`Folder ${name}`}>
              <button type="button" role="menuitem" onClick={() => onRename(name)}>
                Rename folder
              </button>
              <button type="button" role="menuitem" onClick={() => onDelete(name)}>
                Delete folder
              </button>
            </Menu>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** Leaves a folder that is no more, or follows its new name. */
export function leave(folder: string, to: string | null): void {
  const { place } = look.value;
  if (place.kind === "folder" && place.name === folder)
    lookAt({ place: to === null ? { kind: "all" } : { kind: "folder", name: to } });
}
