import { colourModes } from '../output/colour.ts';
import { profileNames } from '../profiles/profile.ts';
import type { GlobalOptions, Option } from './command.ts';
import { seconds } from './parsers.ts';

/** Handled by commander itself. */
export const helpOption = { flags: '-h, --help', description: 'show this help' } as const satisfies Option;
export const versionOption = {
  flags: '-V, --version',
  description: 'show the version',
} as const satisfies Option;

/** The options that every command accepts. */
export const globalOptions: readonly Option[] = [
  { flags: '--profile <name>', description: 'profile to use', choices: profileNames },
  { flags: '--base-url <url>', description: 'base URL of the service, including /v1' },
  { flags: '--json', description: 'print one JSON document to stdout and JSON lines to stderr' },
  {
    flags: '--max-wait <seconds>',
    description: "maximum time to wait for a rate limit, per request; 0 = don't wait",
    parse: seconds(0),
    default: 75,
  },
  { flags: '--timeout <seconds>', description: 'timeout per attempt', parse: seconds(0.001), default: 30 },
  { flags: '--no-retry', description: 'send each request only once' },
  { flags: '--debug', description: 'log each request to stderr' },
  { flags: '--color <when>', description: 'colorize the output', choices: colourModes, default: 'auto' },
  { flags: '--no-input', description: 'never prompt' },
];

/** Reads the flags that decide how errors are printed, before the arguments are parsed and even if they are invalid. */
export function preParseFlags(argv: readonly string[]): Pick<GlobalOptions, 'json' | 'debug' | 'color'> {
  const end = argv.indexOf('--');
  const own = end === -1 ? argv : argv.slice(0, end);
  const colour = own
    .map((word, i) => (word === '--color' ? own[i + 1] : word.split('--color=')[1]))
    .findLast((word) => word !== undefined);
  return {
    json: own.includes('--json'),
    debug: own.includes('--debug'),
    color: colourModes.find((mode) => mode === colour) ?? 'auto',
  };
}
