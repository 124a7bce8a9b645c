import { describe, expect, it } from "vitest";
import { linesText } from "../src/api/source";
import { csvOf, parseExact } from "../src/api/sql";
import { deltaOf, figureRows, judged } from "../src/compare/figures";
import { sidesOf } from "../src/compare/sides";
import { followed } from "../src/compare/sync";
import { annotationsCsv, readAnnotations, versusOf, writeAnnotations } from "../src/state/annotations";
import { added, compacted, DEFAULT_LAYOUT, type Item, placedAt, readLayout, removed } from "../src/state/layout";
import { readLink, unread, writeLink } from "../src/state/link";
import { compareAddress, readRoute, sqlAddress, summaryAddress } from "../src/state/route";
import { highlighted } from "../src/widgets/code/highlight";

describe("deep links", () => {
  const link = {
    page: "profile" as const,
    profile: "job-host-r0 <b>&?#",
    range: { from: 10, to: 2000 },
    selected: { table: "Instruction", id: 42 },
    layout: "My layout",
    dma: "aggregated",
    split: true,
  };

  it("come back as they went", () => {
    expect(readLink(writeLink(link))).toEqual(link);
  });

  it("hold nothing that was not asked for", () => {
    const plain = { ...link, range: null, selected: null, layout: null, dma: null, split: false };
    expect(writeLink(plain)).toBe("#/profile/job-host-r0%20%3Cb%3E%26%3F%23");
  });

  it("are read without harm when broken", () => {
    expect(readLink("#/profile/%E0%A4%A").page).toBe("profiles");
    const bad = readLink("#/profile/a?from=9&to=3&event=Instruction:1e9&split=yes");
    expect(bad).toMatchObject({ profile: "a", range: null, selected: null, split: false });
    expect(readLink("#/profile/a?from=99999999999999999999&to=1").range).toBeNull();
    expect(unread("#/profile/a?from=9&to=3&event=Instruction:1e9")).toEqual(["range", "event"]);
    expect(unread("#/profile/a?from=abc")).toEqual(["range"]);
    expect(unread("#/profile/a?from=1&to=3&event=Instruction:1")).toEqual([]);
    expect(unread("#/profile/a")).toEqual([]);
    expect(readLink("")).toMatchObject({ page: "profiles", profile: null });
  });
});

function overlaps(items: Item[]): boolean {
  return items.some((a, i) =>
    items.some((b, j) => j > i && a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h),
  );
}

describe("layout", () => {
  it("keeps widgets apart wherever one is put, and lets none hang in the air", () => {
    let items = DEFAULT_LAYOUT.items;
    let seed = 1;
    const random = (n: number) => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return seed % n;
    };
    for (let i = 0; i < 300; i++) {
      const item = items[random(items.length)]!;
      items = placedAt(items, { ...item, x: random(14) - 1, y: random(60) - 2, w: random(14), h: random(30) });
      expect(overlaps(items)).toBe(false);
      expect(compacted(items)).toEqual(items);
      for (const { x, w } of items) expect(x >= 0 && x + w <= 12).toBe(true);
    }
  });

  it("adds below, with a name of its own, and takes away", () => {
    const more = added(added(DEFAULT_LAYOUT.items, "search", { w: 4, h: 10 }), "search", { w: 4, h: 10 });
    expect(new Set(more.map((item) => item.id)).size).toBe(6);
    expect(overlaps(more)).toBe(false);
    expect(removed(more, "timeline").every((item) => item.id !== "timeline")).toBe(true);
    expect(Math.min(...removed(more, "timeline").map((item) => item.y))).toBe(0);
  });

  it("refuses what is no layout and mends one that overlaps", () => {
    expect(readLayout(null)).toBeNull();
    expect(readLayout({ name: "x", items: [{ id: 1 }] })).toBeNull();
    expect(readLayout({ name: "x", items: [{ id: "a", type: "search", x: 0, y: 0, w: 1.5, h: 2 }] })).toBeNull();
    const twice = [0, 0].map((y, i) => ({ id: `s${i}`, type: "search", x: 0, y, w: 400, h: 5 }));
    expect(overlaps(readLayout({ name: "x", items: twice })!.items)).toBe(false);
  });
});

describe("annotations", () => {
  const list = [
    { id: 1, name: "first", ts: 100, versus: null },
    { id: 2, name: '=cmd,"quoted"', ts: 350, versus: null },
    { id: 3, name: "third", ts: 900, versus: 1 },
  ];

  it("are compared with the one before, or with the chosen one", () => {
    expect(versusOf(list, list[0]!)).toBeNull();
    expect(versusOf(list, list[1]!)?.id).toBe(1);
    expect(versusOf(list, list[2]!)?.id).toBe(1);
  });

  it("come back from their file", () => {
    expect(readAnnotations(writeAnnotations("p", list))).toEqual({ profile: "p", list });
    const far = [{ id: Number.MAX_SAFE_INTEGER, name: "far", ts: 5, versus: null }];
    expect(readAnnotations(writeAnnotations("p", far)).list[0]!.id).toBe(1);
    expect(() => readAnnotations(writeAnnotations("p", [...far, ...far]))).toThrow("the same id");
    expect(() => readAnnotations("{")).toThrow("no JSON");
    expect(() => readAnnotations('{"kind":"other"}')).toThrow("no annotations");
    expect(() => readAnnotations('{"kind":"kymo-annotations","annotations":[{"id":1}]}')).toThrow("not complete");
  });

  it("are exported so that no spreadsheet runs them", () => {
    expect(annotationsCsv(list).split("\n")[2]).toBe(`"'=cmd,""quoted""",350,first,250`);
  });
});

