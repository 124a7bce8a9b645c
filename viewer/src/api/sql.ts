// Questions in SQL. The server allows reading only, and bounds time, memory and rows.

import { request } from "./client";

export interface SqlColumn {
  name: string;
  type: string;
}

export interface SqlAnswer {
  columns: SqlColumn[];
  rows: unknown[][];
  /** Were there more rows than were asked for? */
  truncated: boolean;
}

export const MAX_ROWS = 10_000;

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** JSON whose whole numbers are exact: those beyond what a number of this language holds become texts. */
export function parseExact(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const exact = (token: string) =>
    /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token;
  return JSON.parse(text.replace(TOKENS, exact));
}

export async function runSql(profile: string, sql: string, limit: number, signal?: AbortSignal): Promise<SqlAnswer> {
  const init: RequestInit = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ profile, sql, limit }),
  };
  if (signal) init.signal = signal;
  const response = await request("api/v1/sql", init);
  const answer = parseExact(await response.text()) as Partial<SqlAnswer>;
  return { columns: answer.columns ?? [], rows: answer.rows ?? [], truncated: answer.truncated === true };
}

/** The rows as objects, by the names of the columns. */
export function objects(answer: SqlAnswer): Record<string, unknown>[] {
  return answer.rows.map((row) => Object.fromEntries(answer.columns.map((column, i) => [column.name, row[i]])));
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/** RFC 4180; an empty field is NULL. */
export function csvOf(answer: SqlAnswer): string {
  const lines = [answer.columns.map((column) => cell(column.name)), ...answer.rows.map((row) => row.map(cell))];
  return `${lines.map((line) => line.join(",")).join("\r\n")}\r\n`;
}
