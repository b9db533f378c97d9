import { usageError } from '../errors/errors.ts';
import type { Command, CommandGroup } from '../program/command.ts';

type Options = { shell: Shell; words: readonly string[] };

const shells = ['bash', 'zsh', 'fish', 'powershell'] as const;
type Shell = (typeof shells)[number];

/** @param commands returns all commands, including this one */
export const completion = (commands: () => readonly (Command<never> | CommandGroup)[]): Command<Options> => ({
  name: 'completion',
  summary: 'print a shell completion script',
  examples: ['pets completion bash', 'pets completion fish > ~/.config/fish/completions/pets.fish'],
  arguments: [
    {
      name: '<shell>',
      description: 'shell to print the script for; its first lines explain how to install it',
      choices: shells,
    },
    {
      name: '[words...]',
      description: 'words of a command line to complete, after `--` (used by the scripts)',
    },
  ],
  async run({ shell, words }, { argv, console }) {
    if (argv.includes('--')) {
      const { complete, formatCandidates } = await import('../completion/complete.ts');
      const { completionSpec } = await import('../completion/spec.ts');
      await console.write(formatCandidates(complete(completionSpec(commands()), words)));
      return;
    }
    if (words.length > 0)
      throw usageError('completion accepts only one shell', `for example: pets completion ${shell}`);
    const { scripts } = await import('../completion/scripts.ts');
    await console.write(scripts[shell]);
  },
});
