// One profile: bar above, widgets below; the address follows what is looked at.

import { useEffect, useRef, useState } from "preact/hooks";
import { isAbort } from "../api/client";
import { noteOpened } from "../manage/shelf";
import { Annotations } from "../state/annotations";
import { added, DEFAULT_LAYOUT } from "../state/layout";
import { Layouts, whyNoLayoutName } from "../state/layouts";
import { type Link, unread, writeLink } from "../state/link";
import { DAMAGED, Profile } from "../state/profile";
import { hasRanks, isSystem, ranksAddress, sqlAddress, summaryAddress } from "../state/route";
import { messageOf, useStore } from "../state/store";
import { groupDigits, padded, timeText } from "../timeline/scale";
import { copyText } from "../ui/copy";
import { Menu } from "../ui/Menu";
import { TopBar } from "../ui/TopBar";
import { WIDGET_BY_TYPE, WIDGETS } from "../widgets/registry";
import { Shell } from "../widgets/shell/Shell";
import { SystemPage } from "./SystemPage";

/** A new address costs a browser as much as several frames of the timeline. */
const LINK_MS = 700;

interface Open {
  profile: Profile;
  annotations: Annotations;
}

/** The address of what is seen now. */
function linkOf({ profile }: Open, layouts: Layouts): string {
  const view = profile.view.value;
  const whole = padded(profile.extent);
  const all = Math.abs(view.from - whole.from) < 1 && Math.abs(view.to - whole.to) < 1;
  const settings = profile.settings.value;
  return writeLink({
    page: "profile",
    profile: profile.name,
    range: all ? null : view,
    selected: profile.selected.value,
    layout: layouts.name.value,
    dma: settings.dma,
    split: settings.split,
  });
}

/** The address follows what is seen; what is gone to is a step of its own in the browser's history, and zoom and pan are none. */
function useLink(open: Open | null, layouts: Layouts): void {
  useEffect(() => {
    if (!open) return;
    let timer = 0;
    const write = () => history.replaceState(null, "", linkOf(open, layouts));
    const soon = () => {
      clearTimeout(timer);
      timer = window.setTimeout(write, LINK_MS);
    };
    const push = () => {
      clearTimeout(timer);
      const address = linkOf(open, layouts);
      if (address !== location.hash) history.pushState(null, "", address);
    };
    const jump = () => {
      write();
      queueMicrotask(push);
    };
    const { view, selected, settings, jumps } = open.profile;
    const ends = [view.watch(soon), selected.watch(soon), settings.watch(soon), layouts.name.watch(soon)];
    ends.push(jumps.watch(jump));
    return () => {
      for (const end of ends) end();
      clearTimeout(timer);
    };
  }, [open, layouts]);
}

/** A wish to see a source line, or what a box holds, needs somewhere to see it. */
function useWanted(open: Open | null, layouts: Layouts): void {
  useEffect(() => {
    if (!open) return;
    const show = (type: "code" | "box") => {
      const is = layouts.items.value.some((item) => item.type === type);
      if (!is) layouts.items.update((items) => added(items, type, WIDGET_BY_TYPE.get(type)!.size));
    };
    const { profile } = open;
    const ends = [
      profile.toSource.watch(() => show("code")),
      profile.place.watch((place) => place && show("code")),
      profile.box.watch((box) => box && show("box")),
    ];
    return () => {
      for (const end of ends) end();
    };
  }, [open, layouts]);
}

function useProfile(link: Link, layouts: Layouts): { open: Open | null; error: string | null } {
  const [state, setState] = useState<{ open: Open | null; error: string | null }>({ open: null, error: null });
  const name = link.profile!;
  // The address may have gone on by the time the profile is there.
  const now = useRef(link);
  now.current = link;
  useEffect(() => {
    const abort = new AbortController();
    setState({ open: null, error: null });
    let opened: Open | null = null;
    Profile.open(name, abort.signal)
      .then((profile) => {
        const ranks = hasRanks(profile.overview);
        if (abort.signal.aborted || ranks) {
          profile.close();
          if (!abort.signal.aborted) location.replace(ranksAddress(name));
          return;
        }
        opened = { profile, annotations: new Annotations(name) };
        profile.restore(now.current);
        setState({ open: opened, error: null });
        void noteOpened(name);
      })
      .catch((error: unknown) => {
        if (!isAbort(error)) setState({ open: null, error: messageOf(error) });
      });
    return () => {
      abort.abort();
      opened?.annotations.close();
      opened?.profile.close();
    };
  }, [name]);
  // An address that was edited, or a step back, within the same profile.
  useEffect(() => {
    if (link.layout) void layouts.follow(link.layout);
    if (state.open?.profile.name === name) state.open.profile.restore(link);
  }, [link]);
  return state;
}

