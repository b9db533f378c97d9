import { completionScripts } from '../completion/scripts.ts';
import { argument, type Command } from '../program/command.ts';

const shells = ['bash', 'zsh', 'fish'] as const;

/** Prints a script. src/cli/fast-path.ts handles the calls of the script, without loading this program. */
export const completion: Command<{ shell: (typeof shells)[number] }> = {
  name: 'completion',
  summary: 'print a shell completion script',
  examples: ['pets completion bash', 'pets completion fish | source'],
  arguments: [argument('<shell>', 'bash, zsh or fish', shells)],
  extraHint: 'for example: pets completion bash',
  notes: 'The first lines of the script explain how to install it.',
  prints: 'text',
  async run({ shell }, { console }) {
    await console.write(completionScripts[shell]);
    return undefined;
  },
};
