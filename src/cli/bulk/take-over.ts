import { join } from 'node:path';
import { type Files, removeFile, withFile, writeAll } from '../../store/files.ts';
import type { OpenOther } from './other-jobs.ts';
import { loadProgress, PROGRESS, type Progress } from './progress-file.ts';
import { type Entry, encodeEntry, encodeHeader, type Header } from './progress-format.ts';
import type { SharedRow } from './shared-rows.ts';

/** What a kill leaves of it has happened to nobody. */
export const NEW_PROGRESS = 'progress.new';

const PART_BYTES = 2 ** 16;

/**
 * Takes rows over from other jobs into the progress of a job, or into one that is begun: as they are known there, and a
 * row in doubt with the key, the time and the API key of its send, so that it can be repeated as that job would. The file
 * is replaced in one step, whole and synced; its name is not yet.
 */
export async function takeOver(
  files: Files,
  directory: string,
  begun: Progress | Omit<Header, 'version'>,
  shared: readonly SharedRow<OpenOther>[],
): Promise<Progress> {
  const [path, temporary] = [join(directory, PROGRESS), join(directory, NEW_PROGRESS)];
  await removeFile(files, temporary);
  await withFile(await files.open(temporary, 'create'), async (file) => {
    let position = 0;
    const write = async (bytes: Uint8Array) => {
      await writeAll(file, bytes, position);
      position += bytes.length;
    };
    if ('file' in begun) for await (const part of begun.file.parts()) await write(part);
    else await write(encodeHeader(begun));
    for await (const part of inParts(takenEntries(shared))) await write(part);
    await file.datasync();
  });
  if ('file' in begun) await begun.file.close();
  await files.rename(temporary, path);
  const progress = await loadProgress(files, path);
  if (!progress) throw new Error(`${path} is gone`);
  return progress;
}

async function* takenEntries(shared: readonly SharedRow<OpenOther>[]): AsyncGenerator<Entry> {
  const readers = new Map<OpenOther, (offset: number) => Promise<Entry>>();
  for (const { row, other, otherRow, origin } of shared) {
    const { file, states } = other.progress;
    const read = readers.get(other) ?? file.reader();
    readers.set(other, read);
    const entry = await read(states.offset(otherRow));
    if (entry.status === 'added' || entry.status === 'unknown' || entry.status === 'sending')
      yield { ...entry, row, origin };
  }
}

async function* inParts(entries: AsyncIterable<Entry>): AsyncGenerator<Buffer> {
  let lines: Buffer[] = [];
  let bytes = 0;
  for await (const entry of entries) {
    const line = encodeEntry(entry);
    lines.push(line);
    bytes += line.length;
    if (bytes < PART_BYTES) continue;
    yield Buffer.concat(lines);
    [lines, bytes] = [[], 0];
  }
  yield Buffer.concat(lines);
}
