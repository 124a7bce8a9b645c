// The Profile Manager: the profiles that the server has, in the user's own order, chosen by checkboxes for what Actions
// offers; uploads of new ones.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Glance } from "../fleet/Glance";
import { fleetAddress } from "../fleet/question";
import { Actions } from "../manage/Actions";
import { DeleteDialog, FolderDialog, NameDialog, TagDialog } from "../manage/Dialogs";
import { isMoving } from "../manage/list";
import { ProfileTable } from "../manage/ProfileTable";
import { type Look, look, lookAt, titleOf, wantedOf } from "../manage/place";
import { leave, Sidebar } from "../manage/Sidebar";
import { loadSession, type Session, WHY_NOT } from "../manage/session";
import { Shelf, type ShelfState } from "../manage/shelf";
import { UploadCard, UploadDialog } from "../manage/UploadDialog";
import { uploads } from "../manage/upload";
import { useList } from "../manage/useList";
import type { ProfileRow } from "../state/profiles";
import { sqlAddress } from "../state/route";
import { messageOf, useStore } from "../state/store";
import { ThemeButton } from "../ui/ThemeButton";

const STATES = ["ready", "processing", "queued", "failed"];

type Ask =
  | { what: "folder" | "tags" | "delete" | "upload" | "new" }
  | { what: "rename" | "drop"; folder: string }
  | null;

function useSession(): { session: Session | null; error: string | null } {
  const [state, setState] = useState<{ session: Session | null; error: string | null }>({ session: null, error: null });
  useEffect(() => {
    const abort = new AbortController();
    loadSession(abort.signal)
      .then((session) => setState({ session, error: null }))
      .catch((error: unknown) => {
        if (!abort.signal.aborted) setState({ session: null, error: messageOf(error) });
      });
    return () => abort.abort();
  }, []);
  return state;
}

function Filters({ now, shelf }: { now: Look; shelf: ShelfState }) {
  const toggle = (tag: string) =>
    lookAt({ tags: now.tags.includes(tag) ? now.tags.filter((t) => t !== tag) : [...now.tags, tag] });
  return (
    <>
      <div class="toolbar">
        <input
          type="search"
          placeholder="Search by name, job or host"
          aria-label="Filter"
          value={now.text}
          onInput={(event) => lookAt({ text: event.currentTarget.value })}
        />
        <select aria-label="State" value={now.state} onChange={(event) => lookAt({ state: event.currentTarget.value })}>
          <option value="">Any state</option>
          {STATES.map((state) => (
            <option key={state} value={state}>
              {state}
            </option>
          ))}
        </select>
      </div>
      {shelf.tags.length > 0 && (
        <fieldset class="chips" aria-label="Tags">
          {shelf.tags.map(({ name, profiles }) => (
            <button
              key={name}
              type="button"
              class="chip"
              aria-pressed={now.tags.includes(name)}
              onClick={() => toggle(name)}
            >
              {name} <span class="muted">{profiles.length}</span>
            </button>
          ))}
        </fieldset>
      )}
    </>
  );
}

function Paging({ now, next, count }: { now: Look; next: string | null; count: number }) {
  const page = now.cursors.length + 1;
  if (page === 1 && next === null) return null;
  const to = (cursors: string[]) => look.set({ ...now, cursors });
  return (
    <div class="paging">
      <button type="button" disabled={page === 1} onClick={() => to(now.cursors.slice(0, -1))}>
        Previous
      </button>
      <span class="muted">
        Page {page}, {count} profiles
      </span>
      <button type="button" disabled={next === null} onClick={() => next !== null && to([...now.cursors, next])}>
        Next
      </button>
    </div>
  );
}

interface AskedProps {
  ask: Ask;
  shelf: Shelf;
  state: ShelfState;
  chosen: ProfileRow[];
  onDeleted(names: string[]): void;
  onClose(): void;
}

function Asked({ ask, shelf, state, chosen, onDeleted, onClose }: AskedProps) {
  const names = chosen.map((row) => row.name);
  const common = { shelf, state, names, onClose };
  switch (ask?.what) {
    case "folder":
      return <FolderDialog {...common} />;
    case "tags":
      return <TagDialog {...common} />;
    case "delete":
      return <DeleteDialog shelf={shelf} rows={chosen} onDeleted={onDeleted} onClose={onClose} />;
    case "upload":
      return <UploadDialog onStarted={onClose} onClose={onClose} />;
    case "new":
      return (
        <NameDialog
          title="New folder"
          label="Name"
          before=""
          action="Create"
          onName={(name) => shelf.create("folders", name)}
          onClose={onClose}
        />
      );
    case "rename": {
      const { folder } = ask;
      const rename = async (name: string) => {
        await shelf.rename("folders", folder, name);
        leave(folder, name);
      };
      return (
        <NameDialog
          title="Rename folder"
          label="Name"
          before={folder}
          action="Rename"
          onName={rename}
          onClose={onClose}
        />
      );
    }
    default:
      return null;
  }
}

/** Uploads of this page, and the list anew when one of them has come further. */
function Uploads({ onChange }: { onChange(): void }) {
  const list = useStore(uploads);
  useEffect(() => {
    const phases = list.map((upload) => {
      let before = upload.state.value.phase;
      return upload.state.watch(({ phase }) => {
        if (phase !== before) onChange();
        before = phase;
      });
    });
    return () => {
      for (const end of phases) end();
    };
  }, [list]);
  return (
    <>
      {list.map((upload, i) => (
        <UploadCard
          key={list.length - i}
          upload={upload}
          onDismiss={() => uploads.set(list.filter((other) => other !== upload))}
        />
      ))}
    </>
  );
}

