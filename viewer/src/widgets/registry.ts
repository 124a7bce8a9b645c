// The widgets that can be added. One row and one folder each.

import type { FunctionComponent } from "preact";
import type { Annotations } from "../state/annotations";
import type { Profile } from "../state/profile";
import { AnnotationsWidget } from "./annotations/Annotations";
import { CodeWidget } from "./code/Code";
import { DetailsWidget } from "./details/Details";
import { OperatorsWidget } from "./operators/Operators";
import { RegionsWidget } from "./regions/Regions";
import { SearchWidget } from "./search/Search";
import { BoxSummary, OverallSummary, SelectionSummary } from "./summary/Summary";
import { TimelineWidget } from "./timeline/TimelineWidget";

export interface WidgetProps {
  profile: Profile;
  annotations: Annotations;
}

export interface WidgetKind {
  type: string;
  title: string;
  size: { w: number; h: number };
  Component: FunctionComponent<WidgetProps>;
}

export const WIDGETS: WidgetKind[] = [
  { type: "timeline", title: "Device Trace Viewer", size: { w: 12, h: 20 }, Component: TimelineWidget },
  { type: "search", title: "Search", size: { w: 4, h: 13 }, Component: SearchWidget },
  { type: "details", title: "Event Details", size: { w: 5, h: 13 }, Component: DetailsWidget },
  { type: "annotations", title: "Annotations", size: { w: 6, h: 10 }, Component: AnnotationsWidget },
  { type: "regions", title: "Region Highlighter", size: { w: 8, h: 14 }, Component: RegionsWidget },
  { type: "operators", title: "Operator Table", size: { w: 12, h: 13 }, Component: OperatorsWidget },
  { type: "code", title: "Code Viewer", size: { w: 6, h: 16 }, Component: CodeWidget },
  { type: "overall", title: "Overall Summary", size: { w: 6, h: 16 }, Component: OverallSummary },
  { type: "selection", title: "Current Selection Summary", size: { w: 4, h: 13 }, Component: SelectionSummary },
  { type: "box", title: "Box Selection Summary", size: { w: 4, h: 13 }, Component: BoxSummary },
];

export const WIDGET_BY_TYPE = new Map(WIDGETS.map((kind) => [kind.type, kind]));
