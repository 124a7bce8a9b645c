import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { isHidden, joined, kindOf, type Picked, whyNot } from "../src/manage/gather";
import { loadPage, sorted, stateText } from "../src/manage/list";
import { type Look, wantedOf } from "../src/manage/place";
import { readShelf, Shelf } from "../src/manage/shelf";
import { whyNoName } from "../src/state/kept";

function picked(path: string, source = false): Picked {
  return { file: new File(["x"], path.split("/").pop()!), path, source };
}

describe("files of an upload", () => {
  it("are told by their names", () => {
    const kinds = ["a/p_vnc_0.ntff", "m.neff", "s/ntrace.pb", "Instruction.parquet", "x/manifest.pb", "notes.txt"];
    expect(kinds.map((path) => kindOf({ path, source: false }))).toEqual([
      "Profile",
      "Program",
      "System trace",
      "Table",
      "Manifest",
      "Other",
    ]);
    expect(kindOf({ path: "a.ntff", source: true })).toBe("Source");
  });

  it("must be something to make a profile of", () => {
    expect(whyNot([])).toContain("Choose");
    expect(whyNot([picked("m.neff"), picked("trace_info.pb"), picked("a.ntff", true)])).toContain("nothing to make");
    for (const path of ["p.ntff", "s/ntrace.pb", "T.parquet", "manifest.pb"]) expect(whyNot([picked(path)])).toBeNull();
    expect(whyNot(Array.from({ length: 4096 }, (_, i) => picked(`${i}.ntff`)))).toContain("at most");
  });

  it("come once each, and not hidden", () => {
    const files = joined(
      [picked("b"), picked("a")],
      [picked("a"), picked("a", true), picked("x/.git/c"), picked(".d")],
    );
    expect(files.map(({ path, source }) => [path, source])).toEqual([
      ["a", false],
      ["a", true],
      ["b", false],
    ]);
    expect(isHidden("a/b.c")).toBe(false);
  });
});

describe("rows", () => {
  it("say why and where", () => {
    expect(stateText({ name: "p", state: "failed", reason: "no end", file_offset: 7 })).toBe(
      "failed: no end (at byte 7 of the file)",
    );
    expect(stateText({ name: "p", state: "processing", stage: "decode", done: 1, total: 3 })).toBe(
      "processing: decode, 33 %",
    );
    const reason = "/x y/store/raw/captures/c/a/p.ntff: offset 128: its CRC32C is another";
    expect(stateText({ name: "p", state: "failed", reason, file_offset: 128 })).toBe(
      "failed: /x p.ntff: its CRC32C is another (at byte 128 of the file)",
    );
    expect(stateText({ name: "p" })).toBe("ready");
  });

  it("are in order of a column, then of names", () => {
    const rows = [
      { name: "b", received_ns: 1 },
      { name: "a", received_ns: 1 },
      { name: "c", received_ns: 2 },
    ];
    const names = (descending: boolean) => sorted(rows, { key: "received", descending }).map((row) => row.name);
    expect(names(false)).toEqual(["a", "b", "c"]);
    expect(names(true)).toEqual(["c", "b", "a"]);
  });
});

const LOOK: Look = {
  place: { kind: "folder", name: "f" },
  tags: ["t"],
  text: "",
  state: "",
  sort: { key: "name", descending: false },
  cursors: [],
};
const SHELF = readShelf({
  folders: [{ name: "f", profiles: ["a", "b"] }],
  tags: [{ name: "t", profiles: ["b", "c"] }, 3, { name: 1, profiles: [] }],
  favourites: "x",
});

it("a profile is in the folder and has each tag", () => {
  expect(SHELF.tags.length).toBe(1);
  expect(wantedOf(LOOK, SHELF).names).toEqual(["b"]);
  expect(wantedOf({ ...LOOK, place: { kind: "all" } }, SHELF).names).toEqual(["b", "c"]);
  expect(wantedOf({ ...LOOK, place: { kind: "all" }, tags: [] }, SHELF).names).toBeNull();
  expect(wantedOf({ ...LOOK, place: { kind: "favourites" }, tags: [] }, SHELF).names).toEqual([]);
});

it("names have bounds", () => {
  expect(whyNoName("a b/ç")).toBeNull();
  for (const name of ["", ".", "..", "x".repeat(101), "é".repeat(51), "a\nb"]) expect(whyNoName(name)).not.toBeNull();
});

describe("the server", () => {
  let answers: ((url: string, init: RequestInit) => [number, unknown])[] = [];
  let calls: string[] = [];

  beforeEach(() => {
    answers = [];
    calls = [];
    vi.stubGlobal("fetch", async (url: string, init: RequestInit = {}) => {
      calls.push(`${init.method ?? "GET"} ${url}${init.body ? ` ${init.body}` : ""}`);
      const [status, body] = answers.shift()!(url, init);
      return new Response(JSON.stringify(body), { status });
    });
  });

  afterEach(() => vi.unstubAllGlobals());

  it("may have a list that another tab has changed meanwhile", async () => {
    const shelf = new Shelf();
    const item = (value: string[], changed_ns: number) => ({ key: "f", value, changed_ns });
    answers = [
      () => [200, item(["a"], 1000)],
      () => [409, { error: { code: "conflict", message: "changed" } }],
      () => [200, item(["a", "z"], 2000)],
      () => [200, item([], 3000)],
    ];
    await shelf.addTo("folders", "f", ["b"]);
    expect(calls[3]).toBe('PUT api/v1/folders/f {"value":["a","z","b"],"seen":2000}');
    expect(shelf.list("folders", "f")).toEqual(["a", "z", "b"]);
  });

  it("may give a page that is empty, and others behind it", async () => {
    const wanted = wantedOf({ ...LOOK, place: { kind: "all" }, tags: [], text: "x" }, SHELF);
    answers = [() => [200, { profiles: [], next: "c1" }], () => [200, { profiles: [{ name: "x" }], next: null }]];
    const page = await loadPage(wanted, null, false, new AbortController().signal);
    expect(page).toEqual({ rows: [{ name: "x" }], next: null });
    expect(calls[1]).toBe("GET api/v1/profiles?text=x&sort=name&limit=50&cursor=c1");
  });
});
