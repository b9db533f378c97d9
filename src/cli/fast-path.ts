import { readBundledText } from '../system/bundled-files.ts';
import { type CompletionSpec, complete, formatCandidates } from './completion/complete.ts';

/** Output rendered at build time (.config/prerender.ts), stored as prerendered.json next to the built program. */
export type Prerendered = {
  /** `text` is the output of each command line in `arguments`. A command line is stored as `argvKey` returns it. */
  pages: readonly { arguments: readonly string[]; text: string }[];
  completion: CompletionSpec;
};

/** Joins arguments with a character that no argument can contain. */
export const argvKey = (argv: readonly string[]): string => argv.map((argument) => `${argument}\0`).join('');

/** Milliseconds before writing again to a full non-blocking pipe. */
const RETRY_MS = 5;

/**
 * Prints the version, a help page, a completion script or completion candidates without loading the program.
 *
 * @returns false if the program has to run, for example because the output was not prerendered
 */
export function tryFastPath(argv: readonly string[], directory: string): boolean {
  // An import would take longer than the rest of this function.
  const fs = process.getBuiltinModule?.('node:fs');
  if (fs === undefined) return false;
  try {
    const prerendered: Prerendered = JSON.parse(readBundledText(directory, 'prerendered.json'));
    const text = pageFor(prerendered, argv) ?? completionFor(prerendered, argv);
    return text !== undefined && print(fs, text);
  } catch {
    // The program runs instead. If stdout cannot be written, the program reports the error.
    return false;
  }
}

function pageFor({ pages }: Prerendered, argv: readonly string[]): string | undefined {
  const key = argvKey(argv);
  return pages.find((page) => page.arguments.includes(key))?.text;
}

/** The candidates for `completion <shell> -- <words…>`. Undefined for other arguments. */
function completionFor(prerendered: Prerendered, argv: readonly string[]): string | undefined {
  const isCompletion = argv[0] === 'completion' && argv[2] === '--';
  if (!isCompletion || pageFor(prerendered, argv.slice(0, 2)) === undefined) return undefined;
  return formatCandidates(complete(prerendered.completion, argv.slice(3)));
}

function print(fs: typeof import('node:fs'), text: string): boolean {
  // On Windows, only `process.stdout` writes non-ASCII characters to a terminal correctly.
  if (process.platform === 'win32' && fs.fstatSync(1).isCharacterDevice()) return false;
  writeAllSync((bytes) => fs.writeSync(1, bytes), text);
  return true;
}

/**
 * Writes all of the text, repeating short writes and waiting if the pipe is full.
 *
 * @param write returns the number of bytes written; throws EAGAIN if the pipe is full
 */
export function writeAllSync(write: (bytes: Uint8Array) => number, text: string): void {
  for (let left = Buffer.from(text); left.length > 0; ) {
    try {
      left = left.subarray(write(left));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
}
