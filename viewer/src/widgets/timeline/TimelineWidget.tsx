import { Timeline } from "../../timeline/Timeline";
import type { WidgetProps } from "../registry";

export function TimelineWidget({ profile, annotations }: WidgetProps) {
  return (
    <Timeline profile={profile} annotations={annotations} onSource={() => profile.toSource.update((n) => n + 1)} />
  );
}
