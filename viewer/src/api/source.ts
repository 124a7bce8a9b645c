// Source files that a profile's instructions come from.

export interface SourceFile {
  file: string;
  kind: string;
  instructions: number;
  /** Is its text there? */
  available: boolean;
}

export interface SourceLine {
  line: number;
  /** Its first event. */
  first?: { table: string; id: number; start_ts: number; end_ts: number } | null;
  [figure: string]: unknown;
}

/** Figures that lines can be decorated with, as far as the server gives them. */
export function decorationsOf(lines: SourceLine[]): string[] {
  const names = new Set<string>();
  for (const line of lines)
    for (const [name, value] of Object.entries(line)) if (name !== "line" && typeof value === "number") names.add(name);
  return [...names];
}

/** 3, 5, 6, 7 → "3,5-7": short enough for an address. */
export function linesText(lines: number[]): string {
  const sorted = [...new Set(lines)].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < sorted.length; ) {
    let j = i;
    while (j + 1 < sorted.length && sorted[j + 1] === sorted[j]! + 1) j++;
    parts.push(i === j ? `${sorted[i]}` : `${sorted[i]}-${sorted[j]}`);
    i = j + 1;
  }
  return parts.join(",");
}
