// One upload: its files go to the server one after another, in pieces, and become profiles there, whose making is followed.

import { ApiError, getJson, query, request, sendJson } from "../api/client";
import type { ProfileRow } from "../state/profiles";
import { messageOf, Store } from "../state/store";
import type { Picked } from "./gather";
import { isMoving } from "./list";

const PIECE = 4 << 20;
const TRIES = 5;
const RETRY_MS = 1000;
const FOLLOW_MS = 1000;
const STORING_MS = 300;

export interface FileState extends Picked {
  sent: number;
  error: string | null;
}

export interface UploadState {
  phase: "sending" | "storing" | "processing" | "done" | "failed" | "cancelled";
  name: string;
  files: FileState[];
  bytes: number;
  sent: number;
  error: string | null;
  ignored: string[];
  profiles: ProfileRow[];
}

/** What the server says of an upload. */
interface ServerState {
  state: "receiving" | "finishing" | "done" | "failed";
  reason?: string;
  profiles?: string[];
  ignored?: string[];
  files?: { path: string; received: number }[];
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Is it worth another try: the connection broke, or the server was busy? */
function isPassing(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || error.status === 503 || error.status === 504);
}

/** The server waits for a connection that is dead, or has more or less of the file than was thought. */
function isOutOfStep(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409 && (error.code === "busy" || error.code === "offset");
}

/** A server that was started anew goes on with what it said it would take, but no longer knows whose question this is. */
function afterRestart(error: unknown): never {
  if (!(error instanceof ApiError && error.status === 404)) throw error;
  throw new Error("the server was started anew meanwhile; it goes on with the upload: look for it in the list");
}

export class Upload {
  readonly state: Store<UploadState>;
  private readonly abort = new AbortController();
  private id: string | null = null;

  constructor(name: string, files: Picked[]) {
    this.state = new Store<UploadState>({
      phase: "sending",
      name,
      files: files.map((file) => ({ ...file, sent: 0, error: null })),
      bytes: files.reduce((sum, { file }) => sum + file.size, 0),
      sent: 0,
      error: null,
      ignored: [],
      profiles: [],
    });
  }

  get running(): boolean {
    const { phase } = this.state.value;
    return phase === "sending" || phase === "storing";
  }

  async run(): Promise<void> {
    try {
      await this.begin();
      for (let i = 0; i < this.state.value.files.length; i++) await this.sendFile(i);
      await this.finish();
    } catch (error) {
      await this.giveUp();
      const cancelled = this.abort.signal.aborted;
      this.set({ phase: cancelled ? "cancelled" : "failed", error: cancelled ? null : messageOf(error) });
      return;
    }
    await this.follow();
  }

  /** Nothing is left of it on the server. */
  cancel(): void {
    this.abort.abort();
  }

  private set(change: Partial<UploadState>): void {
    this.state.set({ ...this.state.value, ...change });
  }

  private setFile(i: number, change: Partial<FileState>): void {
    const files = this.state.value.files.map((file, k) => (k === i ? { ...file, ...change } : file));
    this.set({ files, sent: files.reduce((sum, file) => sum + file.sent, 0) });
  }

  private async begin(): Promise<void> {
    const { name, bytes } = this.state.value;
    const body = name ? { name, bytes } : { bytes };
    const answer = await sendJson("POST", "api/v1/uploads", body, this.abort.signal);
    this.id = ((await answer.json()) as { id: string }).id;
  }

  private async sendFile(i: number): Promise<void> {
    const { file, path } = this.state.value.files[i]!;
    try {
      let at = 0;
      let back = 0;
      do {
        const next = await this.sendPiece(i, at);
        if (next <= at && ++back === TRIES) throw new Error("the server loses what it gets of it");
        at = next;
        this.setFile(i, { sent: at });
      } while (at < file.size);
    } catch (error) {
      if (!this.abort.signal.aborted) this.setFile(i, { error: messageOf(error) });
      throw error instanceof ApiError ? error : new Error(`${path} cannot be read: ${messageOf(error)}`);
    }
  }

  /** Returns how much of the file is there afterwards. */
  private async sendPiece(i: number, at: number): Promise<number> {
    const { file, path, source } = this.state.value.files[i]!;
    for (let attempt = 1; ; attempt++) {
      const params = query({ path, size: file.size, offset: at, source: source || null });
      const body = await file.slice(at, at + PIECE).arrayBuffer();
      try {
        const init = { method: "PUT", body, signal: this.abort.signal };
        const headers = { "content-type": "application/octet-stream" };
        const answer = await request(`api/v1/uploads/${this.id}/files${params}`, { ...init, headers });
        return ((await answer.json()) as { received: number }).received;
      } catch (error) {
        if (!(isPassing(error) || isOutOfStep(error)) || attempt === TRIES) throw error;
        await pause(RETRY_MS * attempt);
        const there = await this.received(path, source);
        if (there !== at) return there;
      }
    }
  }

  private async received(path: string, source: boolean): Promise<number> {
    const { files } = this.state.value;
    const url = `api/v1/uploads/${this.id}`;
    const answer = await getJson<ServerState>(url, this.abort.signal);
    // A source text may have the path of another file: then the piece is sent again from where it began.
    if (files.filter((file) => file.path === path).length > 1 && source) return 0;
    return answer.files?.find((file) => file.path === path)?.received ?? 0;
  }

  /** Asked again it goes on, so that a broken connection does no harm. */
  private async finish(): Promise<void> {
    this.set({ phase: "storing" });
    const url = `api/v1/uploads/${this.id}`;
    let answer = await this.again(async () => {
      const response = await sendJson("POST", `${url}/finish`, undefined, this.abort.signal);
      return (await response.json()) as ServerState;
    });
    while (answer.state === "finishing") {
      await pause(STORING_MS);
      answer = await this.again(() => getJson<ServerState>(url, this.abort.signal)).catch(afterRestart);
    }
    if (answer.state !== "done") throw new Error(answer.reason ?? "the server does not say why");
    const { profiles = [], ignored = [] } = answer;
    this.id = null;
    this.set({ phase: "processing", ignored, profiles: profiles.map((name) => ({ name, state: "queued" })) });
  }

  private async again<T>(ask: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await ask();
      } catch (error) {
        if (!isPassing(error) || attempt === TRIES) throw error;
        await pause(RETRY_MS * attempt);
      }
    }
  }

  private async giveUp(): Promise<void> {
    if (this.id === null) return;
    try {
      await sendJson("DELETE", `api/v1/uploads/${this.id}`);
    } catch {
      // It is removed by itself when nobody goes on with it.
    }
  }

  private async follow(): Promise<void> {
    const names = this.state.value.profiles.map((row) => row.name);
    while (this.state.value.profiles.some(isMoving)) {
      await pause(FOLLOW_MS);
      try {
        const answer = await sendJson("POST", "api/v1/profiles/find", { names: names.slice(0, 100) });
        this.set({ profiles: ((await answer.json()) as { profiles: ProfileRow[] }).profiles });
      } catch (error) {
        if (!isPassing(error)) {
          this.set({ phase: "failed", error: messageOf(error) });
          return;
        }
      }
    }
    this.set({ phase: "done" });
  }
}

/** Uploads of this page, the newest first; they go on while it shows something else. */
export const uploads = new Store<Upload[]>([]);

export function startUpload(name: string, files: Picked[]): Upload {
  const upload = new Upload(name, files);
  uploads.update((list) => [upload, ...list]);
  void upload.run();
  return upload;
}

window.addEventListener("beforeunload", (event) => {
  if (uploads.value.some((upload) => upload.running)) event.preventDefault();
});
