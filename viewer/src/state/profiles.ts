// The list of profiles, which several pages need.

import { useEffect, useState } from "preact/hooks";
import { getJson, isAbort } from "../api/client";
import { messageOf } from "./store";

export interface ProfileRow {
  name: string;
  state?: string;
  kind?: string;
  job?: string | null;
  host?: string | null;
  rank?: number | null;
  reason?: string;
  file_offset?: number;
  stage?: string;
  done?: number;
  total?: number;
  capture?: string;
  owner?: string;
  pinned?: boolean;
  bytes?: number;
  received_ns?: number;
  finished_ns?: number;
}

export function useProfiles(): { rows: ProfileRow[] | null; error: string | null } {
  const [state, setState] = useState<{ rows: ProfileRow[] | null; error: string | null }>({ rows: null, error: null });
  useEffect(() => {
    const abort = new AbortController();
    getJson<{ profiles: ProfileRow[] }>("api/v1/profiles", abort.signal)
      .then(({ profiles }) => setState({ rows: profiles, error: null }))
      .catch((error: unknown) => {
        if (!isAbort(error)) setState({ rows: null, error: messageOf(error) });
      });
    return () => abort.abort();
  }, []);
  return state;
}
