// Who is at the page, and what this server lets them do.

import { getJson } from "../api/client";

export interface Session {
  user: string;
  /** Profiles can be uploaded, deleted and pinned; not where plain directories are shown. */
  manages: boolean;
}

export const WHY_NOT =
  "This page shows directories as they are (kymo view) and changes nothing. Uploads and deleting need a collector.";

export async function loadSession(signal: AbortSignal): Promise<Session> {
  const { user, manages } = await getJson<Session>("api/v1/user", signal);
  return { user, manages: manages === true };
}
