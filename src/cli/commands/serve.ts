import * as z from 'zod/mini';
import { planNames } from '../../contract/api.ts';
import { usageError } from '../core/errors.ts';
import { integerParser, parseFraction, parseWith } from '../core/values.ts';
import { DEFAULT_PORT } from '../profiles/profile.ts';
import { argument, type Command, inGroup, option, repeatable } from '../program/command.ts';
import {
  DEFAULT_PLAN,
  dataOption,
  parseAddressBlock,
  parseHostName,
  parseLatency,
  parseOrigin,
  parsePublicUrl,
  type ServeOptions,
} from '../serve/options.ts';

const MAX_BAN_SECONDS = 366 * 24 * 60 * 60;

/** Refuses an empty address, for example from an unset variable, because Node would listen on every address. */
const Host = z.string().check(z.minLength(1, 'must be an IP address or a host name'));

export const serve: Command<ServeOptions> = {
  name: 'serve',
  summary: 'run a local service for tests and development',
  examples: [
    'pets serve --seed  # then: pets --profile local list',
    'pets serve --ephemeral -- npm test  # run tests against a throwaway service',
    'pets serve --port 0 --json  # first line: url, key, token, port, pid',
    'pets serve --ephemeral --latency 100-300 --fail-rate 0.1 -- npm test',
  ],
  notes:
    'A command after -- gets the address, a key and a token in PETS_BASE_URL, PETS_API_KEY and PETS_SERVE_TOKEN. pets serve prints the address of a page that shows each request in a browser. The API is described at /openapi.json. Tools for tests, such as POST /reset: docs/testing.md. More options: pets help serve keys (your own key, rate limits, bans), faults (error responses, delays) or network (--cors, --host).',
  arguments: [argument('[command...]', 'after --: command to run; the service stops when it ends')],
  options: [
    dataOption,
    option('--ephemeral', 'keep the store in a temporary directory, deleted on exit').conflicts('data'),
    option('--seed [file]', 'fill an empty store with samples, or from .json (also orders), .ndjson or .csv'),
    option('--resettable', 'let POST /reset restore the seed or an empty store; not needed with --ephemeral'),
    option(
      '--port <number>',
      `port to listen on; 0 = any (default: ${DEFAULT_PORT}; 0 with a command)`,
      integerParser(0, 65_535),
    ),
    option('--log', 'log requests to stderr (default: at a terminal without a command)'),
    ...inGroup('keys', [
      option(
        '--plan <plan>',
        `plan of a new key: ${planNames.join(', ')} (default: ${DEFAULT_PLAN}; limits: pets help keys add)`,
        planNames,
      ),
      option('--key-file <file>', 'file with the API key (default: PETS_SERVE_KEY or a generated key)'),
      option('--no-profile', "don't save address and key to profile local (a command after -- implies this)"),
      option(
        '--ban-after <number>',
        'ban a key after this many rate-limited requests in a minute; those within a second of the first 429 do not count; 0 = never',
        integerParser(0, 1_000_000),
      ).default(10),
      option('--ban-for <seconds>', 'length of a ban', integerParser(1, MAX_BAN_SECONDS)).default(300),
    ]),
    ...inGroup('faults', [
      option(
        '--latency <ms>',
        'delay every response under /v1 by this many milliseconds, or by a random time such as 100-300',
        parseLatency,
      ),
      option('--fail-rate <fraction>', 'fraction of requests with a key that get 503, 0 to 1', parseFraction),
      option(
        '--fault-seed <number>',
        'number that an earlier run printed, to repeat its random faults',
        integerParser(0, Number.MAX_SAFE_INTEGER),
      ),
      option(
        '--faults <file>',
        'JSON file with rules that choose responses, such as [{"match": {"method": "POST", "path": "/v1/pets"}, "answer": 503, "retryAfter": 1, "latency": 50, "times": 2}]; each rule needs answer (an HTTP status), latency (in milliseconds) or both; other paths: /v1/pets/{petId}, /v1/store/orders',
      ),
    ]),
    ...inGroup('network', [
      option('--host <address>', 'address to listen on', parseWith(Host)).default('127.0.0.1'),
      option('--public-url <url>', 'URL at which a reverse proxy offers the service', parsePublicUrl),
      repeatable(
        '--trust-proxy <address>',
        'use X-Forwarded-For from this address or block',
        parseAddressBlock,
      ),
      repeatable('--allow-host <name>', 'also accept this name in the header Host', parseHostName),
      repeatable('--cors <origin>', 'let web pages from this origin call the service', parseOrigin),
      option('--page', 'serve the developer page even if other machines can reach the service'),
      option('--no-page', 'serve neither the page nor its tools, and ignore the header Prefer'),
    ]),
  ],
  async run(options, context) {
    checkCommand(options.command, context.argv);
    const { runServer } = await import('../serve/run-server.ts');
    return runServer(options, context);
  },
};

/** Refuses `serve npm test` and `serve --`: a server without the command would let a script wait forever. @throws CliError */
function checkCommand(command: readonly string[], argv: readonly string[]): void {
  const separator = argv.indexOf('--');
  const count = separator === -1 ? 0 : argv.length - separator - 1;
  const hint = 'to run a command, put it after --, for example: pets serve -- npm test';
  if (command.length > count)
    throw usageError(`unexpected argument ${command[0]}`, `${hint}; for a store or a port: --data or --port`);
  if (separator !== -1 && !command[0]) throw usageError('no command after --', hint);
}
