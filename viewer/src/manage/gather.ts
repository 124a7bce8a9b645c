// Files that a user picks or drops, folders with all that is in them, and what they are for an upload.

export interface Picked {
  file: File;
  /** With the folders in front of it. */
  path: string;
  /** Source text for the Code Viewer. */
  source: boolean;
}

const FILES_MAX = 4095;

export const KINDS = ["Profile", "Program", "System trace", "Table", "Manifest", "Source", "Other"] as const;
export type FileKind = (typeof KINDS)[number];

const ENDINGS: [string, FileKind][] = [
  [".ntff", "Profile"],
  [".neff", "Program"],
  ["ntrace.pb", "System trace"],
  ["trace_info.pb", "System trace"],
  ["cpu_util.pb", "System trace"],
  ["host_mem.pb", "System trace"],
  ["trace.json", "System trace"],
  [".parquet", "Table"],
  ["manifest.pb", "Manifest"],
];

export function kindOf({ path, source }: Pick<Picked, "path" | "source">): FileKind {
  if (source) return "Source";
  return ENDINGS.find(([end]) => path.endsWith(end))?.[1] ?? "Other";
}

export function isHidden(path: string): boolean {
  return path.split("/").some((part) => part.startsWith("."));
}

/** Why these cannot be uploaded; null: they can. */
export function whyNot(files: Picked[]): string | null {
  if (files.length === 0) return "Choose files or a folder.";
  if (files.length > FILES_MAX) return `An upload has at most ${FILES_MAX} files; these are ${files.length}.`;
  const kinds = new Set(files.map(kindOf));
  const trace = files.some(({ path, source }) => !source && path.endsWith("ntrace.pb"));
  if (!kinds.has("Profile") && !kinds.has("Table") && !kinds.has("Manifest") && !trace)
    return "There is nothing to make a profile of: no .ntff, no ntrace.pb, no .parquet.";
  return null;
}

/** Those of the list, and the new ones; a path that comes again replaces the former. */
export function joined(files: Picked[], more: Picked[]): Picked[] {
  const key = ({ path, source }: Picked) => `${source}/${path}`;
  const all = new Map([...files, ...more].map((file) => [key(file), file]));
  return [...all.values()].filter(({ path }) => !isHidden(path)).sort((a, b) => (a.path < b.path ? -1 : 1));
}

export function pickedFiles(list: FileList | null, source: boolean): Picked[] {
  return [...(list ?? [])].map((file) => ({ file, path: file.webkitRelativePath || file.name, source }));
}

function readEntries(reader: FileSystemDirectoryReader): Promise<FileSystemEntry[]> {
  return new Promise((resolve, reject) => reader.readEntries(resolve, reject));
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}

/** All files below an entry; a browser gives the contents of a folder in parts. */
async function below(entry: FileSystemEntry, source: boolean, found: Picked[]): Promise<void> {
  const path = entry.fullPath.replace(/^\//, "");
  if (isHidden(path) || found.length > FILES_MAX) return;
  if (entry.isFile) {
    found.push({ file: await fileOf(entry as FileSystemFileEntry), path, source });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (let part = await readEntries(reader); part.length > 0; part = await readEntries(reader))
    for (const child of part) await below(child, source, found);
}

export async function droppedFiles(transfer: DataTransfer, source: boolean): Promise<Picked[]> {
  // The list of items is empty after the first pause.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const found: Picked[] = [];
  for (const entry of entries) await below(entry, source, found);
  return found.length > 0 ? found : pickedFiles(transfer.files, source);
}
