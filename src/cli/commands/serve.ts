import * as z from 'zod/mini';
import { planNames } from '../../contract/plans.ts';
import { usageError } from '../core/errors.ts';
import { integer, parseFraction, parseWith } from '../core/parsers.ts';
import { DEFAULT_PORT } from '../profiles/profile.ts';
import type { Command, Option } from '../program/command.ts';
import {
  DEFAULT_PLAN,
  parseAddressBlock,
  parseHostName,
  parseLatency,
  parseOrigin,
  parsePublicUrl,
  type ServeOptions,
} from '../serve/options.ts';
import { dataOption } from '../serve/store-location.ts';

const MAX_BAN_SECONDS = 366 * 24 * 60 * 60;

/** Refuses an empty address, for example from an unset variable, because Node would listen on every address. */
const Host = z.string().check(z.minLength(1, 'must be an IP address or a host name'));

const inGroup = (group: string, options: readonly Option[]): Option[] =>
  options.map((option) => ({ ...option, group }));

export const serve: Command<ServeOptions> = {
  name: 'serve',
  summary: 'run a local service for tests and development',
  examples: [
    'pets serve --seed                     then: pets --profile local list',
    'pets serve --ephemeral -- npm test    run tests against a throwaway service',
    'pets serve --port 0 --json            first line: url, key, token, port, pid',
    'pets serve --ephemeral --latency 100-300 --fail-rate 0.1 -- npm test',
  ],
  notes:
    'The command gets the address, a key and a token in PETS_BASE_URL, PETS_API_KEY and PETS_SERVE_TOKEN. The page in a browser, whose address pets serve prints, shows each request. The API is described at /openapi.json. Tools for tests, such as POST /reset: docs/testing.md.',
  arguments: [
    {
      name: '[command...]',
      usage: '[-- <command>...]',
      description: 'command to run against the service, which ends with it',
    },
  ],
  options: [
    {
      ...dataOption,
      description: 'store: directory or postgres:// URL (default: PETS_DATA, or in your home)',
    },
    {
      flags: '--ephemeral',
      description: 'keep the store in a temporary directory, deleted on exit',
      conflicts: ['data'],
    },
    {
      flags: '--seed [file]',
      description:
        'fill an empty store with sample animals and orders, or from a .json, .ndjson or .csv file',
    },
    {
      flags: '--resettable',
      description: 'let POST /reset empty the store, or fill it with the seed; not needed with --ephemeral',
    },
    {
      flags: '--port <number>',
      description: `port to listen on; 0 = any free port (default: ${DEFAULT_PORT}; 0 with a command)`,
      parse: integer(0, 65_535),
    },
    {
      flags: '--log',
      description: 'log requests to stderr (default: only on a terminal without a command)',
    },
    ...inGroup('keys', [
      {
        flags: '--plan <plan>',
        description: 'plan of the API key if it is new (limits: see pets help keys add)',
        defaultText: DEFAULT_PLAN,
        choices: planNames,
      },
      {
        flags: '--key-file <file>',
        description: 'accept the API key in this file (or in PETS_SERVE_KEY) instead of a generated one',
      },
      {
        flags: '--no-profile',
        description:
          "don't save the address and the key to profile local; with a command, they are never saved",
      },
      {
        flags: '--ban-after <number>',
        description:
          'ban a key after this many rate-limited requests in a minute; those within a second of the first 429 do not count; 0 = never',
        parse: integer(0, 1_000_000),
        default: 10,
      },
      {
        flags: '--ban-for <seconds>',
        description: 'length of a ban',
        parse: integer(1, MAX_BAN_SECONDS),
        default: 300,
      },
    ]),
    ...inGroup('faults', [
      {
        flags: '--latency <ms>',
        description:
          'delay every response by this many milliseconds, or by a random time from a range such as 100-300',
        parse: parseLatency,
      },
      {
        flags: '--fail-rate <fraction>',
        description: 'fraction of requests that fail with 503, from 0 to 1',
        parse: parseFraction,
      },
      {
        flags: '--fault-seed <number>',
        description: 'number that an earlier run printed, to repeat its faults',
        parse: integer(0, Number.MAX_SAFE_INTEGER),
      },
      {
        flags: '--faults <file>',
        description:
          'JSON file with rules that choose responses, such as [{"match": {"method": "POST", "path": "/v1/pets"}, "answer": 503, "retryAfter": 1, "latency": 50, "times": 2}]; each rule needs answer (an HTTP status), latency (in milliseconds) or both; other paths: /v1/pets/{petId}, /v1/store/orders',
      },
    ]),
    ...inGroup('network', [
      {
        flags: '--host <address>',
        description: 'address to listen on',
        parse: parseWith(Host),
        default: '127.0.0.1',
      },
      {
        flags: '--public-url <url>',
        description: 'address that clients of a reverse proxy use, for links and the OpenAPI document',
        parse: parsePublicUrl,
      },
      {
        flags: '--trust-proxy <address>',
        description: 'use X-Forwarded-For from this address or CIDR block (repeatable)',
        parse: parseAddressBlock,
        repeatable: true,
      },
      {
        flags: '--allow-host <name>',
        description: 'also accept requests with this name in the header Host (repeatable)',
        parse: parseHostName,
        repeatable: true,
      },
      {
        flags: '--cors <origin>',
        description: 'let web pages from this origin call the service (repeatable)',
        parse: parseOrigin,
        repeatable: true,
      },
      {
        flags: '--page',
        description: 'serve the developer page and its tools even if other machines can reach the service',
      },
      {
        flags: '--no-page',
        description: 'serve neither the page nor its tools, and ignore the header Prefer',
      },
    ]),
  ],
  async run(options, context) {
    checkCommand(options.command, context.argv);
    const { runServer } = await import('../serve/run-server.ts');
    return runServer({ ...options, quiet: context.globals.quiet }, context);
  },
};

/**
 * Refuses `serve npm test` (no `--`) and `serve --` (no command). Otherwise the server would run without a command, and
 * a script would wait forever.
 */
function checkCommand(command: readonly string[], argv: readonly string[]): void {
  const separator = argv.indexOf('--');
  const count = separator === -1 ? 0 : argv.length - separator - 1;
  const hint = 'to run a command, put it after --, for example: pets serve -- npm test';
  if (command.length > count)
    throw usageError(
      `unexpected argument ${command[0]}`,
      `${hint}; to choose a store or a port: --data or --port`,
    );
  if (separator !== -1 && !command[0]) throw usageError('no command after --', hint);
}
