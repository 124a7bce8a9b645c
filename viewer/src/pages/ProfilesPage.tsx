// The profiles that the server has.

import { useEffect, useState } from "preact/hooks";
import { getJson, isAbort } from "../api/client";
import { messageOf } from "../state/store";
import { ThemeButton } from "../ui/ThemeButton";

interface Row {
  name: string;
  state?: string;
  job?: string | null;
  host?: string | null;
  rank?: number | null;
}

interface Answer {
  profiles: Row[];
}

function useProfiles(text: string) {
  const [state, setState] = useState<{ rows: Row[] | null; error: string | null }>({ rows: null, error: null });
  useEffect(() => {
    const abort = new AbortController();
    getJson<Answer>("api/v1/profiles", abort.signal)
      .then(({ profiles }) => setState({ rows: profiles, error: null }))
      .catch((error: unknown) => {
        if (!isAbort(error)) setState({ rows: null, error: messageOf(error) });
      });
    return () => abort.abort();
  }, []);
  const wanted = text.toLowerCase();
  const rows = state.rows?.filter((row) =>
    `${row.name} ${row.job ?? ""} ${row.host ?? ""}`.toLowerCase().includes(wanted),
  );
  return { rows, error: state.error };
}

export function ProfilesPage() {
  const [text, setText] = useState("");
  const { rows, error } = useProfiles(text);
  useEffect(() => {
    document.title = "Profiles – kymo";
  }, []);
  return (
    <>
      <header class="bar">
        <span class="home">kymo</span>
        <h1>Profiles</h1>
        <span class="space" />
        <ThemeButton />
      </header>
      <main class="profiles">
        <input
          type="search"
          placeholder="Filter by name, job or host"
          aria-label="Filter"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        {error && <p class="error">{error}</p>}
        {rows && rows.length === 0 && <p class="muted">No profile.</p>}
        {rows && rows.length > 0 && (
          <table class="results">
            <thead>
              <tr>
                <th scope="col">Profile</th>
                <th scope="col">State</th>
                <th scope="col">Job</th>
                <th scope="col">Host</th>
                <th scope="col" class="number">
                  Rank
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.name}>
                  <td>
                    <a href={`#/profile/${encodeURIComponent(row.name)}`}>{row.name}</a>
                  </td>
                  <td>{row.state ?? ""}</td>
                  <td>{row.job ?? ""}</td>
                  <td>{row.host ?? ""}</td>
                  <td class="number">{row.rank ?? ""}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </main>
    </>
  );
}
