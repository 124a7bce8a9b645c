// A profile at a glance: plots, each with its question one click away.

import { useEffect, useState } from "preact/hooks";
import { isAbort } from "../api/client";
import { ProfileApi } from "../api/profile";
import type { Overview } from "../api/types";
import { PlotPanel } from "../plots/PlotPanel";
import { plotsOf } from "../plots/queries";
import { hasRanks, isSystem, profileAddress, ranksAddress, sqlAddress } from "../state/route";
import { messageOf } from "../state/store";
import { timeText } from "../timeline/scale";
import { TopBar } from "../ui/TopBar";

function useOverview(name: string): { overview: Overview | null; error: string | null } {
  const [state, setState] = useState<{ overview: Overview | null; error: string | null }>({
    overview: null,
    error: null,
  });
  useEffect(() => {
    const abort = new AbortController();
    new ProfileApi(name)
      .overview(abort.signal)
      .then((overview) => {
        if (hasRanks(overview)) location.replace(ranksAddress(name));
        else if (isSystem(overview)) location.replace(profileAddress(name));
        else setState({ overview, error: null });
      })
      .catch((error: unknown) => {
        if (!isAbort(error)) setState({ overview: null, error: messageOf(error) });
      });
    return () => abort.abort();
  }, [name]);
  return state;
}

export function SummaryPage({ name }: { name: string }) {
  const { overview, error } = useOverview(name);
  useEffect(() => {
    document.title = `Summary of ${name} – kymo`;
  }, [name]);
  const plots = overview ? plotsOf(overview.extent.to - overview.extent.from, overview.cores.length) : [];
  return (
    <>
      <TopBar
        title={name}
        about={<span class="muted">{overview && timeText(overview.extent.to - overview.extent.from)}</span>}
      >
        <a href={profileAddress(name)}>Timeline</a>
        <a href={sqlAddress(name)}>SQL</a>
      </TopBar>
      <main class="plots">
        {error && <p class="error">{error}</p>}
        {overview && plots.map((plot) => <PlotPanel key={plot.id} name={name} overview={overview} plot={plot} />)}
      </main>
    </>
  );
}
