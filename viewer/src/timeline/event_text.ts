// An event in words, for those who hear the page.

import type { EventDetails } from "../api/types";
import { timeText } from "./scale";

export function eventText({ table, id, fields, track, operator, wait: cause }: EventDetails): string {
  const name =
    [fields.opcode, fields.variable, fields.queue_name, fields.operation].find((text) => text) ?? `${table} ${id}`;
  const place = track
    ?.replace(/^[a-z_]+:/, "")
    .replaceAll("%2C", ",")
    .replaceAll("%25", "%");
  const start = Number(fields.start_ts ?? fields.timestamp ?? Number.NaN);
  const end = Number(fields.end_ts ?? Number.NaN);
  const parts = [place ? `${name} on ${place}` : String(name)];
  if (Number.isFinite(start)) parts.push(`from ${timeText(start)}`);
  if (Number.isFinite(end)) parts.push(`for ${timeText(end - start)}`);
  // A counter that came to its end says less than the record of the met wait.
  const wait = Number((cause?.saturated ? cause.wait_ns : fields.evt_wait_time_ns) ?? 0);
  if (wait > 0) parts.push(`of which it waits ${timeText(wait)}`);
  if (operator) parts.push(`operator ${operator}`);
  return parts.join(", ");
}