describe("addresses of pages", () => {
  it("are read as they were written, whatever a name holds", () => {
    const name = "a/b, c;#?%25 <i>";
    expect(readRoute(summaryAddress(name))).toEqual({ page: "summary", profile: name });
    expect(readRoute(sqlAddress(name, "select '?' -- #"))).toEqual({
      page: "sql",
      profile: name,
      sql: "select '?' -- #",
    });
    expect(readRoute(compareAddress([name, "b"], "b"))).toEqual({ page: "compare", profiles: [name, "b"], base: "b" });
    expect(readRoute(compareAddress(["a", "a"]))).toEqual({ page: "compare", profiles: ["a"], base: null });
  });

  it("lead to the list where they name nothing", () => {
    for (const hash of ["", "#/compare", "#/summary/", "#/summary/%E0%A4%A", "#/nothing/x"])
      expect(readRoute(hash)).toEqual({ page: "profiles" });
  });
});

describe("comparison", () => {
  const own = [
    { from: 0, to: 1000 },
    { from: 100, to: 300 },
  ] as const;

  it("follows by share or by nanoseconds", () => {
    expect(followed("relative", { from: 250, to: 500 }, own[0], own[1])).toEqual({ from: 150, to: 200 });
    expect(followed("absolute", { from: 250, to: 500 }, own[0], own[1])).toEqual({ from: 350, to: 600 });
  });

  it("puts figures of one name side by side", () => {
    const rows = figureRows([
      { n: 1, engines: [{ engine: "Sync", pcore: 0, time_ns: 5 }], more: { x: null } },
      { n: 3, engines: [{ engine: "Act", pcore: 0, time_ns: 7 }] },
    ]);
    expect(rows).toEqual([
      { group: "", field: "n", of: "", values: [1, 3] },
      { group: "engines", field: "time_ns", of: "Sync pcore 0", values: [5, null] },
      { group: "engines", field: "time_ns", of: "Act pcore 0", values: [null, 7] },
    ]);
  });

  it("judges deltas by what their figure means", () => {
    expect(deltaOf(0, 4)).toEqual({ delta: 4, percent: null });
    expect(deltaOf(-2, -3)).toEqual({ delta: -1, percent: -50 });
    expect(deltaOf("a", 1)).toBeNull();
    expect(judged("active_ns", -1)).toBe("better");
    expect(judged("wait_ns", 1)).toBe("worse");
    expect(judged("mfu_percent", 1)).toBe("better");
    expect(judged("instructions", 1)).toBe("plain");
  });

  it("puts captures to their sides, the base's first", () => {
    expect(sidesOf(["a", "b", "c"], [1, 1, 2], 1)).toEqual([["a", "b"], ["c"]]);
    expect(sidesOf(["a", "b"], [1, 1], 1)).toEqual([["a", "b"]]);
  });
});

describe("source and SQL", () => {
  it("writes lines short", () => {
    expect(linesText([7, 3, 5, 6, 5])).toBe("3,5-7");
  });

  it("writes CSV that reads back", () => {
    const columns = [
      { name: "a,b", type: "VARCHAR" },
      { name: "n", type: "BIGINT" },
    ];
    const answer = {
      columns,
      rows: [
        ['x"y\n', null],
        [[1, 2], 3.5],
      ],
      truncated: false,
    };
    expect(csvOf(answer)).toBe('"a,b",n\r\n"x""y\n",\r\n"[1,2]",3.5\r\n');
  });

  it("keeps every digit of whole numbers", () => {
    const text = String.raw`{"rows":[[1796065618381022814,-9007199254740993,9007199254740991,1.5e3,4398046511104.25,
      "a \"1796065618381022814\" \\",{"n":[18446744073709551615]}]]}`;
    const [row] = (parseExact(text) as { rows: unknown[][] }).rows;
    expect(row!.slice(0, 3)).toEqual(["1796065618381022814", "-9007199254740993", 9007199254740991]);
    expect(row!.slice(3)).toEqual([
      1500,
      4398046511104.25,
      'a "1796065618381022814" \\',
      { n: ["18446744073709551615"] },
    ]);
    expect(() => parseExact("[12345678901234567")).toThrow();
  });

  it("tells the parts of Python apart and loses no character", () => {
    const text = '@jit\ndef f(x):  # "no string\n    """open\nstill""" + \'a\\\'b\' + 1.5e3\nif x: return None';
    const lines = highlighted(text);
    expect(lines.map((line) => line.map((piece) => piece.text).join(""))).toEqual(text.split("\n"));
    const tones = (n: number) => lines[n]!.filter(({ tone }) => tone !== "plain").map(({ tone, text }) => [tone, text]);
    expect(tones(0)).toEqual([["decorator", "@jit"]]);
    expect(tones(1)).toEqual([
      ["keyword", "def"],
      ["comment", '# "no string'],
    ]);
    expect(tones(3)).toEqual([
      ["string", 'still"""'],
      ["string", "'a\\'b'"],
      ["number", "1.5e3"],
    ]);
  });
});
