// Files and folders to the server: what is picked, and how it goes on until the profiles are there.

import { useRef, useState } from "preact/hooks";
import { profileAddress } from "../state/route";
import { useStore } from "../state/store";
import { bytesText } from "../timeline/scale";
import { Dialog } from "../ui/Dialog";
import { opened } from "./archive";
import { droppedFiles, joined, kindOf, type Picked, pickedFiles, whyNot } from "./gather";
import { isReady } from "./list";
import { State } from "./ProfileTable";
import { startUpload, type Upload, type UploadState } from "./upload";

const SHOWN_MAX = 200;

interface DropProps {
  title: string;
  hint: string;
  source: boolean;
  onFiles(files: Picked[]): Promise<void>;
}

function DropZone({ title, hint, source, onFiles }: DropProps) {
  const [over, setOver] = useState(false);
  const files = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);
  /** At once: whoever picks a folder before the next frame was refused. */
  const keepFolder = (input: HTMLInputElement | null) => {
    if (input) input.webkitdirectory = true;
    folder.current = input;
  };
  const take = (input: HTMLInputElement) => {
    void onFiles(pickedFiles(input.files, source));
    input.value = "";
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (event.dataTransfer) void droppedFiles(event.dataTransfer, source).then(onFiles);
  };
  const onDrag = (event: DragEvent) => {
    event.preventDefault();
    setOver(event.type === "dragover");
  };
  return (
    <section
      class={over ? "drop over" : "drop"}
      aria-label={title}
      onDragOver={onDrag}
      onDragLeave={onDrag}
      onDrop={onDrop}
    >
      <h3>{title}</h3>
      <p class="muted">{hint}</p>
      <p>
        <button type="button" onClick={() => files.current?.click()}>
          Choose files
        </button>{" "}
        <button type="button" onClick={() => folder.current?.click()}>
          Choose a folder
        </button>
      </p>
      <input
        ref={files}
        type="file"
        multiple
        hidden
        aria-label={`${title}: files`}
        onChange={(event) => take(event.currentTarget)}
      />
      <input
        ref={keepFolder}
        type="file"
        multiple
        hidden
        aria-label={`${title}: folder`}
        onChange={(event) => take(event.currentTarget)}
      />
    </section>
  );
}

