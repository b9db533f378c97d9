import type { Context } from '../context.ts';
import { shellWords } from '../output/shell-words.ts';

type Typed = Pick<Context, 'argv' | 'platform'>;

/** The command that was typed, but for what would begin anew. */
export const goOnCommand = ({ argv, platform }: Typed): string =>
  shellWords(['pets', ...without(argv, ['--restart'])], platform);

/** The command that was typed, so that of a file that was changed it adds what is not added yet. */
export const skipCommand = ({ argv, platform }: Typed): string =>
  shellWords(
    ['pets', ...without(argv, ['--restart', '--dry-run', '--skip-added']), '--skip-added'],
    platform,
  );

const without = (argv: readonly string[], options: readonly string[]) =>
  argv.filter((word) => !options.includes(word));
