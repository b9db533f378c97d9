import type { CompletionSpec } from '../completion/complete.ts';
import { usageError } from '../core/errors.ts';
import type { Command, CommandContext, CommandGroup } from '../program/command.ts';
import { globalOptions, optionsOf } from '../program/declare.ts';
import { topics } from '../program/help.ts';
import { findStoreLocation } from '../serve/store-location.ts';

type Options = { shell: Shell; words: readonly string[] };

const shells = ['bash', 'zsh', 'fish', 'powershell'] as const;
type Shell = (typeof shells)[number];

export const completion: Command<Options> = {
  name: 'completion',
  summary: 'print a shell completion script',
  examples: ['pets completion bash', 'pets completion fish | source'],
  arguments: [
    { name: '<shell>', description: 'shell to print a script for', choices: shells },
    {
      name: '[words...]',
      description: 'used by the completion scripts: the words to complete, after `--`',
      isHidden: true,
    },
  ],
  notes: 'The first lines of the script explain how to install it.',
  prints: 'text',
  async run({ shell, words }, context) {
    const { argv, console, commands } = context;
    if (argv.includes('--')) {
      const { complete, formatCandidates } = await import('../completion/complete.ts');
      const candidates = complete(completionSpec(commands), words);
      const found = candidates.kind === 'keys' ? { words: await keysLike(words, context) } : candidates;
      await console.write(formatCandidates(found));
      return;
    }
    if (words.length > 0)
      throw usageError('completion accepts only one shell', `for example: pets completion ${shell}`);
    const { scripts } = await import('../completion/scripts.ts');
    await console.write(scripts[shell]);
  },
};

/**
 * The names of API keys that complete the last word. The keys are those of the store of `--data` in the words or of
 * PETS_DATA, or of the default store. There are none if the store cannot be read.
 */
async function keysLike(words: readonly string[], context: CommandContext) {
  const option = words.findLastIndex((word) => /^--data(=|$)/.test(word));
  const data = words[option]?.includes('=') ? words[option].slice('--data='.length) : words[option + 1];
  try {
    const location = await findStoreLocation(option < 0 ? undefined : data, context);
    const names = await location.manageKeys((keys) => keys.names());
    return names.filter((name) => name.startsWith(words.at(-1) ?? '')).map((value) => ({ value }));
  } catch {
    return [];
  }
}

/** What Tab can complete: commands with their arguments and options, `help`, and global options. */
export function completionSpec(commands: CommandContext['commands']): CompletionSpec {
  const helpTopics = Object.keys(topics).map((name) => ({ name, summary: '' }));
  const help = { name: 'help', summary: 'show help', commands: [...namesIn(commands), ...helpTopics] };
  return { name: 'pets', summary: '', options: globalOptions, commands: [...commands.map(specOf), help] };
}

const specOf = (entry: Command | CommandGroup): CompletionSpec => {
  const { name, summary } = entry;
  if ('commands' in entry) return { name, summary, commands: entry.commands.map(specOf) };
  return {
    name,
    summary,
    arguments: entry.arguments ?? [],
    options: optionsOf(entry).filter((option) => !globalOptions.includes(option)),
  };
};

/** The commands as arguments of `pets help`, which does not accept their options. */
const namesIn = (commands: readonly CompletionSpec[]): CompletionSpec[] =>
  commands.map(({ name, summary, commands: inner }) => ({
    name,
    summary,
    ...(inner && { commands: namesIn(inner) }),
  }));
