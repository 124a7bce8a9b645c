// Keeps the rows up to date: with what is asked, and while something is being made.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Latest } from "../api/client";
import { messageOf } from "../state/store";
import { isMoving, loadPage, type Page, type Wanted } from "./list";

const TYPING_MS = 150;
const FOLLOW_MS = 1500;

export interface Shown {
  page: Page | null;
  error: string | null;
  reload(): void;
}

/** session null: it is not known yet whether the list is a plain one. */
export function useList(wanted: Wanted, cursor: string | null, plain: boolean | null): Shown {
  const [shown, setShown] = useState<{ page: Page | null; error: string | null }>({ page: null, error: null });
  const [turn, setTurn] = useState(0);
  const latest = useMemo(() => new Latest(), []);
  const question = JSON.stringify([wanted, cursor, plain]);
  useEffect(() => {
    if (plain === null) return;
    const timer = setTimeout(() => {
      latest
        .run((signal) => loadPage(wanted, cursor, plain, signal))
        .then((page) => page && setShown({ page, error: null }))
        .catch((error: unknown) => setShown((now) => ({ page: now.page, error: messageOf(error) })));
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [question, turn]);
  const moving = shown.page?.rows.some(isMoving) ?? false;
  useEffect(() => {
    if (!moving) return;
    const timer = setInterval(() => setTurn((n) => n + 1), FOLLOW_MS);
    return () => clearInterval(timer);
  }, [moving]);
  useEffect(() => () => latest.cancel(), []);
  return { ...shown, reload: () => setTurn((n) => n + 1) };
}
