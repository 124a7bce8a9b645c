// Answers of /api/v1, as collector/query/SERVE.md and openapi.json state them. Times are nanoseconds from the profile's zero.

export interface Range {
  from: number;
  to: number;
}

export type DmaMode = "engine" | "queue" | "aggregated";

export interface Track {
  id: string;
  group: string;
  kind: string;
  label: string;
  engine: string | null;
  pcore: number | null;
  table: string | null;
  events?: number;
  dma: DmaMode | null;
  split: "joined" | "sequencer" | "compute" | null;
  form: "events" | "series";
  unit: "percent" | "bytes_per_second" | "count" | null;
  parts: string[] | null;
  absent: string | null;
}

export interface Overview {
  extent: Range;
  cores: number[];
  tables: Record<string, number>;
  tracks: Track[];
  operators: string[];
  missing: { what: string; why: string }[];
  warnings: number;
  /** The first of them. */
  notes: { category: string; message: string }[];
  settings?: Record<string, unknown>;
  summary?: Record<string, unknown>;
}

export interface WarningBand {
  kind: string;
  label: string;
  start_ts: number;
  end_ts: number;
  count: number | null;
  details: string;
  pcore_idx: number | null;
}

export interface LossBand {
  stage: string;
  ring: string | null;
  cause: string;
  lost_records: number | null;
  lost_unknown: boolean;
  first_ts: number | null;
  last_ts: number | null;
}

export interface ThrottleBand {
  type: string;
  start_ts: number;
  end_ts: number;
  k: number;
  n: number;
  pcore_idx: number | null;
}

export interface ErrorMark {
  timestamp: number;
  type: string;
  description: string;
  metadata: string | null;
  pcore_idx: number | null;
}

export interface RegionBand {
  name: string;
  path: string;
  start_ts: number;
  end_ts: number;
  pcore_idx: number | null;
  instructions: number | null;
}

export interface ExecutionBand {
  index: number;
  name: string;
  start_ts: number;
  end_ts: number;
}

export interface Bands {
  warnings: WarningBand[];
  losses: LossBand[];
  throttles: ThrottleBand[];
  errors: ErrorMark[];
  regions: RegionBand[];
  executions: ExecutionBand[];
  truncated: string[];
}

export interface EventRef {
  table: string;
  id: number;
}

export interface Neighbour {
  id: number;
  start_ts: number;
  end_ts: number;
  label: string;
}

export interface SourceLocation {
  file: string;
  line: number | null;
  function: string | null;
  kind: string;
  depth: number;
}

export type Fields = Record<string, unknown>;

export interface EventDetails extends EventRef {
  track: string | null;
  tracks?: string[];
  fields: Fields;
  hierarchy: string[];
  operator: string | null;
  transfer: Fields | null;
  neighbours: { previous: Neighbour | null; next: Neighbour | null };
  wait: Fields | null;
  sources: SourceLocation[];
}

export interface Dependency extends EventRef {
  pc: number | null;
  engine: string | null;
  pcore: number | null;
  start_ts: number;
  end_ts: number;
  label: string;
  kind: string;
  gap_ns: number | null;
  bank: boolean;
  also: { kind: string; gap_ns: number | null }[];
  track?: string | null;
  /** All that show it, whatever the settings are. */
  tracks?: string[];
  direction?: "in" | "out";
}

/** A packet of a linked transfer, on one of its two tracks. */
export interface LinkedPacket {
  transfer: number;
  id: number;
  start_ts: number;
  end_ts: number;
  track: string | null;
}

export interface Dependencies extends EventRef {
  predecessors: Dependency[];
  successors: Dependency[];
  transfers: Dependency[];
  starters: Dependency[];
  dependents: Dependency[];
  same_bank: { previous: Dependency[]; next: Dependency[] };
  packets?: LinkedPacket[];
  packets_truncated?: boolean;
  truncated: boolean;
}

export interface WaitStep {
  step: number;
  instruction_id: number;
  engine: string;
  pcore_idx: number;
  pc: number | null;
  opcode: string | null;
  start_ts: number;
  end_ts: number;
  wait_ns: number;
  cost_ns: number | null;
  dependency_type: string | null;
  semaphore: string | null;
  in_table: string | null;
  in_id: number | null;
  in_engine: string | null;
  in_label: string | null;
  in_start_ts: number | null;
  in_end_ts: number | null;
  unknown_reason: string | null;
  lower_bound: boolean;
}

export interface WaitChain extends EventRef {
  chain: WaitStep[];
  end: "no_wait" | "unknown" | "limit" | "absent";
}

export interface SearchHit extends EventRef {
  start_ts: number;
  end_ts: number;
  label: string;
  track: string | null;
  value?: string | null;
  engine?: string | null;
  pcore?: number | null;
}

export interface SearchAnswer {
  total: number;
  more?: boolean;
  page: number;
  size: number;
  hits: SearchHit[];
}
