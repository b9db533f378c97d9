import * as z from 'zod/mini';
import { planNames } from '../../contract/plans.ts';
import { by, integer } from '../arguments.ts';
import type { Command } from '../command.ts';
import { DEFAULT_PORT } from '../default-port.ts';
import { usageError } from '../errors/cli-error.ts';
import type { ServeOptions } from '../serve/options.ts';
import { hostName, latency, share, webOrigin } from '../serve/parse.ts';

const MAX_BAN_SECONDS = 366 * 24 * 60 * 60;

/** An empty one, as an unset variable makes it, would be every address of the machine. */
const Host = z.string().check(z.minLength(1, 'must be an address'));

export const serve: Command<ServeOptions> = {
  name: 'serve',
  summary: 'run the whole service on this machine',
  examples: [
    'pets serve --seed                     sample animals; then: pets --profile local list',
    'pets serve --ephemeral -- npm test    run a test suite against it, and stop',
    'pets serve --seed animals.csv --data ./store --port 0',
    'pets serve --ephemeral --latency 100-300 --fail-rate 0.1 -- npm test',
  ],
  arguments: [{ name: '[command...]', description: 'behind --: run it against the service, then stop' }],
  options: [
    {
      flags: '--port <number>',
      description: `port to listen on; 0 takes a free one (default: ${DEFAULT_PORT}, with a command 0)`,
      parse: integer(0, 65_535),
    },
    {
      flags: '--host <address>',
      description: 'address to listen on',
      parse: by(Host),
      default: '127.0.0.1',
    },
    { flags: '--data <directory>', description: 'where the store is kept' },
    { flags: '--ephemeral', description: 'keep the store in a temporary directory, gone at the end' },
    {
      flags: '--seed [file]',
      description: 'fill an empty store: sample animals, or a .json, .ndjson or .csv file',
    },
    {
      flags: '--plan <plan>',
      description: "rate limits of a new store's key",
      choices: planNames,
      default: 'pro',
    },
    { flags: '--no-profile', description: 'leave profile local alone' },
    {
      flags: '--latency <ms>',
      description: 'hold every answer back: milliseconds, or a range as 100-300',
      parse: latency,
    },
    {
      flags: '--fail-rate <share>',
      description: 'answer this share of the requests with 503 (0 to 1)',
      parse: share,
    },
    {
      flags: '--fault-seed <number>',
      description: 'the same faults again: the number of an earlier run',
      parse: integer(0, Number.MAX_SAFE_INTEGER),
    },
    {
      flags: '--ban-after <number>',
      description: 'requests sent on after a 429, in a minute, that ban a key; 0 never bans',
      parse: integer(0, 1_000_000),
      default: 10,
    },
    {
      flags: '--ban-for <seconds>',
      description: 'how long a ban lasts',
      parse: integer(1, MAX_BAN_SECONDS),
      default: 300,
    },
    {
      flags: '--limit-failed-keys',
      description: 'refuse an address that sends too many requests without a valid key',
    },
    {
      flags: '--allow-host <name>',
      description: 'answer to this name too (can be given again)',
      parse: hostName,
      repeatable: true,
    },
    {
      flags: '--cors <origin>',
      description: 'let pages of this origin read the answers (can be given again)',
      parse: webOrigin,
      repeatable: true,
    },
    { flags: '--log', description: 'a line on stderr for every request' },
    { flags: '--quiet', description: 'say nothing but errors' },
  ],
  check({ data, ephemeral, latency, failRate, faultSeed }) {
    if (data !== undefined && ephemeral) {
      throw usageError('--data and --ephemeral exclude each other', 'choose one of them');
    }
    if (faultSeed !== undefined && latency === undefined && failRate === undefined) {
      throw usageError('--fault-seed alone makes no faults', 'give --latency, --fail-rate or both with it');
    }
  },
  async run(options, runtime) {
    checkCommand(options.command, runtime.context.argv);
    const { runServer } = await import('../serve/run-server.ts');
    return runServer(options, runtime);
  },
};

/** Only what stands behind `--` is a command to run; an empty one would serve for ever where a script waits for its end. */
function checkCommand(command: readonly string[], argv: readonly string[]): void {
  const separator = argv.indexOf('--');
  const count = separator === -1 ? 0 : argv.length - separator - 1;
  const hint = 'a command to run stands behind --: pets serve -- npm test';
  if (command.length > count) throw usageError(`serve takes no argument ${command[0]}`, hint);
  if (separator !== -1 && !command[0]) throw usageError('there is no command behind --', hint);
}