function PickedTable({ files, onRemove }: { files: Picked[]; onRemove(file: Picked): void }) {
  return (
    <div class="scroll file-list">
      <table class="results">
        <thead>
          <tr>
            <th scope="col">File</th>
            <th scope="col">Kind</th>
            <th scope="col" class="number">
              Size
            </th>
            <th scope="col">
              <span class="off-screen">Remove</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {files.slice(0, SHOWN_MAX).map((file) => (
            <tr key={`${file.source}/${file.path}`}>
              <td class="path">{file.path}</td>
              <td>{kindOf(file)}</td>
              <td class="number">{bytesText(file.file.size)}</td>
              <td>
                <button type="button" class="tiny" aria-label={`Remove ${file.path}`} onClick={() => onRemove(file)}>
                  ✕
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {files.length > SHOWN_MAX && <p class="muted">and {files.length - SHOWN_MAX} more</p>}
    </div>
  );
}

interface DialogProps {
  onStarted(upload: Upload): void;
  onClose(): void;
}

export function UploadDialog({ onStarted, onClose }: DialogProps) {
  const [name, setName] = useState("");
  const [files, setFiles] = useState<Picked[]>([]);
  const why = whyNot(files);
  const bytes = files.reduce((sum, { file }) => sum + file.size, 0);
  const [troubles, setTroubles] = useState<string[]>([]);
  const add = async (more: Picked[]) => {
    const now = await opened(more);
    setTroubles(now.troubles);
    setFiles((before) => joined(before, now.files));
  };
  const onSubmit = (event: Event) => {
    event.preventDefault();
    if (!why) onStarted(startUpload(name.trim(), files));
  };
  return (
    <Dialog title="Upload" onClose={onClose}>
      <form class="ask upload" onSubmit={onSubmit}>
        <label>
          Name
          <input
            type="text"
            maxLength={100}
            placeholder="stands in front of the profiles' names"
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <div class="drops">
          <DropZone
            title="Capture"
            hint="Drop files or a folder here: .ntff with their .neff, a session with its system trace, a capture with manifest.pb, or tables (.parquet) that are ready."
            source={false}
            onFiles={add}
          />
          <DropZone
            title="Source Code"
            hint="Source files of the model and of NKI kernels, or a .tar.gz of them, for the Code Viewer. Not needed."
            source={true}
            onFiles={add}
          />
        </div>
        {troubles.map((trouble) => (
          <p key={trouble} class="error" role="alert">
            {trouble}
          </p>
        ))}
        {files.length > 0 && (
          <PickedTable files={files} onRemove={(gone) => setFiles(files.filter((file) => file !== gone))} />
        )}
        <footer>
          <span class={files.length > 0 && why ? "error" : "muted"}>
            {why ?? `${files.length} ${files.length === 1 ? "file" : "files"}, ${bytesText(bytes)}`}
          </span>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={why !== null}>
            Upload
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function phaseText({ phase, sent, bytes, files, error, profiles }: UploadState): string {
  const ready = profiles.filter(isReady).length;
  switch (phase) {
    case "sending":
      return `uploading ${files.length} ${files.length === 1 ? "file" : "files"}, ${bytesText(sent)} of ${bytesText(bytes)}`;
    case "storing":
      return "entering the store";
    case "processing":
      return `processing, ${ready} of ${profiles.length} ready`;
    case "done":
      return ready === profiles.length ? "ready" : `${profiles.length - ready} of ${profiles.length} failed`;
    case "cancelled":
      return "cancelled; nothing is left of it on the server";
    case "failed":
      return `failed: ${error}`;
  }
}

function FileProgress({ state }: { state: UploadState }) {
  return (
    <div class="scroll file-list">
      <table class="results">
        <tbody>
          {state.files.slice(0, SHOWN_MAX).map((file) => (
            <tr key={`${file.source}/${file.path}`}>
              <td class="path">{file.path}</td>
              <td>
                <progress
                  aria-label={`Progress of ${file.path}`}
                  value={file.file.size === 0 ? (file.error ? 0 : 1) : file.sent / file.file.size}
                />
              </td>
              <td>{file.error && <span class="error">{file.error}</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** An upload of this page, on its way or done. */
export function UploadCard({ upload, onDismiss }: { upload: Upload; onDismiss(): void }) {
  const state = useStore(upload.state);
  const { phase, bytes, sent, profiles, ignored } = state;
  const going = phase === "sending" || phase === "storing";
  return (
    <section class="upload-card" aria-label={`Upload ${state.name || "without a name"}`}>
      <header>
        <strong>{state.name || "Upload"}</strong>
        <span class={phase === "failed" ? "error" : "muted"} role="status">
          {phaseText(state)}
        </span>
        <span class="space" />
        {phase === "sending" && (
          <button type="button" onClick={() => upload.cancel()}>
            Cancel upload
          </button>
        )}
        {!going && (
          <button type="button" class="tiny" aria-label="Dismiss" onClick={onDismiss}>
            ✕
          </button>
        )}
      </header>
      {going && <progress aria-label="Progress of the upload" value={bytes === 0 ? 0 : sent / bytes} />}
      {(phase === "sending" || (phase === "failed" && profiles.length === 0)) && <FileProgress state={state} />}
      {profiles.length > 0 && (
        <ul class="outcomes">
          {profiles.map((row) => (
            <li key={row.name}>
              {isReady(row) ? <a href={profileAddress(row.name)}>{row.name}</a> : row.name} <State row={row} />
            </li>
          ))}
        </ul>
      )}
      {ignored.length > 0 && (
        <p class="muted">
          Not needed: {ignored.slice(0, 5).join(", ")}
          {ignored.length > 5 && ` and ${ignored.length - 5} more`}
        </p>
      )}
    </section>
  );
}
