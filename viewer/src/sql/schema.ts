// Tables and columns of a profile, as its own tables describe them.

import { objects, runSql } from "../api/sql";

export interface SchemaColumn {
  name: string;
  type: string;
  unit: string;
  means: string;
}

export interface SchemaTable {
  name: string;
  means: string;
  columns: SchemaColumn[];
}

const COLUMNS_SQL = `select table_name, column_name, data_type
from information_schema.columns
order by table_name, ordinal_position`;

const MEANING_SQL = `select table_name, table_description, field_name, field_description, field_unit
from SchemaFields`;

const LIMIT = 10_000;

const text = (value: unknown) => (typeof value === "string" ? value : "");

/** Vendors' directories may have no SchemaFields: then the names must do. */
async function meanings(profile: string, signal: AbortSignal): Promise<Map<string, Record<string, unknown>>> {
  try {
    const answer = await runSql(profile, MEANING_SQL, LIMIT, signal);
    return new Map(objects(answer).map((row) => [`${row.table_name}.${row.field_name}`, row]));
  } catch (error) {
    if (signal.aborted) throw error;
    return new Map();
  }
}

export async function schemaOf(profile: string, signal: AbortSignal): Promise<SchemaTable[]> {
  const columns = objects(await runSql(profile, COLUMNS_SQL, LIMIT, signal));
  const known = columns.some((row) => row.table_name === "SchemaFields") ? await meanings(profile, signal) : new Map();
  const tables = new Map<string, SchemaTable>();
  for (const row of columns) {
    const name = text(row.table_name);
    const told = known.get(`${name}.${text(row.column_name)}`);
    const table = tables.get(name) ?? { name, means: "", columns: [] };
    table.means ||= text(told?.table_description);
    const { column_name, data_type } = row;
    table.columns.push({
      name: text(column_name),
      type: text(data_type),
      unit: text(told?.field_unit),
      means: text(told?.field_description),
    });
    tables.set(name, table);
  }
  return [...tables.values()];
}
