// HTTP: JSON and packed answers, errors as the API gives them, and requests of which only the newest counts.

import { Store } from "../state/store";
import { decodePacked, type Packed } from "./packed";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export type Params = Record<string, string | number | boolean | null | undefined>;

const RETRIES = 3;
const RETRY_MS = 250;

export function query(params: Params): string {
  const parts = Object.entries(params)
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${encodeURIComponent(typeof value === "boolean" ? Number(value) : value!)}`);
  return parts.length ? `?${parts.join("&")}` : "";
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

async function errorOf(response: Response): Promise<ApiError> {
  try {
    const { error } = (await response.json()) as { error?: { code?: string; message?: string } };
    if (error) return new ApiError(response.status, error.code ?? "", error.message ?? response.statusText);
  } catch {
    // Not the API's own answer, say that of a proxy: the status line is all there is.
  }
  return new ApiError(response.status, "", response.statusText || `HTTP status ${response.status}`);
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("aborted", "AbortError"));
    });
  });
}

const AGAIN_MS = 10_000;

/** A login that has ended: the page's own address then answers with the form for a new one, and leads back here. */
function logInAgain(): void {
  const before = Number(sessionStorage.getItem("kymo.reloaded") ?? 0);
  // The answer of a proxy that wants something else must not make the page load for ever.
  if (Date.now() - before < AGAIN_MS) return;
  sessionStorage.setItem("kymo.reloaded", String(Date.now()));
  location.reload();
}

/** Damaged tables that the server does without since it met the damage, of the profile that an address is about. */
export const leftOut = new Store<{ url: string; names: string[] } | null>(null);

function noteLeftOut(url: string, response: Response): void {
  const names = response.headers.get("kymo-left-out");
  if (names) leftOut.set({ url, names: names.split(",") });
}

/** Sends a request; a busy server (503) is asked again a few times. Throws ApiError, or AbortError through the signal. */
export async function request(url: string, init: RequestInit = {}): Promise<Response> {
  const signal = init.signal ?? undefined;
  for (let attempt = 0; ; attempt++) {
    let response: Response;
    try {
      response = await fetch(url, { credentials: "same-origin", ...init });
    } catch (error) {
      if (isAbort(error)) throw error;
      throw new ApiError(0, "unreachable", "The server does not answer.");
    }
    noteLeftOut(url, response);
    if (response.ok) return response;
    if (response.status === 401) logInAgain();
    if (response.status !== 503 || attempt === RETRIES) throw await errorOf(response);
    await pause(RETRY_MS * 2 ** attempt, signal);
  }
}

export async function getJson<T>(url: string, signal?: AbortSignal): Promise<T> {
  const response = await request(url, signal ? { signal } : {});
  return (await response.json()) as T;
}

export async function getPacked(url: string, signal?: AbortSignal): Promise<Packed> {
  const response = await request(url, signal ? { signal } : {});
  return decodePacked(await response.arrayBuffer());
}

export async function sendJson(
  method: "PUT" | "POST" | "DELETE",
  url: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<Response> {
  const init: RequestInit = signal ? { method, signal } : { method };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "content-type": "application/json" };
  }
  return request(url, init);
}

/** One place for answers of one kind: asking anew aborts what was asked before, so that an old answer never replaces a newer one. */
export class Latest {
  private controller: AbortController | null = null;

  /** The answer, or undefined when a newer question came meanwhile. Other errors are thrown. */
  async run<T>(ask: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    this.controller?.abort();
    const mine = new AbortController();
    this.controller = mine;
    try {
      const answer = await ask(mine.signal);
      return this.controller === mine ? answer : undefined;
    } catch (error) {
      if (this.controller !== mine || isAbort(error)) return undefined;
      throw error;
    } finally {
      if (this.controller === mine) this.controller = null;
    }
  }

  get busy(): boolean {
    return this.controller !== null;
  }

  cancel(): void {
    this.controller?.abort();
    this.controller = null;
  }
}
