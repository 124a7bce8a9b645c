// The operations on one profile.

import { getJson, getPacked, type Params, query } from "./client";
import type { OperatorsAnswer } from "./operators";
import type { Packed } from "./packed";
import type { RegionRow, RegionsAnswer } from "./regions";
import { linesText, type SourceFile, type SourceLine } from "./source";
import type {
  Bands,
  Dependencies,
  DmaMode,
  EventDetails,
  EventRef,
  Overview,
  Range,
  SearchAnswer,
  WaitChain,
} from "./types";

export interface SearchQuery {
  category: "operator" | "instruction" | "dma";
  field: string;
  match: "exact" | "partial";
  value: string;
}

export interface Lines {
  file: string;
  lines: number[];
}

export interface OperatorsQuery {
  /** Id of the row whose children are asked for; null: the top. */
  parent: string | null;
  sort: { column: string; descending: boolean };
  filter: string;
  size: number;
  /** Null: the whole profile. */
  range: Range | null;
}

export interface WindowQuery extends Range {
  width: number;
  groups: string[];
  /** Some tracks, by their ids: win over groups. */
  tracks?: string[];
}

function whole(range: Range): { from: number; to: number } {
  return { from: Math.floor(range.from), to: Math.ceil(range.to) };
}

function windowParams(ask: WindowQuery): Params {
  const { width, groups, tracks } = ask;
  return { ...whole(ask), width, groups: groups.join(","), tracks: tracks?.join(",") };
}

export class ProfileApi {
  private readonly base: string;

  constructor(readonly name: string) {
    this.base = `api/v1/profiles/${encodeURIComponent(name)}/`;
  }

  isAbout(url: string): boolean {
    return url.startsWith(this.base);
  }

  url(path: string, params: Params = {}): string {
    return this.base + path + query(params);
  }

  overview(signal?: AbortSignal): Promise<Overview> {
    return getJson(this.url("overview"), signal);
  }

  timeline(ask: WindowQuery & { dma: DmaMode; split: boolean }, signal: AbortSignal): Promise<Packed> {
    const { dma, split } = ask;
    return getPacked(this.url("timeline", { ...windowParams(ask), dma, split }), signal);
  }

  series(ask: WindowQuery, signal: AbortSignal): Promise<Packed> {
    return getPacked(this.url("series", windowParams(ask)), signal);
  }

  bands(range: Range, signal?: AbortSignal): Promise<Bands> {
    return getJson(this.url("bands", whole(range)), signal);
  }

  details(event: EventRef, signal?: AbortSignal): Promise<EventDetails> {
    return getJson(this.url(`events/${event.table}/${event.id}`), signal);
  }

  dependencies(event: EventRef, signal?: AbortSignal): Promise<Dependencies> {
    return getJson(this.url(`events/${event.table}/${event.id}/dependencies`), signal);
  }

  why(event: EventRef, signal?: AbortSignal): Promise<WaitChain> {
    return getJson(this.url(`events/${event.table}/${event.id}/why`), signal);
  }

  search(ask: SearchQuery, page: number, size: number, signal?: AbortSignal): Promise<SearchAnswer> {
    return getJson(this.url("search", { ...ask, page, size }), signal);
  }

  searchMarks(ask: SearchQuery, range: Range, width: number, signal?: AbortSignal): Promise<Packed> {
    return getPacked(this.url("search", { ...ask, ...whole(range), width, marks: true }), signal);
  }

  operators(ask: OperatorsQuery, signal?: AbortSignal): Promise<OperatorsAnswer> {
    const { parent, sort, filter, size, range } = ask;
    const order = `${sort.descending ? "-" : ""}${sort.column}`;
    return getJson(
      this.url("operators", { parent, sort: order, filter, size, ...(range ? whole(range) : {}) }),
      signal,
    );
  }

  regions(signal?: AbortSignal): Promise<RegionsAnswer> {
    return getJson(this.url("regions"), signal);
  }

  regionInstances({ path, pcore }: Pick<RegionRow, "path" | "pcore">): Promise<RegionsAnswer> {
    return getJson(this.url("regions", { path, pcore }));
  }

  sourceFiles(signal?: AbortSignal): Promise<{ files: SourceFile[] }> {
    return getJson(this.url("source"), signal);
  }

  sourceText(file: string, signal?: AbortSignal): Promise<{ text: string }> {
    return getJson(this.url("source", { file }), signal);
  }

  sourceLines(file: string, signal?: AbortSignal): Promise<{ lines: SourceLine[] }> {
    return getJson(this.url("source/lines", { file }), signal);
  }

  /** Events of lines in a window, as search's marks. */
  sourceMarks(lines: Lines, range: Range, width: number, signal?: AbortSignal): Promise<Packed> {
    const ask = { file: lines.file, lines: linesText(lines.lines), ...whole(range), width };
    return getPacked(this.url("source/events", ask), signal);
  }

  summary(range: Range, tracks: string[] | null, signal?: AbortSignal): Promise<Record<string, unknown>> {
    return getJson(this.url("summary", { ...whole(range), tracks: tracks?.join(",") }), signal);
  }
}
