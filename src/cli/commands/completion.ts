import type { CompletionSpec } from '../completion/complete.ts';
import { usageError } from '../core/errors.ts';
import type { Command, CommandContext, CommandGroup } from '../program/command.ts';
import { globalOptions, optionsOf } from '../program/declare.ts';
import { groupsOf } from '../program/help.ts';
import { topics } from './help.ts';

type Options = { shell: Shell; words: readonly string[] };

const shells = ['bash', 'zsh', 'fish', 'powershell'] as const;
type Shell = (typeof shells)[number];

export const completion: Command<Options> = {
  name: 'completion',
  summary: 'print a shell completion script',
  examples: ['pets completion bash', 'pets completion fish | source'],
  arguments: [
    { name: '<shell>', description: 'shell to print a script for', choices: shells },
    // The completion scripts pass the words to complete after `--`.
    { name: '[words...]', usage: '', description: '' },
  ],
  notes: 'The first lines of the script explain how to install it.',
  prints: 'text',
  async run({ shell, words }, { argv, console, commands }) {
    if (argv.includes('--')) {
      const { complete, formatCandidates } = await import('../completion/complete.ts');
      await console.write(formatCandidates(complete(completionSpec(commands), words)));
    } else {
      if (words.length > 0)
        throw usageError('too many arguments for pets completion', `for example: pets completion ${shell}`);
      const { scripts } = await import('../completion/scripts.ts');
      await console.write(scripts[shell]);
    }
    return undefined;
  },
};

type Commands = CommandContext['commands'];

/** What Tab can complete: commands with their arguments and options, the pages of `help`, and global options. */
export function completionSpec(commands: Commands): CompletionSpec {
  const pages = [...commands.map(pageOf), ...Object.keys(topics).map((name) => ({ name, summary: '' }))];
  const specs = commands.map((entry) =>
    entry.name === 'help' ? { name: entry.name, summary: entry.summary, commands: pages } : specOf(entry),
  );
  return { name: 'pets', summary: '', options: globalOptions, commands: specs };
}

const specOf = (entry: Command | CommandGroup): CompletionSpec => {
  const { name, summary } = entry;
  if ('commands' in entry) return { name, summary, commands: entry.commands.map(specOf) };
  const options = optionsOf(entry).filter((option) => !globalOptions.includes(option));
  return { name, summary, arguments: entry.arguments ?? [], options };
};

/** A command as an argument of `pets help`, with its subcommands or the groups of its options. */
function pageOf(entry: Command | CommandGroup): CompletionSpec {
  const { name, summary } = entry;
  if ('commands' in entry) return { name, summary, commands: entry.commands.map(pageOf) };
  const groups = [...groupsOf(entry).keys()].map((group) => ({ name: group, summary: '' }));
  return groups.length > 0 ? { name, summary, commands: groups } : { name, summary };
}
