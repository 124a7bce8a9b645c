// A summary's categories, each of which can be folded; which are is remembered for all summaries.

import { keep, kept } from "../../state/keep";
import { Store, useStore } from "../../state/store";
import { type Figures, type Section, sectionsOf } from "./categories";
import { Report, Rows } from "./Report";

const folds = new Store<Record<string, boolean>>(kept("summary.folded", {}));
folds.watch((value) => keep("summary.folded", value));

function Part({ section, folded }: { section: Section; folded: boolean }) {
  const toggle = () => folds.update((now) => ({ ...now, [section.id]: !folded }));
  return (
    <section class="summary-section" data-section={section.id} aria-label={section.title}>
      <h4>
        <button type="button" class="plain" aria-expanded={!folded} onClick={toggle}>
          <span class="fold">{folded ? "▸" : "▾"}</span> {section.title}
          <span class="muted headline">{section.headline}</span>
        </button>
      </h4>
      {!folded && (
        <>
          {Object.keys(section.lines).length > 0 && <Report value={section.lines} />}
          {section.tables.map(({ title, rows, columns }) => (
            <div key={title} class="summary-table">
              {title && <h5>{title}</h5>}
              <Rows rows={rows} columns={columns} />
            </div>
          ))}
        </>
      )}
    </section>
  );
}

export function Sections({ value }: { value: Figures }) {
  const folded = useStore(folds);
  return (
    <>
      {sectionsOf(value).map((section) => (
        <Part key={section.id} section={section} folded={folded[section.id] ?? section.folded} />
      ))}
    </>
  );
}
