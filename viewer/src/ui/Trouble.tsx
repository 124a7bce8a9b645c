import { type Store, useStore } from "../state/store";

/** What went wrong last, told to screen readers at once. */
export function Trouble({ trouble }: { trouble: Store<string | null> }) {
  const text = useStore(trouble);
  return text ? (
    <div class="trouble" role="alert">
      {text}
    </div>
  ) : null;
}
