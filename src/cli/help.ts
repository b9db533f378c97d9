import type { Command as Commander } from 'commander';
import { usageError } from './cli-error.ts';
import { exitCodeMeanings } from './exit-codes.ts';

/** What stands below the list of commands. */
export const overview = `Examples:
  pets list --status available          what can be sold today
  pets add Rex --category 3             a new animal
  pets list --all --json | jq length    for a script
  pets serve --seed                     the service on this machine, with sample animals

First steps:
  pets login                            save the key of the store's service
  pets help exit-codes                  what a script can rely on
`;

/** `pets help`: a command's page, or a topic that no command has. */
export function addHelpCommand(help: Commander, program: Commander, show: (text: string) => void): void {
  help.summary('show help for a command, or exit-codes').action((topics: string[]) => {
    if (topics[0] === 'exit-codes') {
      show(exitCodeMeanings.map(([code, meaning]) => `${String(code).padStart(3)}  ${meaning}\n`).join(''));
      return;
    }
    commandAt(program, topics).outputHelp();
  });
}

/** The command of these names: `keys`, `add`. @throws CliError where there is none */
function commandAt(program: Commander, names: readonly string[]): Commander {
  let command = program;
  for (const name of names) {
    const next = command.commands.find((child) => child.name() === name);
    if (next === undefined) throw usageError(`there is no help for ${names.join(' ')}`, 'see: pets help');
    command = next;
  }
  return command;
}
