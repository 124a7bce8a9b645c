// Ranges of time that concern more than one event: warnings, losses, throttling, regions, executions. One lane for each sort, below the axis.

import type { Bands, Range } from "../api/types";
import { exactText, timeText } from "./scale";

export type BandTone = "amber" | "loss" | "error" | "calm" | "region";

export interface Band extends Range {
  label: string;
  tone: BandTone;
  /** Shown when the pointer rests on it. */
  details: string[];
}

export interface BandLane {
  name: string;
  tone: BandTone;
  bands: Band[];
  /** Does the band colour the tracks below it too? */
  tint: boolean;
}

/** These are told where they belong: beside the track that is absent. */
const NOT_BANDS = new Set(["host_dma_not_captured"]);
const MAX_DETAILS = 4;

function core(pcore: number | null): string {
  return pcore === null ? "" : ` (nc${pcore})`;
}

/** Joins bands that touch, and keeps what each of them said. */
export function joined(bands: Band[]): Band[] {
  const out: Band[] = [];
  for (const band of [...bands].sort((a, b) => a.from - b.from)) {
    const last = out[out.length - 1];
    if (last && band.from <= last.to) {
      last.to = Math.max(last.to, band.to);
      for (const text of band.details) if (!last.details.includes(text)) last.details.push(text);
    } else out.push({ ...band, details: [...band.details] });
  }
  for (const band of out) {
    const more = band.details.length - MAX_DETAILS;
    if (more > 0) band.details = [...band.details.slice(0, MAX_DETAILS), `… and ${more} more of this kind here.`];
  }
  return out;
}

function warningLanes(bands: Bands, cores: number): BandLane[] {
  const kinds = new Map<string, Band[]>();
  for (const warning of bands.warnings) {
    if (NOT_BANDS.has(warning.kind)) continue;
    const tone: BandTone = warning.kind === "records_lost" ? "loss" : "amber";
    const where = cores > 1 && warning.pcore_idx !== null ? `nc${warning.pcore_idx}: ` : "";
    const band = {
      from: warning.start_ts,
      to: warning.end_ts,
      label: warning.label,
      tone,
      details: [where + warning.details],
    };
    kinds.set(warning.kind, [...(kinds.get(warning.kind) ?? []), band]);
  }
  return [...kinds].map(([kind, list]) => ({
    name: list[0]!.label,
    tone: list[0]!.tone,
    bands: joined(list),
    tint: kind === "small_dma_transfers",
  }));
}

function lossLane(bands: Bands): BandLane | null {
  const list = bands.losses
    .filter((loss) => loss.first_ts !== null && loss.last_ts !== null)
    .map((loss) => ({
      from: loss.first_ts!,
      to: loss.last_ts!,
      label: "Records lost",
      tone: "loss" as const,
      details: [
        `${loss.ring ?? loss.stage}: ${loss.lost_records ?? "an unknown number of"} records lost (${loss.cause}).`,
      ],
    }));
  return list.length ? { name: "Records lost", tone: "loss", bands: joined(list), tint: false } : null;
}

function throttleLane(bands: Bands): BandLane | null {
  const list = bands.throttles.map((throttle) => ({
    from: throttle.start_ts,
    to: throttle.end_ts,
    label: `${throttle.k}/${throttle.n}`,
    tone: "calm" as const,
    details: [`${throttle.type}${core(throttle.pcore_idx)}: ${throttle.k} of ${throttle.n} cycles allowed.`],
  }));
  return list.length ? { name: "Throttled", tone: "calm", bands: joined(list), tint: false } : null;
}

function regionLanes(bands: Bands): BandLane[] {
  const depths = new Map<number, Band[]>();
  for (const region of bands.regions) {
    const depth = region.path.split("/").length;
    const count = region.instructions === null ? "" : `, ${region.instructions} instructions`;
    const band: Band = {
      from: region.start_ts,
      to: region.end_ts,
      label: region.name,
      tone: "region",
      details: [`${region.path}${core(region.pcore_idx)}: ${timeText(region.end_ts - region.start_ts)}${count}`],
    };
    depths.set(depth, [...(depths.get(depth) ?? []), band]);
  }
  return [...depths]
    .sort((a, b) => a[0] - b[0])
    .slice(0, 4)
    .map(([, list], i) => ({
      name: i === 0 ? "NKI regions" : "",
      tone: "region",
      bands: joinSame(list),
      tint: false,
    }));
}

/** Of two cores that run the same region at the same time one band is enough; it names both. */
function joinSame(list: Band[]): Band[] {
  const labels = new Map<string, Band[]>();
  for (const band of list) labels.set(band.label, [...(labels.get(band.label) ?? []), band]);
  return [...labels.values()].flatMap(joined).sort((a, b) => a.from - b.from);
}

function executionLane(bands: Bands): BandLane | null {
  const list = bands.executions.map((execution) => ({
    from: execution.start_ts,
    to: execution.end_ts,
    label: `${execution.name} #${execution.index}`,
    tone: "calm" as const,
    details: [`Execution ${execution.index} of ${execution.name}`],
  }));
  return list.length ? { name: "Executions", tone: "calm", bands: list, tint: false } : null;
}

function errorLane(bands: Bands): BandLane | null {
  const list = bands.errors.map((error) => ({
    from: error.timestamp,
    to: error.timestamp,
    label: error.description,
    tone: "error" as const,
    details: [
      `${error.type}: ${error.description}${core(error.pcore_idx)}${error.metadata ? `, ${error.metadata}` : ""}`,
    ],
  }));
  return list.length ? { name: "Errors", tone: "error", bands: list, tint: false } : null;
}

export function bandLanes(bands: Bands, cores: number): BandLane[] {
  const warnings = warningLanes(bands, cores);
  const lost = warnings.some((lane) => lane.tone === "loss") ? null : lossLane(bands);
  const lanes = [executionLane(bands), ...regionLanes(bands), ...warnings, lost, throttleLane(bands), errorLane(bands)];
  return lanes.filter((lane) => lane !== null);
}

/** Losses of one ring, as ranges over the tracks that the ring feeds. */
export function lossesOf(bands: Bands | null, label: string, group: string, pcore: number | null): Range[] {
  if (!bands) return [];
  return bands.losses.flatMap((loss) => {
    if (loss.first_ts === null || loss.last_ts === null || loss.ring === null) return [];
    const feeds = loss.ring === label || (group === "engine" && loss.ring === `INSTRUCTION(nc${pcore ?? 0})`);
    const sameEngine =
      group === "dma" &&
      label.startsWith(loss.ring.replace(/\(nc\d+\)$/, "")) &&
      label.split(/[ (]/)[0] === loss.ring.split("(")[0];
    const sameCore = pcore === null || loss.ring.endsWith(`(nc${pcore})`);
    return feeds || (sameEngine && sameCore) ? [{ from: loss.first_ts, to: loss.last_ts }] : [];
  });
}

export function bandText(band: Band): { title: string; range: string; duration: string } {
  return {
    title: band.label,
    range: band.to > band.from ? `${exactText(band.from)} – ${exactText(band.to)}` : exactText(band.from),
    duration: timeText(band.to - band.from),
  };
}