function LayoutMenu({ layouts }: { layouts: Layouts }) {
  const list = useStore(layouts.list);
  const name = useStore(layouts.name);
  const save = () => {
    const wanted = window.prompt("Name of the layout", name === DEFAULT_LAYOUT.name ? "" : name)?.trim();
    if (wanted === undefined) return;
    const why = whyNoLayoutName(wanted);
    if (why) window.alert(why);
    else layouts.save(wanted);
  };
  return (
    <Menu label={`Layout: ${name}`}>
      <button type="button" role="menuitem" onClick={() => layouts.load(DEFAULT_LAYOUT.name)}>
        {DEFAULT_LAYOUT.name}
      </button>
      {list.map((layout) => (
        <div key={layout.name} class="menu-row">
          <button type="button" role="menuitem" onClick={() => layouts.load(layout.name)}>
            {layout.name}
          </button>
          <button
            type="button"
            class="tiny"
            aria-label={`Delete layout ${layout.name}`}
            onClick={() => layouts.remove(layout.name)}
          >
            ✕
          </button>
        </div>
      ))}
      <hr />
      <button type="button" role="menuitem" onClick={save}>
        Save as…
      </button>
    </Menu>
  );
}

function Missing({ profile }: { profile: Profile }) {
  const missing = useStore(profile.missing);
  if (missing.length === 0) return null;
  const reasons = new Map<string, string[]>();
  for (const { what, why } of missing) reasons.set(why, [...(reasons.get(why) ?? []), what]);
  // The server's words for files that are there.
  const damaged = missing.some(({ why }) => why === DAMAGED || /: (cannot be read: |is no Parquet file)/.test(why));
  return (
    <Menu label={damaged ? "Damaged tables" : `${reasons.size} not captured`} tone={damaged ? "amber" : undefined}>
      <ul class="missing">
        {[...reasons].map(([why, what]) => (
          <li key={why}>
            <strong>{what.join(", ")}</strong> {why}
          </li>
        ))}
      </ul>
    </Menu>
  );
}

/** What the pipeline had to say of this profile: a NEFF that does not fit, figures that are lower bounds. */
function Notes({ profile }: { profile: Profile }) {
  const { warnings, notes } = profile.overview;
  if (warnings === 0) return null;
  return (
    <Menu label={warnings === 1 ? "1 warning" : `${groupDigits(warnings)} warnings`} tone="amber">
      <ul class="missing">
        {notes.map(({ category, message }, i) => (
          <li key={i}>
            <strong>{category}</strong> {message}
          </li>
        ))}
        {notes.length < warnings && (
          <li class="muted">
            The first {notes.length} of them; <a href={sqlAddress(profile.name, "select * from Warning")}>all in SQL</a>
          </li>
        )}
      </ul>
    </Menu>
  );
}

function Bar({ open, layouts, wrong }: { open: Open; layouts: Layouts; wrong: string[] }) {
  const { profile } = open;
  const [copied, setCopied] = useState(false);
  const absent = useStore(layouts.absent);
  const share = async () => {
    setCopied(await copyText(new URL(linkOf(open, layouts), location.href).href));
    setTimeout(() => setCopied(false), 1500);
  };
  const rows = profile.overview.tables.Instruction ?? 0;
  const about = `${timeText(profile.extent.to - profile.extent.from)}, ${groupDigits(rows)} instructions`;
  return (
    <TopBar title={profile.name} about={<span class="muted">{about}</span>}>
      <a href={summaryAddress(profile.name)}>Summary</a>
      <a href={sqlAddress(profile.name)}>SQL</a>
      <Notes profile={profile} />
      <Missing profile={profile} />
      <Menu label="Add Widget">
        {WIDGETS.map((kind) => (
          <button
            key={kind.type}
            type="button"
            role="menuitem"
            onClick={() => layouts.items.update((items) => added(items, kind.type, kind.size))}
          >
            {kind.title}
          </button>
        ))}
      </Menu>
      {wrong.length > 0 && <span class="muted">The link’s {wrong.join(" and ")} cannot be read.</span>}
      {absent !== null && <span class="muted">The link’s layout “{absent}” is not among yours.</span>}
      <LayoutMenu layouts={layouts} />
      <button type="button" title="Copy a link to this range, selection and layout" onClick={() => void share()}>
        {copied ? "Copied" : "Copy link"}
      </button>
    </TopBar>
  );
}

/** What the address asks for and is none, until one looks elsewhere. */
function useUnread(open: Open | null, link: Link): string[] {
  const [wrong, setWrong] = useState<string[]>([]);
  useEffect(() => {
    if (!open) return;
    setWrong(unread(location.hash));
    return open.profile.view.watch(() => setWrong([]));
  }, [open, link]);
  return wrong;
}

export function ProfilePage({ link }: { link: Link }) {
  const [layouts] = useState(() => new Layouts());
  const { open, error } = useProfile(link, layouts);
  useLink(open, layouts);
  useWanted(open, layouts);
  const wrong = useUnread(open, link);
  useEffect(() => {
    document.title = `${link.profile} – kymo`;
  }, [link.profile]);
  if (error)
    return (
      <main class="message">
        <h1>{link.profile}</h1>
        <p class="error">{error}</p>
        <p>
          <a href="#/">All profiles</a>
        </p>
      </main>
    );
  if (!open) return <main class="message muted">Opening {link.profile}…</main>;
  if (isSystem(open.profile.overview)) return <SystemPage name={open.profile.name} overview={open.profile.overview} />;
  return (
    <>
      <Bar open={open} layouts={layouts} wrong={wrong} />
      <main>
        <Shell profile={open.profile} annotations={open.annotations} items={layouts.items} />
      </main>
    </>
  );
}
