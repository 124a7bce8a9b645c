// One plot: asks its question, draws the rows, and leads to the question.

import { useEffect, useState } from "preact/hooks";
import { isAbort } from "../api/client";
import { objects, runSql } from "../api/sql";
import type { Overview } from "../api/types";
import { sqlAddress } from "../state/route";
import { type Loaded, messageOf, nothing } from "../state/store";
import { BarPlot, type Row } from "./BarPlot";
import { LinePlot } from "./LinePlot";
import type { Plot } from "./queries";

const LIMIT = 10_000;

interface Props {
  name: string;
  overview: Overview;
  plot: Plot;
}

function absence({ overview, plot }: Props): string | null {
  const lacking = plot.tables.filter((table) => !(table in overview.tables));
  if (lacking.length > 0) return `This profile has no table ${lacking.join(" and ")}.`;
  return plot.tables.some((table) => overview.tables[table] === 0) ? "There is none in this profile." : null;
}

function useRows({ name, plot }: Props, absent: boolean): Loaded<Row[]> {
  const [state, setState] = useState<Loaded<Row[]>>(nothing());
  useEffect(() => {
    if (absent) return;
    const abort = new AbortController();
    setState({ value: null, busy: true, error: null });
    runSql(name, plot.sql, LIMIT, abort.signal)
      .then((answer) => setState({ value: objects(answer), busy: false, error: null }))
      .catch((error: unknown) => {
        if (!isAbort(error)) setState({ value: null, busy: false, error: messageOf(error) });
      });
    return () => abort.abort();
  }, [name, plot.sql]);
  return state;
}

export function PlotPanel(props: Props) {
  const { name, overview, plot } = props;
  const absent = absence(props);
  const { value, busy, error } = useRows(props, absent !== null);
  return (
    <section class="plot-panel" aria-label={plot.title}>
      <header>
        <div>
          <h2>{plot.title}</h2>
          <p class="muted">{plot.means}</p>
        </div>
        <a class="button" href={sqlAddress(name, plot.sql)} title={plot.sql}>
          Query
        </a>
      </header>
      {absent && <p class="muted hint">{absent}</p>}
      {error && <p class="error">{error}</p>}
      {busy && <p class="muted">Loading…</p>}
      {value && value.length === 0 && <p class="muted hint">There is none in this profile.</p>}
      {value && value.length > 0 && plot.draw.form === "bars" && (
        <BarPlot rows={value} plot={plot.draw} title={plot.title} />
      )}
      {value && value.length > 0 && plot.draw.form === "lines" && (
        <LinePlot rows={value} plot={plot.draw} title={plot.title} extent={overview.extent} />
      )}
    </section>
  );
}
