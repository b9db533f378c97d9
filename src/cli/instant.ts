import { complete, offerText } from './completion/complete.ts';
import type { Completable } from './completion/table.ts';

/** What the build has asked the program already (.config/answers.ts); it stands in a file beside the entry. */
export type Answers = {
  /** The text that the program prints for each of these arguments, as `keyOf` joins them. */
  pages: readonly { arguments: readonly string[]; text: string }[];
  completion: Completable;
};

/** Each argument with a character behind it that none can hold. */
export const keyOf = (argv: readonly string[]): string => argv.map((argument) => `${argument}\0`).join('');

/** Narrower terminals have pages of their own. */
const PAGE_COLUMNS = 80;

/** Milliseconds until a full pipe, which somebody else has set not to block, is tried again. */
const RETRY_MS = 5;

/**
 * Prints the version, a page of help, or what completes a line, without loading the program.
 *
 * @returns false where the program has to answer: there are no answers (as from source), or it is another question
 */
export function answerAtOnce(argv: readonly string[], directory: string): boolean {
  // An import of it would take longer than everything else here.
  const fs = process.getBuiltinModule?.('node:fs');
  if (fs === undefined) return false;
  try {
    const answers: Answers = JSON.parse(fs.readFileSync(`${directory}/answers.json`, 'utf8'));
    const text = pageOf(answers, argv) ?? completionOf(answers, argv);
    return text !== undefined && print(fs, text);
  } catch {
    // Where its own output fails, the program says so.
    return false;
  }
}

function pageOf({ pages }: Answers, argv: readonly string[]): string | undefined {
  const key = keyOf(argv);
  return pages.find((page) => page.arguments.includes(key))?.text;
}

/** `completion <shell> -- <words…>`, where there is a script for that shell. */
function completionOf(answers: Answers, argv: readonly string[]): string | undefined {
  if (argv[0] !== 'completion' || argv[2] !== '--' || pageOf(answers, argv.slice(0, 2)) === undefined) return;
  return offerText(complete(answers.completion, argv.slice(3)));
}

function print(fs: typeof import('node:fs'), text: string): boolean {
  if (fs.fstatSync(1).isCharacterDevice() && process.stdout.isTTY) {
    // The console of Windows takes letters beyond ASCII from the stream alone.
    if (process.stdout.columns < PAGE_COLUMNS || process.platform === 'win32') return false;
  }
  writeAll((bytes) => fs.writeSync(1, bytes), text);
  return true;
}

/**
 * Writes a text as often as it takes.
 *
 * @param write takes as much as it can, and says how many bytes; EAGAIN where a reader has to be waited for
 */
export function writeAll(write: (bytes: Uint8Array) => number, text: string): void {
  for (let left = Buffer.from(text); left.length > 0; ) {
    try {
      left = left.subarray(write(left));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
}
