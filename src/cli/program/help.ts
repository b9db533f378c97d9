import type { Command as Commander, HelpConfiguration } from 'commander';
import { usageError } from '../errors/cli-error.ts';
import { wrapText } from '../output/wrap.ts';
import { topics } from '../topics.ts';

type Example = readonly [command: string, what: string];

/** What each kind of user types first. */
const examples: readonly (readonly [who: string, examples: readonly Example[]])[] = [
  [
    'In the shop',
    [
      ['pets login', "save the key of the store's service, once"],
      ['pets list --status available', 'what can be sold today'],
      ['pets add Rex --category 3', 'a new animal'],
      ['pets profiles --check', 'what is left of your requests'],
    ],
  ],
  [
    'In a script',
    [
      ['pets list --all --json | jq length', 'one document and nothing else on stdout'],
      ['pets add --from animals.csv', 'many animals, each exactly once'],
      ['pets help exit-codes', 'what a script can rely on'],
    ],
  ],
  [
    'On your own machine',
    [
      ['pets serve --seed', 'the whole service, with sample animals'],
      ['pets --profile local list', 'and, in another terminal, its animals'],
      ['pets serve --ephemeral -- npm test', 'a test suite against a service of its own'],
    ],
  ],
];

/** The longest command and two spaces. */
const TERM_COLUMNS = 37;

/** Below this a description has lines of its own; commander would leave it unwrapped. */
const NARROW = 80;

/** A command or an option and what it does, for a terminal of this width. */
function item(term: string, termColumns: number, description: string, columns: number): string {
  if (columns >= NARROW) return `  ${term.padEnd(termColumns)}${description}`;
  return `  ${term}\n${wrapText(`      ${description}`, columns, 6)}`;
}

/** What stands above the list of commands. */
export function overview(columns: number): string {
  const groups = examples.map(([who, lines]) => {
    const shown = lines.map(([command, what]) => `${item(command, TERM_COLUMNS, what, columns)}\n`);
    return `${who}:\n${shown.join('')}`;
  });
  const what = "A pet store's inventory from the command line, and its whole service locally.";
  return `${wrapText(what, columns, 0)}\n\n${groups.join('\n')}`;
}

/** What `pets` alone says: no more than a small terminal has lines for. */
export function startPage(names: readonly string[], columns: number): string {
  const all = wrapText(`Commands: ${names.join(', ')}`, columns, 2);
  const more = 'pets --help: every command and option; pets help <command>: its examples';
  return `${overview(columns)}\n${all}\n\n${wrapText(more, columns, 0)}\n`;
}

/** What stands below the list of commands. */
export function afterwards(columns: number): string {
  const lines = [
    ['pets help <command>', 'examples and options of a command'],
    ['pets help exit-codes', 'what each exit code means'],
    ['pets help environment', 'the environment variables'],
  ] as const;
  return `Help:\n${lines.map(([command, what]) => `${item(command, 26, what, columns)}\n`).join('')}`;
}

/** How commander lays its lists out where the terminal is narrow. */
export function narrowHelp(columns: number): HelpConfiguration {
  if (columns >= NARROW) return {};
  return { formatItem: (term, _termColumns, description) => item(term, 0, description, columns) };
}

/** `pets help`: a command's page, or that of a topic. */
export function addHelpCommand(
  help: Commander,
  program: Commander,
  columns: number,
  show: (text: string) => void,
): void {
  help
    .summary(`show help for a command, or on ${Object.keys(topics).join(' or ')}`)
    .action((names: string[]) => {
      const topic = topics[names.join(' ')];
      if (topic === undefined) commandAt(program, names).outputHelp();
      else show(topic(columns));
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
