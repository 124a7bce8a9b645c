import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Annotations } from "../src/state/annotations";
import { Layouts } from "../src/state/layouts";

interface Call {
  method: string;
  url: string;
  body: unknown;
}

let calls: Call[] = [];
let stored: Map<string, unknown>;
let changes: Map<string, number>;
let status = 200;

const changed = (url: string) => changes.get(url) ?? (stored.has(url) ? 1 : 0);

function answer(url: string, init: RequestInit = {}): Response {
  const method = init.method ?? "GET";
  const body = typeof init.body === "string" ? JSON.parse(init.body) : null;
  calls.push({ method, url, body });
  const json = (code: number, value: unknown) => new Response(JSON.stringify(value), { status: code });
  if (status !== 200) return json(status, { error: { code: "no_store", message: "nothing is kept" } });
  if (method === "PUT") {
    const { value, seen } = body as { value: unknown; seen?: number };
    if (seen !== undefined && seen !== changed(url)) return json(409, { error: { code: "conflict", message: "" } });
    stored.set(url, value);
    changes.set(url, changed(url) + 1);
  }
  if (method === "DELETE") stored.delete(url);
  if (/\/(layouts|annotations)$/.test(url)) {
    const items = [...stored].filter(([key]) => key.startsWith(`${url}/`));
    return json(200, {
      items: items.map(([key, value]) => ({
        key: decodeURIComponent(key.slice(url.length + 1)),
        value,
        changed_ns: 1,
      })),
    });
  }
  if (!stored.has(url) && method !== "DELETE") return json(404, { error: { code: "not_found", message: "none" } });
  return json(200, { key: "k", value: stored.get(url), changed_ns: changed(url) });
}

beforeEach(() => {
  calls = [];
  stored = new Map();
  changes = new Map();
  status = 200;
  vi.useFakeTimers();
  vi.stubGlobal("fetch", async (url: string, init?: RequestInit) => answer(url, init));
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const settle = () => vi.advanceTimersByTimeAsync(5000);
const puts = () => calls.filter((call) => call.method === "PUT");

describe("what the server keeps", () => {
  it("gives annotations back, and is not sent what it gave", async () => {
    const mark = { id: 3, name: "a", ts: 5, versus: null };
    stored.set("api/v1/annotations/a%2Fb", [mark, { id: "broken" }]);
    const annotations = new Annotations("a/b");
    await settle();
    expect(annotations.list.value).toEqual([mark]);
    expect(puts()).toEqual([]);
  });

  it("gets the newest of several changes, once", async () => {
    const annotations = new Annotations("p");
    await settle();
    annotations.add(1);
    annotations.add(2);
    annotations.change(1, { name: "x" });
    await settle();
    expect(puts()).toHaveLength(1);
    expect(stored.get("api/v1/annotations/p")).toEqual(annotations.list.value);
  });

  it("joins what the user has just done", async () => {
    stored.set("api/v1/annotations/p", [{ id: 9, name: "old", ts: 1, versus: null }]);
    const annotations = new Annotations("p");
    annotations.add(7);
    await settle();
    expect(annotations.list.value.map((a) => a.ts)).toEqual([1, 7]);
    expect(stored.get("api/v1/annotations/p")).toEqual(annotations.list.value);
  });

  it("is what two tabs did", async () => {
    const [one, other] = [new Annotations("p"), new Annotations("p")];
    await settle();
    one.add(10);
    await settle();
    other.add(20);
    await settle();
    expect(other.list.value.map(({ id, ts }) => [id, ts])).toEqual([
      [1, 10],
      [2, 20],
    ]);
    one.remove(1);
    one.add(30);
    await settle();
    expect(one.list.value.map(({ ts }) => ts)).toEqual([20, 30]);
    expect(stored.get("api/v1/annotations/p")).toEqual(one.list.value);
    other.change(1, { name: "renamed" }); // which the other one has removed: the change stays
    await settle();
    expect(other.list.value.map(({ ts, name }) => [ts, name])).toEqual([
      [20, "Mark 1"],
      [30, "Mark 2"],
      [10, "renamed"],
    ]);
  });

  it("says which marks have no room beside those of others", async () => {
    const theirs = Array.from({ length: 499 }, (_, i) => ({ id: i + 1, name: `m${i}`, ts: i, versus: null }));
    stored.set("api/v1/annotations/p", theirs);
    const [one, other] = [new Annotations("p"), new Annotations("p")];
    await settle();
    one.add(1000);
    other.add(2000);
    await settle();
    expect([one, other].map(({ list }) => list.value.length)).toEqual([500, 500]);
    expect(one.list.value.at(-1)?.ts).toBe(1000);
    expect(other.list.value.at(-1)?.ts).toBe(1000);
    expect(one.trouble.value).toBeNull();
    expect(other.trouble.value).toMatch(/^Not kept: “Mark \d+”\. .* at most 500\.$/);
    expect(stored.get("api/v1/annotations/p")).toEqual(one.list.value);
    expect(other.add(3000)).toBeNull();
  });

  it("may be nothing: the page works on", async () => {
    status = 501;
    const annotations = new Annotations("p");
    annotations.add(7);
    const layouts = new Layouts();
    layouts.save("mine");
    await settle();
    expect(annotations.list.value).toHaveLength(1);
    expect(layouts.find("mine")).not.toBeNull();
  });

  it("keeps layouts by name", async () => {
    stored.set("api/v1/layouts/theirs", [{ id: "t", type: "timeline", x: 0, y: 0, w: 12, h: 10 }]);
    const layouts = new Layouts();
    await settle();
    expect(layouts.find("theirs")?.items).toHaveLength(1);
    layouts.save("night & day");
    await settle();
    expect(puts().map((call) => call.url)).toEqual(["api/v1/layouts/night%20%26%20day"]);
    layouts.remove("theirs");
    await settle();
    expect([...stored.keys()]).toEqual(["api/v1/layouts/night%20%26%20day"]);
  });
});
