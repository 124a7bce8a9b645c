// Two or more profiles: their timelines stacked, moving together, and their figures with deltas against a base.

import { useEffect, useMemo, useState } from "preact/hooks";
import { isAbort } from "../api/client";
import { ProfileApi } from "../api/profile";
import type { Overview, Range } from "../api/types";
import { CompareFigures } from "../compare/CompareFigures";
import { CompareOperators } from "../compare/CompareOperators";
import { CompareSides } from "../compare/CompareSides";
import { RangeForm } from "../compare/RangeForm";
import { type Member, ZOOM_MODES, type ZoomMode, ZoomSync } from "../compare/sync";
import { Annotations } from "../state/annotations";
import { Profile } from "../state/profile";
import { compareAddress, hasRanks, profileAddress } from "../state/route";
import { messageOf, useStore } from "../state/store";
import { padded, span, timeText } from "../timeline/scale";
import { Timeline } from "../timeline/Timeline";
import { ThemeButton } from "../ui/ThemeButton";

interface Open {
  sync: ZoomSync;
  annotations: Annotations[];
  /** Why some of the profiles are not there. */
  failed: string[];
}

async function overviewOf(name: string, signal: AbortSignal): Promise<Overview> {
  const overview = await new ProfileApi(name).overview(signal);
  if (hasRanks(overview)) throw new Error("many ranks, which have no events of their own: compare its members.");
  return overview;
}

/** One that cannot be opened leaves the others to be compared. */
async function openAll(names: string[], signal: AbortSignal): Promise<Open> {
  const asked = await Promise.allSettled(names.map((name) => overviewOf(name, signal)));
  signal.throwIfAborted();
  const failed = asked.flatMap((one, i) => (one.status === "rejected" ? `${names[i]}: ${messageOf(one.reason)}` : []));
  const there = asked.flatMap((one, i) => (one.status === "fulfilled" ? { name: names[i]!, overview: one.value } : []));
  if (there.length === 0) throw new Error(failed.join(" "));
  const longest = Math.max(...there.map(({ overview }) => span(overview.extent)), 1);
  const members: Member[] = there.map(({ name, overview }) => {
    const own = span(overview.extent) > 0 ? overview.extent : { from: 0, to: 1 };
    const common = { from: own.from, to: own.from + longest };
    const profile = new Profile(name, { ...overview, extent: common });
    profile.view.set(padded(own));
    return { profile, own };
  });
  return { sync: new ZoomSync(members), annotations: there.map(({ name }) => new Annotations(name)), failed };
}

/** Settings and tracks are chosen once for all timelines. */
function share(members: Member[]): void {
  for (const { profile } of members) {
    profile.settings.watch((settings) => {
      for (const other of members) other.profile.settings.set(settings);
    });
    profile.prefs.watch((prefs) => {
      for (const other of members) other.profile.prefs.set(prefs);
    });
  }
}

function useOpen(names: string[]): { open: Open | null; error: string | null } {
  const [state, setState] = useState<{ open: Open | null; error: string | null }>({ open: null, error: null });
  useEffect(() => {
    const abort = new AbortController();
    let opened: Open | null = null;
    openAll(names, abort.signal)
      .then((open) => {
        opened = open;
        share(open.sync.members);
        if (!abort.signal.aborted) setState({ open, error: null });
      })
      .catch((error: unknown) => {
        if (!isAbort(error)) setState({ open: null, error: messageOf(error) });
      });
    return () => {
      abort.abort();
      opened?.sync.close();
      for (const { profile } of opened?.sync.members ?? []) profile.close();
      for (const annotations of opened?.annotations ?? []) annotations.close();
    };
  }, []);
  return state;
}

