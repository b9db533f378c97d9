import { seconds } from '../core/parsers.ts';
import { colourModes } from '../output/colour.ts';
import { profileNames } from '../profiles/profile.ts';
import type { Option } from './command.ts';

/** Commander itself implements --help and --version. */
export const helpOption = { flags: '-h, --help', description: 'show this help' } as const satisfies Option;
export const versionOption = {
  flags: '-V, --version',
  description: 'show the version; with --json also the build and how it was installed',
} as const satisfies Option;

/** The options that every command accepts. */
export const globalOptions: readonly Option[] = [
  { flags: '--profile <name>', description: 'profile to use', choices: profileNames },
  { flags: '--base-url <url>', description: 'base URL of the service, including /v1' },
  { flags: '--json', description: 'print JSON to stdout, and notices and errors as JSON lines to stderr' },
  {
    flags: '--max-wait <seconds>',
    description:
      "maximum time to wait for a rate limit, per request; 0 = don't wait, but reading all pages still waits for the next minute",
    parse: seconds(0),
    default: 75,
  },
  { flags: '--timeout <seconds>', description: 'timeout per attempt', parse: seconds(0.001), default: 30 },
  { flags: '--no-retry', description: 'send each request only once' },
  { flags: '--strict', description: 'refuse responses that do not match the specification' },
  { flags: '--debug', description: 'log each request to stderr' },
  { flags: '--color <when>', description: 'colorize the output', choices: colourModes, default: 'auto' },
  { flags: '--no-input', description: 'never prompt; continue without confirmation' },
];
