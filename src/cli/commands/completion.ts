import type { Command, CommandGroup } from '../command.ts';
import { usageError } from '../errors/cli-error.ts';
import { exitCodes } from '../errors/exit-codes.ts';

type Options = { shell: Shell; words: readonly string[] };

const shells = ['bash', 'zsh', 'fish', 'powershell'] as const;
type Shell = (typeof shells)[number];

/** @param commands all commands, this one too */
export const completion = (commands: () => readonly (Command<never> | CommandGroup)[]): Command<Options> => ({
  name: 'completion',
  summary: 'print the script that completes commands, options and values on Tab',
  examples: ['pets completion bash', 'pets completion fish > ~/.config/fish/completions/pets.fish'],
  arguments: [
    {
      name: '<shell>',
      description: 'the shell, whose script says in its first lines how to install it',
      choices: shells,
    },
    {
      name: '[words...]',
      description: 'behind --: show what completes the last of them; the script asks so',
    },
  ],
  async run({ shell, words }, { context, console }) {
    if (context.argv.includes('--')) {
      const { complete, offerText } = await import('../completion/complete.ts');
      const { completionTable } = await import('../completion/table.ts');
      await console.write(offerText(complete(completionTable(commands()), words)));
      return exitCodes.ok;
    }
    if (words.length > 0) throw usageError('completion takes one shell', `as in: pets completion ${shell}`);
    const { scripts } = await import('../completion/scripts/index.ts');
    await console.write(scripts[shell]);
    return exitCodes.ok;
  },
});
