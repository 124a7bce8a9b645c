// A rank's own timeline, unfolded: all of its tracks, moving with the lanes on the common clock.

import { useEffect, useState } from "preact/hooks";
import { isAbort } from "../api/client";
import { ProfileApi } from "../api/profile";
import type { Rank } from "../api/ranks";
import { Annotations } from "../state/annotations";
import { Profile } from "../state/profile";
import { profileAddress } from "../state/route";
import { messageOf } from "../state/store";
import { Timeline } from "../timeline/Timeline";
import { rangeToCommon, rangeToOwn, rankName } from "./clock";
import type { RanksModel } from "./model";
import { errorText } from "./RankLanes";

interface Open {
  profile: Profile;
  annotations: Annotations;
}

async function openRank(model: RanksModel, rank: Rank, signal: AbortSignal): Promise<Open> {
  const overview = await new ProfileApi(rank.profile).overview(signal);
  // As far as the lanes go, so that its view can follow theirs everywhere.
  const own = rangeToOwn(rank, model.extent);
  const extent = { from: Math.min(own.from, overview.extent.from), to: Math.max(own.to, overview.extent.to) };
  const profile = new Profile(rank.profile, { ...overview, extent });
  profile.view.set(rangeToOwn(rank, model.view.value));
  return { profile, annotations: new Annotations(rank.profile) };
}

function close({ profile, annotations }: Open): void {
  annotations.close();
  profile.close();
}

/** Either moves the other. Without a clock a rank has no place on the common axis, and moves by itself. */
function tie(model: RanksModel, rank: Rank, profile: Profile): () => void {
  let moving = false;
  if (rank.offset_ns === null) return () => {};
  const guard = (move: () => void) => {
    if (moving) return;
    moving = true;
    move();
    moving = false;
  };
  const ends = [
    model.view.watch((view) => guard(() => profile.view.set(rangeToOwn(rank, view)))),
    profile.view.watch((view) => guard(() => model.view.set(rangeToCommon(rank, view)))),
  ];
  return () => {
    for (const end of ends) end();
  };
}

export function RankTimeline({ model, rank }: { model: RanksModel; rank: Rank }) {
  const [open, setOpen] = useState<Open | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    let end = () => {};
    openRank(model, rank, abort.signal)
      .then((made) => {
        if (abort.signal.aborted) return close(made);
        const untie = tie(model, rank, made.profile);
        end = () => {
          untie();
          close(made);
        };
        setOpen(made);
      })
      .catch((why: unknown) => !isAbort(why) && setError(messageOf(why)));
    return () => {
      abort.abort();
      end();
    };
  }, [model, rank]);
  return (
    <section class="compare-timeline" aria-label={`Timeline of ${rankName(rank)}`} data-unfolded={rank.profile}>
      <header>
        <strong>{rankName(rank)}</strong> <a href={profileAddress(rank.profile)}>{rank.profile}</a>
        <span class="muted">
          {rank.offset_ns === null
            ? "no clock: it moves by itself"
            : `its own axis, ${errorText(rank.error_ns)} on the common one`}
        </span>
        <span class="space" />
        <button type="button" onClick={() => model.toggle(rank.profile)}>
          Close
        </button>
      </header>
      {error && <p class="error">{error}</p>}
      {open && <Timeline profile={open.profile} annotations={open.annotations} onSource={() => {}} alone={false} />}
    </section>
  );
}
