import { randomBytes } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { type FileSystem, isMissing, type OpenFile } from './file-system.ts';

const PART_BYTES = 2 ** 16;

/** Writes all of `buffer` at `position`, repeating short writes. */
export async function writeFully(file: OpenFile, buffer: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < buffer.length; ) {
    const written = await file.write(buffer, done, buffer.length - done, position + done);
    if (written <= 0) throw new Error('the file system wrote 0 bytes');
    done += written;
  }
}

/** Reads until `buffer` is full or the file ends. Returns the number of bytes read. */
export async function readFully(file: OpenFile, buffer: Uint8Array, position: number): Promise<number> {
  let done = 0;
  while (done < buffer.length) {
    const read = await file.read(buffer, done, buffer.length - done, position + done);
    if (read <= 0) break;
    done += read;
  }
  return done;
}

/** Calls `use` with the file and closes the file afterwards, also if `use` throws. */
export async function withFile<T>(file: OpenFile, use: (file: OpenFile) => Promise<T>): Promise<T> {
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}

/** Reads the bytes from `start` to `end`. Each part is valid until the next one is read. */
export async function* readParts(file: OpenFile, start: number, end: number): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafeSlow(PART_BYTES);
  for (let position = start; position < end; ) {
    const read = await readFully(file, buffer.subarray(0, Math.min(PART_BYTES, end - position)), position);
    if (read === 0) return;
    yield buffer.subarray(0, read);
    position += read;
  }
}

/** Reads a file, or only its first `maxBytes` bytes. Undefined if the file does not exist. */
export async function readBytes(
  fileSystem: FileSystem,
  path: string,
  maxBytes = Number.POSITIVE_INFINITY,
): Promise<Buffer | undefined> {
  const file = await fileSystem.open(path, 'read').catch((error) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  return (
    file &&
    withFile(file, async () => {
      const buffer = Buffer.alloc(Math.min((await file.stat()).size, maxBytes));
      return buffer.subarray(0, await readFully(file, buffer, 0));
    })
  );
}

/** Like `readBytes`, for UTF-8 text. */
export const readTextFile = async (...args: Parameters<typeof readBytes>): Promise<string | undefined> =>
  (await readBytes(...args))?.toString('utf8');

/** Creates a file with mode 0600 and syncs its contents, but not its name. Fails with EEXIST if the name is taken. */
export async function createFile(
  fileSystem: FileSystem,
  path: string,
  parts: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  await withFile(await fileSystem.open(path, 'create'), (file) => writeAndSync(file, parts));
}

/** Writes the parts from the start of the file, and syncs them. */
export async function writeAndSync(
  file: OpenFile,
  parts: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  let position = 0;
  for await (const part of parts) {
    await writeFully(file, part, position);
    position += part.length;
  }
  await file.datasync();
}

/**
 * Creates or replaces a file atomically and durably. After a crash, the file has either its old contents or all of its
 * new contents. A crash can leave a temporary file with a name for which `isTemporaryName` is true.
 */
export async function replaceFile(
  fileSystem: FileSystem,
  path: string,
  parts: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  const temporary = join(dirname(path), temporaryName(basename(path)));
  try {
    await createFile(fileSystem, temporary, parts);
    await fileSystem.rename(temporary, path);
  } catch (error) {
    await fileSystem.unlink(temporary).catch(() => {});
    throw error;
  }
  await fileSystem.syncDirectory(dirname(path));
}

/** A unique name for a temporary file that will become `name`, which can be a path. */
export const temporaryName = (name: string): string => `${name}.new-${randomBytes(8).toString('hex')}`;

/** Whether the name was made by `temporaryName`. */
export const isTemporaryName = (name: string): boolean => /\.new-[0-9a-f]+$/.test(name);

/** Deletes a file if it exists. */
export async function removeFile(fileSystem: FileSystem, path: string): Promise<void> {
  await fileSystem.unlink(path).catch((error) => {
    if (!isMissing(error)) throw error;
  });
}
