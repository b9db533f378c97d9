import { randomBytes } from 'node:crypto';
import { join, resolve } from 'node:path';
import * as z from 'zod/mini';
import { fileError, StoreDamagedError } from './errors.ts';
import { type Files, isMissing, readAll, realFiles, replaceFile, withFile } from './files.ts';
import type { Random } from './keys.ts';
import { Instant, readStored, Sha256 } from './stored-json.ts';

const BANS = 'bans.json';

const Bans = z.record(Sha256, Instant, {
  error: ({ code }) => (code === 'invalid_key' ? 'is not a SHA-256' : 'must be a JSON object'),
});

/** The banned keys by their SHA-256 (hexadecimal), and until when: milliseconds since the epoch. */
export type Bans = ReadonlyMap<string, number>;

/** Where the bans outlive the server (design D9). */
export interface BanFile {
  /** @throws StoreError where the file cannot be read, or is damaged */
  load(): Promise<Bans>;
  /** Durable once it is done. @throws StoreError */
  save(bans: Bans): Promise<void>;
}

/** The bans of the store in `directory`: one readable file, written by its server alone. */
export function openBanFile(
  directory: string,
  { files = realFiles, random = randomBytes }: { files?: Files; random?: Random } = {},
): BanFile {
  const path = join(resolve(directory), BANS);
  return {
    async load() {
      const text = await readText(files, path);
      if (text === undefined) return new Map();
      const stored = readStored(Bans, text);
      if ('why' in stored) {
        const message = `${path} is damaged: ${stored.why}`;
        throw new StoreDamagedError(message, 'remove that file: the bans are forgotten');
      }
      return new Map(Object.entries(stored.data).map(([sha256, until]) => [sha256, Date.parse(until)]));
    },
    async save(bans) {
      const entries = [...bans].map(([sha256, until]) => [sha256, new Date(until).toISOString()]);
      const text = `${JSON.stringify(Object.fromEntries(entries), undefined, 2)}\n`;
      const temporary = `bans.new-${Buffer.from(random(8)).toString('hex')}`;
      try {
        await replaceFile(files, path, temporary, [Buffer.from(text)]);
      } catch (error) {
        throw fileError(error, `write ${path}`);
      }
    },
  };
}

async function readText(files: Files, path: string): Promise<string | undefined> {
  try {
    return await withFile(await files.open(path, 'read'), async (file) => {
      const buffer = Buffer.alloc((await file.status()).size);
      return buffer.toString('utf8', 0, await readAll(file, buffer, 0));
    });
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw fileError(error, `read ${path}`);
  }
}
