import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Upload } from "../src/manage/upload";

const PIECE = 4 << 20;

type Answer = Response | Error;
type Asked = { method: string; url: string };

const json = (value: unknown, status = 200) => new Response(JSON.stringify(value), { status });
const fault = (status: number, code: string) => json({ error: { code, message: `it is ${code}` } }, status);
const begun = () => json({ id: "u1" }, 201);

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("window", { addEventListener: () => undefined });
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

/** Runs the upload of one file against these answers; gives what was asked, and how it ended. */
async function run(size: number, ...answers: Answer[]): Promise<{ asked: Asked[]; upload: Upload }> {
  const asked: Asked[] = [];
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
    asked.push({ method: init.method ?? "GET", url: url.replace("api/v1/uploads", "") });
    const next = answers.shift();
    if (!next) throw new Error(`nothing is to be asked any more: ${url}`);
    if (next instanceof Error) throw next;
    return next;
  });
  const { Upload } = await import("../src/manage/upload");
  const file = new File([new Uint8Array(size)], "p.ntff");
  const upload = new Upload("", [{ file, path: "p.ntff", source: false }]);
  const over = upload.run();
  await vi.runAllTimersAsync();
  await over;
  return { asked, upload };
}

const put = (offset: number, size: number) => ({
  method: "PUT",
  url: `/u1/files?path=p.ntff&size=${size}&offset=${offset}`,
});
const finish = { method: "POST", url: "/u1/finish" };
const look = { method: "GET", url: "/u1" };
const find = { method: "POST", url: "api/v1/profiles/find" };
const done = () => json({ state: "done", profiles: ["p"], ignored: ["notes"] });
const ready = () => json({ profiles: [{ name: "p", state: "ready" }] });

describe("an upload", () => {
  it("waits until it is in the store, and asks again when a connection breaks", async () => {
    const finishing = () => json({ state: "finishing" }, 202);
    const { asked, upload } = await run(
      10,
      begun(),
      json({ received: 10 }),
      new TypeError("broken"),
      finishing(),
      finishing(),
      fault(504, "timeout"),
      done(),
      ready(),
    );
    expect(asked.slice(1)).toEqual([put(0, 10), finish, finish, look, look, look, find]);
    expect(upload.state.value).toMatchObject({ phase: "done", ignored: ["notes"] });
  });

  it("says why it did not get there, and leaves nothing behind", async () => {
    const { asked, upload } = await run(
      10,
      begun(),
      json({ received: 10 }),
      json({ state: "finishing" }, 202),
      json({ state: "failed", reason: "the disk is full" }),
      json({ deleted: true }),
    );
    expect(asked.at(-1)).toEqual({ method: "DELETE", url: "/u1" });
    expect(upload.state.value).toMatchObject({ phase: "failed", error: "the disk is full" });
  });

  it("says where to look when the server was started anew", async () => {
    const { upload } = await run(
      10,
      begun(),
      json({ received: 10 }),
      json({ state: "finishing" }, 202),
      fault(404, "not_found"),
      fault(404, "not_found"),
    );
    expect(upload.state.value.phase).toBe("failed");
    expect(upload.state.value.error).toContain("look for it in the list");
  });

  it("goes on where the server stands, when that waits for a connection that is dead", async () => {
    const size = PIECE + 100;
    const there = (received: number) => json({ files: [{ path: "p.ntff", received }] });
    const { asked, upload } = await run(
      size,
      begun(),
      json({ received: PIECE }),
      new TypeError("broken"),
      there(PIECE),
      fault(409, "busy"),
      there(PIECE),
      fault(409, "offset"),
      there(PIECE + 50),
      json({ received: size }),
      done(),
      ready(),
    );
    const again = [put(PIECE, size), look, put(PIECE, size), look, put(PIECE, size), look];
    expect(asked.slice(1, -2)).toEqual([put(0, size), ...again, put(PIECE + 50, size)]);
    expect(upload.state.value.phase).toBe("done");
  });

  it("begins a file anew that the server has lost, but not for ever", async () => {
    const size = PIECE + 100;
    const answers = () => [json({ received: PIECE }), fault(503, "busy"), fault(503, "busy"), fault(503, "busy")];
    const lost = () => [fault(503, "busy"), json({ files: [] })];
    const rounds = Array.from({ length: 5 }, () => [...answers(), ...lost()]).flat();
    const { asked, upload } = await run(size, begun(), ...rounds, json({ deleted: true }));
    expect(asked.filter(({ url }) => url.endsWith("offset=0"))).toHaveLength(5);
    expect(upload.state.value).toMatchObject({ phase: "failed" });
    expect(upload.state.value.error).toContain("loses");
  });

  it("does not try for long what another file stands in the way of", async () => {
    const { asked, upload } = await run(10, begun(), fault(409, "conflict"), json({ deleted: true }));
    expect(asked).toHaveLength(3);
    expect(upload.state.value).toMatchObject({ phase: "failed", error: "it is conflict" });
  });
});
