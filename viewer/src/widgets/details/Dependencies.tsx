// The Dependencies tab: Predecessor PCs and Successor PCs of an instruction as cards, and the chain of waits back from it.

import { useEffect, useState } from "preact/hooks";
import { Latest } from "../../api/client";
import type { Dependency, WaitChain, WaitStep } from "../../api/types";
import type { Profile } from "../../state/profile";
import { messageOf, useStore } from "../../state/store";
import { dependencyStyle } from "../../timeline/color";
import { timeText } from "../../timeline/scale";
import { copyText } from "../../ui/copy";

function Badge({ kind }: { kind: string }) {
  const style = dependencyStyle(kind);
  const isBank = kind === "SAME_PSUM_BANK";
  return (
    <span class="badge" title={isBank ? style.name : kind} style={{ borderColor: style.color }}>
      {isBank ? "Bank" : style.name}
    </span>
  );
}

function engineText(dependency: Pick<Dependency, "engine" | "pcore">, cores: number): string {
  const core = cores > 1 && dependency.pcore !== null ? `(nc${dependency.pcore})` : "";
  return `${dependency.engine ?? "DMA"}${core}`;
}

/** Negative where the later one was issued while the earlier still ran, as one that waits is. */
function Gap({ ns }: { ns: number | null }) {
  if (ns === null) return <span />;
  return (
    <span
      class="muted"
      title="From the end of the earlier instruction to the start of the later one, its waiting included"
    >
      {ns < 0 ? `overlap ${timeText(-ns)}` : `gap ${timeText(ns)}`}
    </span>
  );
}

function Card({ profile, dependency }: { profile: Profile; dependency: Dependency }) {
  const [copied, setCopied] = useState(false);
  const [open, setOpen] = useState(false);
  const copy = async () => {
    setCopied(await copyText(JSON.stringify(dependency, null, 2)));
    setTimeout(() => setCopied(false), 1500);
  };
  const go = () => profile.goTo(dependency);
  const { also } = dependency;
  return (
    <li class="card" style={{ borderLeftColor: dependencyStyle(dependency.kind).color }}>
      <div class="card-head">
        <span>
          PC <strong>{dependency.pc ?? "–"}</strong>
        </span>
        <span>{engineText(dependency, profile.overview.cores.length)}</span>
        <code>{dependency.label}</code>
        <span class="space" />
        <Badge kind={dependency.kind} />
        {also.length > 0 && (
          <button type="button" class="plain" aria-expanded={open} onClick={() => setOpen(!open)}>
            +{also.length}
          </button>
        )}
      </div>
      {open && (
        <div class="muted">
          The pair is linked otherwise too:{" "}
          {also.map((edge) => (
            <Badge key={edge.kind} kind={edge.kind} />
          ))}
        </div>
      )}
      <div class="card-foot">
        <Gap ns={dependency.gap_ns} />
        <span class="space" />
        <button type="button" onClick={copy}>
          {copied ? "Copied" : "Copy as JSON"}
        </button>
        <button type="button" onClick={go}>
          Navigate to dependency
        </button>
      </div>
    </li>
  );
}

/** Why the profile does not have a table, if it does not. */
function NotThere({ profile, of }: { profile: Profile; of: string[] }) {
  const missing = useStore(profile.missing).find(({ what }) => of.includes(what));
  return missing ? <p class="muted">{missing.why}</p> : null;
}

function Cards({ profile, title, list }: { profile: Profile; title: string; list: Dependency[] }) {
  return (
    <section aria-label={title}>
      <h4>
        {title} <span class="muted">({list.length})</span>
      </h4>
      {list.length === 0 && <p class="muted">None is known.</p>}
      <ul class="cards">
        {list.map((dependency) => (
          <Card key={`${dependency.table}${dependency.id}`} profile={profile} dependency={dependency} />
        ))}
      </ul>
    </section>
  );
}

const ENDS: Record<WaitChain["end"], string> = {
  no_wait: "The chain ends at what waited for nothing.",
  unknown: "What the last one waited for is not known.",
  limit: "The chain goes on; it is cut here.",
  absent: "This profile does not hold the causes of waits.",
};

function Step({ profile, step }: { profile: Profile; step: WaitStep }) {
  const go = () => profile.goTo({ ...step, table: "Instruction", id: step.instruction_id });
  const cause = step.in_label ?? step.in_engine ?? step.in_table;
  return (
    <li>
      <button type="button" class="plain" onClick={go}>
        {step.opcode ?? "instruction"} on{" "}
        {engineText({ engine: step.engine, pcore: step.pcore_idx }, profile.overview.cores.length)}
      </button>{" "}
      waited {step.lower_bound ? "at least " : ""}
      {timeText(step.wait_ns)}
      {step.semaphore && <> at {step.semaphore}</>}
      {cause && step.dependency_type ? (
        <>
          {" "}
          for {cause} <Badge kind={step.dependency_type} />
        </>
      ) : (
        step.unknown_reason && <span class="muted"> ({step.unknown_reason})</span>
      )}
    </li>
  );
}

function Why({ profile }: { profile: Profile }) {
  const selected = useStore(profile.selected);
  const [chain, setChain] = useState<WaitChain | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [latest] = useState(() => new Latest());
  useEffect(() => {
    setChain(null);
    setError(null);
    return () => latest.cancel();
  }, [selected]);
  if (!selected) return null;
  const ask = () => {
    latest
      .run((signal) => profile.api.why(selected, signal))
      .then((answer) => answer && setChain(answer))
      .catch((reason: unknown) => setError(messageOf(reason)));
  };
  return (
    <section aria-label="Why did this wait">
      <button type="button" onClick={ask}>
        Why did this wait?
      </button>
      {error && <p class="error">{error}</p>}
      {chain && (
        <ol class="chain">
          {chain.chain.map((step) => (
            <Step key={step.step} profile={profile} step={step} />
          ))}
          <li class="muted">{ENDS[chain.end]}</li>
          {chain.end === "absent" && <NotThere profile={profile} of={["WaitCause", "why"]} />}
        </ol>
      )}
    </section>
  );
}

export function DependenciesTab({ profile }: { profile: Profile }) {
  const { value, busy, error } = useStore(profile.dependencies);
  if (error) return <p class="error">{error}</p>;
  if (!value) return busy ? <p class="muted">Loading…</p> : null;
  const isInstruction = value.table === "Instruction";
  return (
    <div class="dependencies">
      <Why profile={profile} />
      <NotThere profile={profile} of={["Flow", "dependencies"]} />
      {isInstruction ? (
        <>
          <Cards profile={profile} title="Predecessor PCs" list={value.predecessors} />
          <Cards profile={profile} title="Successor PCs" list={value.successors} />
          {value.transfers.length > 0 && (
            <p class="muted">{value.transfers.length} linked DMA transfers are highlighted in blue on the timeline.</p>
          )}
        </>
      ) : (
        <p class="muted">
          The instruction that started this transfer ({value.starters?.length ?? 0}) and those that depend on it (
          {value.dependents?.length ?? 0}) are highlighted on the timeline, in the colours of the legend in Help.
        </p>
      )}
      {value.truncated && <p class="muted">There are more than are listed.</p>}
    </div>
  );
}
