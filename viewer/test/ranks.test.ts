import { expect, test, vi } from "vitest";
import type { FleetRow } from "../src/api/fleet";
import { decodePacked } from "../src/api/packed";
import { type Rank, RanksApi } from "../src/api/ranks";
import { dayBefore, filtersOf, fleetAddress, rangeOf, readFleet } from "../src/fleet/question";
import { rangeToCommon, rangeToOwn, rankName, toCommon, toOwn } from "../src/ranks/clock";
import { laneOf } from "../src/ranks/lanes";
import { ordered } from "../src/ranks/model";
import { ranksAddress, readRoute } from "../src/state/route";
import { pack } from "./pack";

test("a time of a member's own axis is on the common one where its clock says, and back", () => {
  const clock = { offset_ns: 5000, drift_ppm: 100 };
  expect(toCommon(clock, 0)).toBe(5000);
  expect(toCommon(clock, 1_000_000)).toBe(1_005_100);
  expect(toOwn(clock, 1_005_100)).toBeCloseTo(1_000_000, 6);
  const range = { from: 10_000, to: 90_000 };
  const back = rangeToCommon(clock, rangeToOwn(clock, range));
  expect(back.from).toBeCloseTo(range.from, 6);
  expect(back.to).toBeCloseTo(range.to, 6);
  expect(toCommon({ offset_ns: 7, drift_ppm: null }, 3)).toBe(10);
});

function rank(profile: string, more: Partial<Rank>): Rank {
  return { profile, rank: null, worker: null, wait_ns: null, mfu_percent: null, ...more } as Rank;
}

test("ranks are named by what is known of them, and ordered", () => {
  expect(rankName(rank("a", { rank: 0, worker: 4 }))).toBe("Rank 0");
  expect(rankName(rank("a", { worker: 4 }))).toBe("Worker 4");
  expect(rankName(rank("a", {}))).toBe("a");
  const list = [
    rank("c", { rank: 2, wait_ns: 5, mfu_percent: 3 }),
    rank("a", { rank: 0, wait_ns: 9, mfu_percent: 1 }),
    rank("b", { rank: 1 }),
  ];
  const names = (order: Parameters<typeof ordered>[1]) => ordered(list, order).map(({ profile }) => profile);
  expect(names("outlier")).toEqual(["c", "a", "b"]);
  expect(names("rank")).toEqual(["a", "b", "c"]);
  expect(names("wait")).toEqual(["a", "c", "b"]);
  expect(names("mfu")).toEqual(["a", "c", "b"]);
});

test("lanes are read from the packed answer, also those without rows", () => {
  const packed = decodePacked(
    pack(
      [
        {
          id: "collective:p",
          mode: "arrivals",
          columns: [
            { name: "id", type: "i64", values: [3] },
            { name: "start", type: "i64", values: [10] },
            { name: "end", type: "i64", values: [30] },
            { name: "label", type: "u32", values: [1] },
            { name: "late", type: "i64", values: [5] },
            { name: "wait", type: "i64", values: [7] },
            { name: "error", type: "i64", values: [-1] },
            { name: "last", type: "u8", values: [1] },
            { name: "count", type: "u32", values: [2] },
          ],
        },
      ],
      { from: 0, to: 100, width: 10, dict: ["", "AllReduce"] },
    ),
  );
  const lane = laneOf(packed, "p", 10);
  expect(lane.arrivals.n).toBe(1);
  expect(lane.arrivals.operation).toEqual(["AllReduce"]);
  expect([lane.arrivals.error[0], lane.arrivals.last[0], lane.arrivals.count[0]]).toEqual([-1, 1, 2]);
  expect(lane.busy.n).toBe(0);
  expect(laneOf(packed, "q", 10).arrivals.n).toBe(0);
});

test("addresses of ranks and of the fleet hold what is shown", () => {
  const range = { from: 10.7, to: 20.2 };
  expect(readRoute(ranksAddress("a/b", range, 7))).toEqual({
    page: "ranks",
    profile: "a/b",
    range: { from: 10, to: 21 },
    collective: 7,
  });
  expect(readRoute("#/ranks/a?collective=1'--")).toMatchObject({ range: null, collective: null });
  const question = readFleet(new URLSearchParams("group=rank&sort=step&to=2026-11-30&days=28&job=x%26y&page=2"));
  expect(readRoute(fleetAddress(question))).toEqual({ page: "fleet", question });
  expect(fleetAddress(readFleet(new URLSearchParams("group=what&sort=%3B&to=yesterday&days=3&page=-4")))).toBe(
    "#/fleet",
  );
});

test("a fleet's days and the filters behind a row", () => {
  expect(dayBefore("2026-03-01", 1)).toBe("2026-02-28");
  expect(rangeOf({ to: "2026-11-30", days: 14 })).toEqual({ from: "2026-11-17", to: "2026-11-30" });
  const row = { key: { job: "train", rank: 1 } } as Pick<FleetRow, "key">;
  expect(filtersOf({ cluster: "west" }, row.key)).toEqual({ cluster: "west", job: "train", rank: "1" });
});

test("more ranks than the page holds are left out, and told", async () => {
  const asked: string[] = [];
  const serve = (total: number) =>
    vi.stubGlobal("fetch", async (address: string) => {
      asked.push(address);
      const page = Number(new URL(address, "http://x").searchParams.get("page") ?? 0);
      const n = Math.max(Math.min(256, total - page * 256), 0);
      const ranks = Array.from({ length: n }, (_, i) => rank(`r${page * 256 + i}`, {}));
      return new Response(JSON.stringify({ total, ranks, left_out: total - page * 256 - n, figures: true }));
    });
  serve(5000);
  const many = await new RanksApi("p").ranks();
  expect([many.ranks.length, many.left_out, asked.length]).toEqual([4096, 904, 16]);
  expect(new Set(many.ranks.map(({ profile }) => profile)).size).toBe(4096);
  serve(300);
  const few = await new RanksApi("p").ranks();
  expect([few.ranks.length, few.left_out]).toEqual([300, 0]);
  vi.unstubAllGlobals();
});
