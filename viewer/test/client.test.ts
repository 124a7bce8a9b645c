import { afterEach, describe, expect, it, vi } from "vitest";
import { ApiError, getJson, Latest, query } from "../src/api/client";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

function answers(...list: (Response | Error)[]) {
  const fetch = vi.fn(async () => {
    const next = list.shift() ?? new Response("{}");
    if (next instanceof Error) throw next;
    return next;
  });
  vi.stubGlobal("fetch", fetch);
  return fetch;
}

describe("query", () => {
  it("leaves out what is not given and escapes the rest", () => {
    expect(query({ a: 1, b: null, c: undefined, d: "", e: "x&y=<z>", f: true })).toBe("?a=1&e=x%26y%3D%3Cz%3E&f=1");
    expect(query({})).toBe("");
  });
});

describe("getJson", () => {
  it("gives the API's own words for an error", async () => {
    answers(new Response('{"error":{"code":"not_found","message":"no such profile"}}', { status: 404 }));
    await expect(getJson("x")).rejects.toMatchObject({ status: 404, code: "not_found", message: "no such profile" });
  });

  it("says so when nobody answers", async () => {
    answers(new TypeError("failed to fetch"));
    await expect(getJson("x")).rejects.toBeInstanceOf(ApiError);
  });

  it("asks a busy server again, but not for ever", async () => {
    vi.useFakeTimers();
    const busy = () => new Response("{}", { status: 503 });
    const fetch = answers(busy(), busy(), new Response('{"a":1}'));
    const answer = getJson("x");
    await vi.runAllTimersAsync();
    expect(await answer).toEqual({ a: 1 });
    expect(fetch).toHaveBeenCalledTimes(3);

    const never = answers(busy(), busy(), busy(), busy(), busy(), busy());
    const failing = getJson("x");
    const seen = expect(failing).rejects.toMatchObject({ status: 503 });
    await vi.runAllTimersAsync();
    await seen;
    expect(never).toHaveBeenCalledTimes(4);
  });
});

describe("Latest", () => {
  it("aborts the older question, and never lets its answer through", async () => {
    const latest = new Latest();
    let finishFirst = (_: string) => {};
    let aborted = false;
    const first = latest.run(
      (signal) =>
        new Promise<string>((resolve) => {
          finishFirst = resolve;
          signal.addEventListener("abort", () => {
            aborted = true;
          });
        }),
    );
    const second = latest.run(async () => "new");
    expect(aborted).toBe(true);
    finishFirst("old");
    expect(await first).toBeUndefined();
    expect(await second).toBe("new");
    expect(latest.busy).toBe(false);
  });

  it("throws what the newest question met, and hides what an older one did", async () => {
    const latest = new Latest();
    const older = latest.run(async () => {
      await Promise.resolve();
      throw new Error("old");
    });
    const newer = latest.run(async () => {
      throw new Error("new");
    });
    expect(await older).toBeUndefined();
    await expect(newer).rejects.toThrow("new");
  });
});