export function ProfilesPage() {
  const now = useStore(look);
  const shelf = useMemo(() => new Shelf(), []);
  const state = useStore(shelf.state);
  const { session, error: noSession } = useSession();
  const [checked, setChecked] = useState<ReadonlyMap<string, ProfileRow>>(new Map());
  const [ask, setAsk] = useState<Ask>(null);
  const [said, setSaid] = useState<{ text: string; bad: boolean } | null>(null);
  const wanted = wantedOf(now, state);
  const cursor = now.cursors[now.cursors.length - 1] ?? null;
  const { page, error, reload } = useList(wanted, cursor, session ? !session.manages : noSession ? true : null);
  const manages = session?.manages ?? false;
  useEffect(() => {
    document.title = "Profiles – kymo";
    shelf.load().catch((reason: unknown) => setSaid({ text: messageOf(reason), bad: true }));
  }, []);
  // A row that is shown again may have become another one.
  const chosen = [...checked.values()].map((row) => page?.rows.find(({ name }) => name === row.name) ?? row);
  const check = (rows: ProfileRow[], on: boolean) => {
    const next = new Map(checked);
    for (const row of rows) {
      if (on) next.set(row.name, row);
      else next.delete(row.name);
    }
    setChecked(next);
  };
  const run = (act: () => Promise<string>) => {
    act()
      .then((text) => setSaid({ text, bad: false }))
      .catch((reason: unknown) => setSaid({ text: messageOf(reason), bad: true }))
      .finally(reload);
  };
  const onDeleted = (names: string[]) => {
    setChecked(new Map([...checked].filter(([name]) => !names.includes(name))));
    setSaid({
      text: names.length === 1 ? "1 profile is deleted." : `${names.length} profiles are deleted.`,
      bad: false,
    });
    reload();
  };
  const dropFolder = (folder: string) =>
    run(async () => {
      await shelf.remove("folders", folder);
      leave(folder, null);
      return `The folder ${folder} is deleted; its profiles are where they were.`;
    });
  const favourites = new Set(state.favourites);
  const tagsOf = (name: string) => state.tags.filter((tag) => tag.profiles.includes(name)).map((tag) => tag.name);
  const rows = page?.rows;
  return (
    <>
      <header class="bar">
        <span class="home">kymo</span>
        <h1>Profiles</h1>
        <span class="space" />
        {session && session.user !== "local" && <span class="muted">{session.user}</span>}
        <a href={fleetAddress()}>Fleet</a>
        <a href={sqlAddress(null)}>SQL</a>
        <ThemeButton />
      </header>
      <main class="manager">
        <Sidebar
          shelf={state}
          place={now.place}
          onNew={() => setAsk({ what: "new" })}
          onRename={(folder) => setAsk({ what: "rename", folder })}
          onDelete={dropFolder}
        />
        <div class="profiles">
          {now.place.kind === "all" && <Glance />}
          <div class="toolbar">
            <h2>{titleOf(now.place)}</h2>
            <span class="muted">{chosen.length > 0 && `${chosen.length} selected`}</span>
            <span class="space" />
            <button
              type="button"
              class="primary"
              disabled={!manages}
              title={manages ? "" : WHY_NOT}
              onClick={() => setAsk({ what: "upload" })}
            >
              Upload
            </button>
            <Actions
              chosen={chosen}
              shelf={shelf}
              state={state}
              manages={manages}
              onAsk={(what) => setAsk({ what })}
              onDo={run}
              onClear={() => setChecked(new Map())}
            />
          </div>
          <Uploads onChange={reload} />
          <Filters now={now} shelf={state} />
          {said && (
            <p class={said.bad ? "error" : "muted"} role="status">
              {said.text}
            </p>
          )}
          {error && <p class="error">{error}</p>}
          {!page && !error && <p class="muted">Loading…</p>}
          {rows && rows.length === 0 && (
            <p class="muted">{now.place.kind === "folder" ? "Nothing is in this folder." : "No profile."}</p>
          )}
          {rows && rows.length > 0 && (
            <div class="scroll" aria-busy={rows.some(isMoving)}>
              <ProfileTable
                rows={rows}
                checked={checked}
                favourites={favourites}
                tagsOf={tagsOf}
                sort={wanted.asNamed ? null : now.sort}
                onSort={(sort) => lookAt({ sort })}
                onCheck={check}
                onFavour={(name, on) =>
                  run(async () => {
                    await shelf.favour([name], on);
                    return on ? `${name} is a favourite.` : `${name} is no favourite any more.`;
                  })
                }
                onTag={(tag) => lookAt({ tags: [...new Set([...now.tags, tag])] })}
              />
            </div>
          )}
          {page && <Paging now={now} next={page.next} count={page.rows.length} />}
        </div>
      </main>
      {ask && (
        <Asked
          ask={ask}
          shelf={shelf}
          state={state}
          chosen={chosen}
          onDeleted={onDeleted}
          onClose={() => setAsk(null)}
        />
      )}
    </>
  );
}
