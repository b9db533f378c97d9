import { seconds } from './arguments.ts';
import type { Option } from './command.ts';
import { colourModes } from './output/colour.ts';
import { profileNames } from './profiles/profile.ts';

/** What commander itself answers. */
export const helpOption = { flags: '-h, --help', description: 'show this help' } as const satisfies Option;
export const versionOption = {
  flags: '-V, --version',
  description: 'show the version',
} as const satisfies Option;

/** The options of every command, as a usage line has them; globals.ts says what they become. */
export const globalOptions: readonly Option[] = [
  {
    flags: '--profile <name>',
    description: 'profile to use',
    choices: profileNames,
  },
  { flags: '--base-url <url>', description: "the service's address, with /v1" },
  { flags: '--json', description: 'write one JSON document to stdout, and JSON lines to stderr' },
  {
    flags: '--max-wait <seconds>',
    description: 'longest wait for one request; 0 never waits',
    parse: seconds(0),
    default: 75,
  },
  {
    flags: '--timeout <seconds>',
    description: 'longest time for one attempt',
    parse: seconds(0.001),
    default: 30,
  },
  { flags: '--no-retry', description: 'send each request once' },
  { flags: '--debug', description: 'tell every step on stderr' },
  { flags: '--color <when>', description: 'colour the output', choices: colourModes, default: 'auto' },
  { flags: '--no-input', description: 'never ask anything' },
];
