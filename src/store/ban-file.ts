import { randomBytes } from 'node:crypto';
import { join, resolve } from 'node:path';
import * as z from 'zod/mini';
import { describeIssues, says } from '../contract/issues.ts';
import { tryParseJson } from '../contract/json.ts';
import { fileError, StoreDamagedError } from './errors.ts';
import { type Files, isMissing, readAll, realFiles, replaceFile, withFile } from './files.ts';
import type { Random } from './keys.ts';

const BANS = 'bans.json';

const Bans = z.record(z.string().check(z.regex(/^[0-9a-f]{64}$/, 'is no SHA-256')), z.iso.datetime(), {
  ...says('must be a JSON object'),
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
      const parsed = Bans.safeParse(tryParseJson(text));
      if (!parsed.success) {
        const why = describeIssues(parsed.error);
        throw new StoreDamagedError(`${path} is damaged: ${why}`, 'remove that file: the bans are forgotten');
      }
      return new Map(Object.entries(parsed.data).map(([sha256, until]) => [sha256, Date.parse(until)]));
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
      const buffer = Buffer.alloc(await file.size());
      return buffer.toString('utf8', 0, await readAll(file, buffer, 0));
    });
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw fileError(error, `read ${path}`);
  }
}
