// Names in boxes: as much of them as there is room for. Measuring is slow, so widths are remembered, per font; and so is asking a
// context for its font, so it is told.

const KEPT = 4000;
const widths = new Map<string, number>();

function widthOf(context: CanvasRenderingContext2D, font: string, text: string): number {
  const key = `${font} ${text}`;
  const known = widths.get(key);
  if (known !== undefined) return known;
  if (widths.size >= KEPT) widths.clear();
  context.font = font;
  const { width } = context.measureText(text);
  widths.set(key, width);
  return width;
}

const LEAST = 3;

/** The text, or its beginning and an ellipsis; nothing when not even three letters have room. */
export function fitted(context: CanvasRenderingContext2D, font: string, text: string, room: number): string {
  if (room <= 0) return "";
  const width = widthOf(context, font, text);
  if (width <= room) return text;
  const letters = Math.floor(text.length * ((room - widthOf(context, font, "…")) / width) - 0.5);
  return letters < LEAST ? "" : `${text.slice(0, letters)}…`;
}
