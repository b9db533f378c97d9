import { readBundledText } from '../system/bundled-files.ts';
import { type CompletionSpec, completionText } from './completion/complete.ts';

/** Output rendered at build time (.config/prerender.ts), stored as prerendered.json next to the built program. */
export type Prerendered = {
  /** Each command line in `arguments`, in the form that `argvKey` returns, prints `text`. */
  pages: readonly { arguments: readonly string[]; text: string }[];
  completion: CompletionSpec;
};

/** Joins arguments, each followed by a character that no argument can contain. */
export const argvKey = (argv: readonly string[]): string => argv.map((argument) => `${argument}\0`).join('');

/**
 * Prints the version, a help page, a completion script or completion candidates without loading the program.
 *
 * @returns false if the program has to run, for example because the output was not prerendered
 */
export function tryFastPath(argv: readonly string[], directory: string): boolean {
  // A very old Node could not import `node:fs`. It must get as far as the check of its version in bin/pets.ts.
  const fs = process.getBuiltinModule?.('node:fs');
  if (fs === undefined) return false;
  try {
    const prerendered: Prerendered = JSON.parse(readBundledText(directory, 'prerendered.json'));
    const text = pageFor(prerendered, argv) ?? completionFor(prerendered, argv);
    // On Windows, only `process.stdout` writes non-ASCII characters to a terminal correctly.
    if (text === undefined || (process.platform === 'win32' && fs.fstatSync(1).isCharacterDevice()))
      return false;
    fs.writeFileSync(1, text);
    return true;
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
  return completionText(prerendered.completion, argv.slice(3));
}
