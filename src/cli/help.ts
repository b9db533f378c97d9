import type { Command as Commander } from 'commander';
import { usageError } from './cli-error.ts';
import { environmentVariables } from './environment.ts';
import { exitCodeMeanings } from './exit-codes.ts';

type Example = readonly [command: string, what: string];

/** What each kind of user types first. */
const examples: readonly (readonly [who: string, examples: readonly Example[]])[] = [
  [
    'In the shop',
    [
      ['pets login', "save the key of the store's service, once"],
      ['pets list --status available', 'what can be sold today'],
      ['pets add Rex --category 3', 'a new animal'],
    ],
  ],
  [
    'In a script',
    [
      ['pets list --all --json | jq length', 'one document, exact digits'],
      ['pets add --from animals.csv', 'many animals, each exactly once'],
      ['pets help exit-codes', 'what a script can rely on'],
    ],
  ],
  [
    'On your own machine',
    [
      ['pets serve --seed', 'the whole service, with sample animals'],
      ['pets --profile local list', 'and, in another terminal, its animals'],
      ['pets serve -- npm test', 'a test suite against a service of its own'],
    ],
  ],
];

/** The longest command and two spaces. */
const COMMAND_COLUMNS = 36;

/** What stands above the list of commands, for a terminal of this width. */
export function overview(columns: number): string {
  const line = ([command, what]: Example) => {
    const inOne = `  ${command.padEnd(COMMAND_COLUMNS)}${what}`;
    return inOne.length <= columns ? inOne : `  ${command}\n      ${what}`;
  };
  const groups = examples.map(([who, lines]) => `${who}:\n${lines.map(line).join('\n')}\n`);
  return `The inventory of a pet store, from the command line; and its whole service for local work.\n\n${groups.join('\n')}`;
}

export const afterwards = `Help:
  pets help <command>       examples and options of a command
  pets help exit-codes      what each exit code means
  pets help environment     the environment variables
`;

/** What `pets help` has besides commands, each with its page. */
export const topics: Readonly<Record<string, () => string>> = {
  'exit-codes': () =>
    exitCodeMeanings.map(([code, meaning]) => `${String(code).padStart(3)}  ${meaning}\n`).join(''),
  environment: () => environmentVariables.map(([name, meaning]) => `${name}\n    ${meaning}\n`).join(''),
};

/** `pets help`: a command's page, or that of a topic. */
export function addHelpCommand(help: Commander, program: Commander, show: (text: string) => void): void {
  help
    .summary(`show help for a command, or on ${Object.keys(topics).join(' or ')}`)
    .action((names: string[]) => {
      const topic = topics[names.join(' ')];
      if (topic === undefined) commandAt(program, names).outputHelp();
      else show(topic());
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
