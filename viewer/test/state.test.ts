import { describe, expect, it } from "vitest";
import { annotationsCsv, readAnnotations, versusOf, writeAnnotations } from "../src/state/annotations";
import { added, compacted, DEFAULT_LAYOUT, type Item, placedAt, readLayout, removed } from "../src/state/layout";
import { readLink, writeLink } from "../src/state/link";

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
    expect(readAnnotations(writeAnnotations("p", list))).toEqual(list);
    expect(() => readAnnotations("{")).toThrow("no JSON");
    expect(() => readAnnotations('{"kind":"other"}')).toThrow("no annotations");
    expect(() => readAnnotations('{"kind":"kymo-annotations","annotations":[{"id":1}]}')).toThrow("not complete");
  });

  it("are exported so that no spreadsheet runs them", () => {
    expect(annotationsCsv(list).split("\n")[2]).toBe(`"'=cmd,""quoted""",350,first,250`);
  });
});
