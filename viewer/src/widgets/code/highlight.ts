// Python as the eye likes it: comments, strings, keywords and numbers told apart. Not a parser: what it does not know is plain text.

export type Tone = "plain" | "comment" | "string" | "keyword" | "number" | "decorator";

export interface Piece {
  tone: Tone;
  text: string;
}

const KEYWORDS = new Set(
  (
    "and as assert async await break class continue def del elif else except finally for from global if import in is lambda " +
    "nonlocal not or pass raise return try while with yield match case None True False self"
  ).split(" "),
);

const TOKEN =
  /(?<comment>#.*)|(?<open>[rbfuRBFU]{0,2}("""|'''))|(?<string>[rbfuRBFU]{0,2}(?:"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?))|(?<number>\b\d[\w.]*)|(?<decorator>^\s*@[\w.]+)|(?<word>[A-Za-z_]\w*)/g;

/** A line longer than this is machine-made: it is shown plain. */
const MAX_LINE = 2000;

/** The pieces of a line, and the quotes in which it leaves an open string. */
function pieces(line: string, opened: string | null): { list: Piece[]; open: string | null } {
  const list: Piece[] = [];
  let open = opened;
  let at = 0;
  const plainTo = (end: number) => {
    if (end > at) list.push({ tone: "plain", text: line.slice(at, end) });
    at = end;
  };
  const take = (tone: Tone, end: number) => {
    list.push({ tone, text: line.slice(at, end) });
    at = end;
  };
  const closeString = () => {
    const end = line.indexOf(open!, at);
    if (end < 0) return take("string", line.length);
    take("string", end + 3);
    open = null;
  };
  if (open !== null) closeString();
  while (at < line.length && open === null) {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(line);
    if (!match) break;
    const groups = match.groups!;
    plainTo(match.index);
    const end = match.index + match[0].length;
    if (groups.open) {
      open = match[0].slice(-3);
      const closing = line.indexOf(open, end);
      if (closing >= 0) open = null;
      take("string", closing >= 0 ? closing + 3 : line.length);
    } else if (groups.word) take(KEYWORDS.has(groups.word) ? "keyword" : "plain", end);
    else take((["comment", "string", "number", "decorator"] as const).find((tone) => groups[tone]) ?? "plain", end);
  }
  plainTo(line.length);
  return { list, open };
}

export function highlighted(text: string): Piece[][] {
  let open: string | null = null;
  return text.split(/\r\n|\n|\r/).map((line) => {
    if (line.length > MAX_LINE) return [{ tone: "plain", text: line }];
    const found = pieces(line, open);
    open = found.open;
    return found.list;
  });
}