function Bar({
  open,
  names,
  base,
  onBase,
}: {
  open: Open | null;
  names: string[];
  base: string;
  onBase(name: string): void;
}) {
  return (
    <header class="bar compare-bar">
      <a href="#/" class="home" title="Profile Manager">
        kymo
      </a>
      <h1>Compare profiles</h1>
      <label>
        Base{" "}
        <select aria-label="Base" value={base} onChange={(event) => onBase(event.currentTarget.value)}>
          {names.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <span class="space" />
      {open && <ZoomChoice sync={open.sync} />}
      {open && <RangeForm sync={open.sync} />}
      <ThemeButton />
    </header>
  );
}

function ZoomChoice({ sync }: { sync: ZoomSync }) {
  const mode = useStore(sync.mode);
  return (
    <select
      aria-label="Zoom"
      title={ZOOM_MODES.find((other) => other.mode === mode)?.means ?? ""}
      value={mode}
      onChange={(event) => sync.mode.set(event.currentTarget.value as ZoomMode)}
    >
      {ZOOM_MODES.map((other) => (
        <option key={other.mode} value={other.mode}>
          {other.name}
        </option>
      ))}
    </select>
  );
}

/** What each profile shows now, cut to what it has. */
function useRanges(members: Member[]): Range[] {
  const read = () =>
    members.map(({ profile, own }) => {
      const { from, to } = profile.view.value;
      const cut = { from: Math.min(Math.max(from, own.from), own.to - 1), to: Math.min(to, own.to) };
      return { from: cut.from, to: Math.max(cut.to, cut.from + 1) };
    });
  const [ranges, setRanges] = useState(read);
  useEffect(() => {
    const ends = members.map(({ profile }) => profile.view.watch(() => setRanges(read())));
    return () => {
      for (const end of ends) end();
    };
  }, [members]);
  return ranges;
}

function Body({ open, base }: { open: Open; base: number }) {
  const { members } = open.sync;
  const ranges = useRanges(members);
  const whole = useMemo(() => members.map(({ own }) => own), [members]);
  return (
    <main class="compare">
      {open.failed.map((text) => (
        <p key={text} class="error" role="alert">
          {text}
        </p>
      ))}
      {members.map(({ profile, own }, i) => (
        <section key={profile.name} class="compare-timeline" aria-label={`Timeline of ${profile.name}`}>
          <header>
            <a href={profileAddress(profile.name)}>{profile.name}</a>
            <span class="muted">{timeText(span(own))}</span>
          </header>
          <Timeline profile={profile} annotations={open.annotations[i]!} onSource={() => {}} alone={false} />
        </section>
      ))}
      <div class="compare-tables">
        <CompareOperators members={members} base={base} />
        <CompareFigures
          title="Compare Overall Summary"
          about="Of all that was recorded, from the first event to the last."
          members={members}
          ranges={whole}
          base={base}
        />
        <CompareFigures
          title="Compare Current Selection Summary"
          about="Of what the timelines show now."
          members={members}
          ranges={ranges}
          base={base}
        />
        {members.length > 1 && <CompareSides names={members.map(({ profile }) => profile.name)} base={base} />}
      </div>
    </main>
  );
}

export function ComparePage({ names, base }: { names: string[]; base: string | null }) {
  const { open, error } = useOpen(names);
  const [wanted, setWanted] = useState(base ?? names[0]!);
  const there = open?.sync.members.map(({ profile }) => profile.name) ?? names;
  const chosen = Math.max(there.indexOf(wanted), 0);
  useEffect(() => {
    document.title = `Compare ${names.join(", ")} – kymo`;
  }, []);
  const choose = (name: string) => {
    setWanted(name);
    history.replaceState(null, "", compareAddress(names, name));
  };
  return (
    <>
      <Bar open={open} names={there} base={there[chosen]!} onBase={choose} />
      {error && (
        <main class="message">
          <p class="error">{error}</p>
        </main>
      )}
      {!error && !open && <main class="message muted">Opening {names.join(", ")}…</main>}
      {open && <Body open={open} base={chosen} />}
    </>
  );
}
