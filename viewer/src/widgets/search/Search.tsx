// Search: category, field, exact or partial; results page by page, with yellow borders on the timeline and a cyan one for the current.

import { useState } from "preact/hooks";
import type { SearchQuery } from "../../api/profile";
import type { SearchHit } from "../../api/types";
import { PAGE_SIZE, type Profile, sameEvent } from "../../state/profile";
import { useStore } from "../../state/store";
import { groupDigits, timeText } from "../../timeline/scale";
import type { WidgetProps } from "../registry";

const CATEGORIES: { category: SearchQuery["category"]; name: string; fields: string[] }[] = [
  { category: "operator", name: "Framework Operator", fields: ["operator", "layer", "hlo_name"] },
  {
    category: "instruction",
    name: "Instruction",
    fields: [
      "opcode",
      "operands",
      "symbolic_operands",
      "pc",
      "id",
      "engine",
      "bir_instruction_name",
      "kernel_instruction_name",
      "nki_source_location",
      "nki_region",
      "compiler_opcode",
    ],
  },
  { category: "dma", name: "DMA", fields: ["variable", "queue_name", "queue_type", "op", "source", "dest", "id"] },
];

function Results({ profile }: { profile: Profile }) {
  const search = useStore(profile.search);
  const { answer } = search;
  if (search.error) return <p class="error">{search.error}</p>;
  if (!answer) return search.busy ? <p class="muted">Searching…</p> : null;
  if (answer.total === 0) return <p class="muted">Nothing matches.</p>;
  const show = (index: number, focus: boolean) => void profile.showHit(index, focus);
  return (
    <>
      <nav class="paging" aria-label="Search results">
        <button
          type="button"
          aria-label="Previous match"
          disabled={search.current === 0}
          onClick={() => show(search.current - 1, true)}
        >
          ‹ Previous
        </button>
        <span>
          {groupDigits(search.current + 1)} of {groupDigits(answer.total)}
          {answer.more ? " or more" : ""}
        </span>
        <button
          type="button"
          aria-label="Next match"
          disabled={search.current + 1 >= answer.total}
          onClick={() => show(search.current + 1, true)}
        >
          Next ›
        </button>
        <span class="space" />
        <button type="button" class="primary" onClick={() => show(search.current, true)}>
          Focus
        </button>
      </nav>
      <div class="scroll">
        <table class="results">
          <thead>
            <tr>
              <th scope="col">Event</th>
              <th scope="col">Track</th>
              <th scope="col" class="number">
                Start
              </th>
              <th scope="col" class="number">
                Duration
              </th>
            </tr>
          </thead>
          <tbody>
            {answer.hits.map((hit, i) => (
              <Row key={`${hit.table}${hit.id}`} profile={profile} hit={hit} index={answer.page * PAGE_SIZE + i} />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Row({ profile, hit, index }: { profile: Profile; hit: SearchHit; index: number }) {
  const search = useStore(profile.search);
  const current = search.current === index;
  const classes = [current ? "current" : "", sameEvent(hit, search.focused) ? "focused" : ""].join(" ");
  return (
    <tr class={classes} aria-selected={current}>
      <td>
        <button type="button" class="plain" title="Show its details" onClick={() => void profile.showHit(index, false)}>
          {hit.label || `${hit.table} ${hit.id}`}
        </button>
        {hit.value && hit.value !== hit.label && <small class="muted"> {hit.value}</small>}
      </td>
      <td>{hit.track?.replace(/^[a-z_]+:/, "") ?? hit.engine ?? ""}</td>
      <td class="number">{timeText(hit.start_ts)}</td>
      <td class="number">{timeText(hit.end_ts - hit.start_ts)}</td>
    </tr>
  );
}

export function SearchWidget({ profile }: WidgetProps) {
  const [category, setCategory] = useState<SearchQuery["category"]>("operator");
  const [field, setField] = useState("operator");
  const [match, setMatch] = useState<SearchQuery["match"]>("partial");
  const [value, setValue] = useState("");
  const search = useStore(profile.search);
  const fields = CATEGORIES.find((other) => other.category === category)!.fields;
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (value !== "") void profile.find({ category, field, match, value });
  };
  const choose = (next: SearchQuery["category"]) => {
    setCategory(next);
    setField(CATEGORIES.find((other) => other.category === next)!.fields[0]!);
  };
  return (
    <div class="search">
      <form onSubmit={submit}>
        <select
          aria-label="Category"
          value={category}
          onChange={(event) => choose(event.currentTarget.value as SearchQuery["category"])}
        >
          {CATEGORIES.map((other) => (
            <option key={other.category} value={other.category}>
              {other.name}
            </option>
          ))}
        </select>
        <select aria-label="Field" value={field} onChange={(event) => setField(event.currentTarget.value)}>
          {fields.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
        <select
          aria-label="Match"
          value={match}
          onChange={(event) => setMatch(event.currentTarget.value as SearchQuery["match"])}
        >
          <option value="partial">partial match</option>
          <option value="exact">exact match</option>
        </select>
        <input
          type="text"
          aria-label="Value"
          placeholder="Value"
          maxLength={500}
          value={value}
          onInput={(event) => setValue(event.currentTarget.value)}
        />
        <button type="submit" class="primary">
          Submit
        </button>
        <button type="button" disabled={!search.query} onClick={() => profile.clearSearch()}>
          Clear result
        </button>
      </form>
      <Results profile={profile} />
    </div>
  );
}
