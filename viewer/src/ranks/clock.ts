// From a member's own axis to the common one and back.

import type { Rank } from "../api/ranks";
import type { Range } from "../api/types";

type Clock = Pick<Rank, "offset_ns" | "drift_ppm">;

export function toCommon(clock: Clock, ts: number): number {
  return (clock.offset_ns ?? 0) + ts + (ts * (clock.drift_ppm ?? 0)) / 1e6;
}

export function toOwn(clock: Clock, common: number): number {
  return (common - (clock.offset_ns ?? 0)) / (1 + (clock.drift_ppm ?? 0) / 1e6);
}

export function rangeToOwn(clock: Clock, range: Range): Range {
  return { from: toOwn(clock, range.from), to: toOwn(clock, range.to) };
}

export function rangeToCommon(clock: Clock, range: Range): Range {
  return { from: toCommon(clock, range.from), to: toCommon(clock, range.to) };
}

/** What a member is called: its rank, else its number in replica groups, else its profile. */
export function rankName(rank: Pick<Rank, "rank" | "worker" | "profile">): string {
  if (rank.rank !== null) return `Rank ${rank.rank}`;
  return rank.worker !== null ? `Worker ${rank.worker}` : rank.profile;
}
