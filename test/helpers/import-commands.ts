import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Signal } from '../../src/cli/core/context.ts';
import type { Quota } from '../../src/contract/api.ts';
import { manualClock } from './clock.ts';
import { startInTerminal, type TerminalOptions } from './context.ts';
import { reply, replyError, scriptedServer } from './scripted-server.ts';
import { KEY, start } from './service.ts';
import { temporaryDirectory } from './temp.ts';

export const CSV = 'name,category\nRex,1\nBella,2\nLola,3\n';
export const ALL = '2 added 1 Rex, 3 added 2 Bella, 4 added 3 Lola';
export const ALL_BEFORE = ALL.replaceAll('added', 'added before');
/** A CSV file with `count` animals, named `animal 0`, `animal 1`, and so on. */
export const manyRows = (count: number) =>
  `name,category\n${Array.from({ length: count }, (_, i) => `animal ${i},1\n`).join('')}`;

/**
 * The reaction of the service to a creation. With `lost`, the service adds the animal and cuts the connection. With
 * `interrupt`, the command gets Ctrl-C while it waits for the response. A number is the status of an error.
 * A function sends the response itself. Without a reply, the response is 201.
 */
export type Reply = 'lost' | 'interrupt' | number | ((response: ServerResponse) => void);
/** Replies by the name of the animal. `*` is for all other names. Each attempt takes the next reply of a list. */
export type Replies = Record<string, Reply | Reply[]>;

export type Options = {
  text?: string;
  /** Whether the scripted service reports that it supports idempotency keys. */
  supportsKeys?: boolean;
  /** The number in X-RateLimit-Remaining of the scripted service, which has no such header by default. */
  remaining?: number | undefined;
  /** If set, the service is the real one with this quota. When the command waits, the clock of the service advances. */
  quota?: Quota;
};

/** One run of `pets import`: the preparation, the arguments and the expected results. */
export type Step = Omit<TerminalOptions, 'files'> & {
  /** The new content of the file, which is written before the command runs. */
  text?: string;
  replies?: Replies;
  /** Simulates that these hours pass before the command runs. A negative number simulates a clock that was set back. */
  hoursLater?: number;
  /** Arguments after `pets import FILE`, separated by spaces. */
  args?: string;
  /** The exit code; 0 by default. */
  code?: number;
  /** The names of the animals that the service received from this command, separated by spaces. */
  sends?: string;
  /** How many idempotency keys the service has received in all steps so far. */
  keys?: number;
  /** The command sends no request. */
  isOffline?: true;
  /** The command does not even create the state directory. */
  createsNothing?: true;
  stdout?: string | RegExp;
  /** Columns 1 to 4 of each line of stdout, without empty ones, separated by spaces. Commas separate the lines. */
  results?: string;
  /** In stderr, FILE and DIRECTORY replace the paths of the file and of its directory. */
  stderr?: string | RegExp | (string | RegExp)[];
  lacks?: string;
  /** Fields of the error on stderr, if `args` has --json. */
  error?: object;
};

/** Creates a file to import, a state directory that all commands share, and a service without animals. */
export async function importing({ text = CSV, supportsKeys = true, remaining, quota }: Options = {}) {
  const directory = await temporaryDirectory();
  const file = join(directory, 'animals.csv');
  const clock = manualClock();
  await writeFile(file, text);
  const service = quota ? await realService(quota) : await scriptedService(supportsKeys, remaining);
  const env = { PETS_BASE_URL: service.url, PETS_API_KEY: KEY, XDG_STATE_HOME: join(directory, 'state') };
  const imports = join(directory, 'state', 'pets', 'imports');
  const ledgerPath = async () => {
    const [service = 'none'] = await readdir(imports).catch(() => []);
    return join(imports, service, 'ledger.ndjson');
  };
  const ledger = async () => readFile(await ledgerPath(), 'utf8').catch(() => '');

  async function add(args: string[] = [], options: TerminalOptions = {}, input = file) {
    const program = await startInTerminal(['import', input, ...args], {
      clock,
      temporaryDirectory: directory,
      ...options,
      env: { ...env, NO_COLOR: '1', ...options.env },
      onSleep(milliseconds, raise) {
        service.advance(milliseconds);
        options.onSleep?.(milliseconds, raise);
      },
    });
    service.interrupt = () => program.raise('SIGINT');
    const code = await program.ended;
    const stderr = program.stderr().replaceAll(file, 'FILE').replaceAll(directory, 'DIRECTORY');
    return { code, stdout: program.stdout(), stderr };
  }

  async function run(...steps: Step[]): Promise<void> {
    for (const [i, step] of steps.entries()) {
      const { text, replies = {}, hoursLater = 0, args = '', code = 0, sends, ...expected } = step;
      if (text !== undefined) await writeFile(file, text);
      if (hoursLater !== 0) {
        await moveIntoThePast(await ledgerPath(), hoursLater);
        await rm(join(directory, 'state', 'pets', 'services'), { recursive: true, force: true });
      }
      service.advance(Math.max(0, hoursLater) * 3_600_000);
      service.replies = replies;
      const [before, requests] = [service.names().length, service.requestCount()];
      const result = await add(args.split(' ').filter(Boolean), step);
      const { stdout, stderr } = result;
      const where = `step ${i + 1}: ${stderr}`;
      expect(result.code, where).toBe(code);
      expect(stdout + stderr, where).not.toContain(KEY);
      if (sends !== undefined) expect(service.names().slice(before).join(' '), where).toBe(sends);
      if (expected.keys !== undefined) expect(service.keyCount(), where).toBe(expected.keys);
      if (expected.isOffline) expect(service.requestCount(), where).toBe(requests);
      if (expected.createsNothing) expect(await readdir(directory), where).toEqual(['animals.csv']);
      if (typeof expected.stdout === 'string') expect(stdout, where).toBe(expected.stdout);
      if (expected.stdout instanceof RegExp) expect(stdout, where).toMatch(expected.stdout);
      if (expected.results !== undefined) expect(resultsIn(stdout), where).toBe(expected.results);
      for (const each of [expected.stderr ?? []].flat()) expect(stderr, where).toMatch(each);
      if (expected.lacks !== undefined) expect(stdout + stderr, where).not.toContain(expected.lacks);
      if (expected.error) expect(errorIn(stderr), where).toMatchObject(expected.error);
      expect(await ledger(), where).not.toContain(KEY);
    }
  }

  return { service, directory, file, ledgerPath, ledger, add, run };
}

export const scenario = (name: string, options: Options, ...steps: Step[]): void =>
  test(name, async () => (await importing(options)).run(...steps));

export const resultsIn = (stdout: string): string =>
  stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t').slice(0, 4).filter(Boolean).join(' '))
    .join(', ');

/** The error in the last line of stderr. The command must have run with --json. */
export const errorIn = (stderr: string) => JSON.parse(stderr.trimEnd().split('\n').at(-1) ?? '').error;

async function moveIntoThePast(path: string, hours: number): Promise<void> {
  const earlier = (_: string, name: string, time: string) =>
    `"${name}":"${new Date(Date.parse(time) - hours * 3_600_000).toISOString()}"`;
  await writeFile(
    path,
    (await readFile(path, 'utf8')).replace(/"(at|endedAt|finishedAt)":"([^"]+)"/g, earlier),
  );
}

async function scriptedService(supportsKeys: boolean, remaining: number | undefined) {
  const headers: Record<string, string> = {
    ...(supportsKeys && { 'Idempotency-Supported': 'true' }),
    ...(remaining !== undefined && {
      'X-RateLimit-Limit': '1000',
      'X-RateLimit-Remaining': String(remaining),
      'X-RateLimit-Reset': String(Date.parse('2026-11-20T12:01:00Z') / 1000),
    }),
  };
  let inFlight = 0;
  const animals = new Map<string, { id: number; name: string }>();
  const names: string[] = [];
  const server = await scriptedServer(async (request, response, _, body) => {
    if (request.method === 'GET') return reply(response, 200, [], headers);
    const pet = JSON.parse(body);
    names.push(pet.name);
    service.mostInFlight = Math.max(service.mostInFlight, ++inFlight);
    response.once('close', () => inFlight--);
    const key = String(request.headers['idempotency-key']);
    if (!animals.has(key)) animals.set(key, { id: animals.size + 1, ...pet, status: 'available' });
    await service.beforeReply(pet.name);
    const given = service.replies[pet.name] ?? service.replies['*'];
    const kind = Array.isArray(given) ? given.shift() : given;
    if (kind === undefined) reply(response, 201, animals.get(key), headers);
    else if (kind === 'lost') response.destroy();
    else if (kind === 'interrupt') service.interrupt();
    else if (typeof kind === 'function') kind(response);
    // The error contains the API key, to test that the command neither shows nor stores the key.
    else
      reply(
        response,
        kind,
        { code: `no_${KEY}`, message: `no ${pet.name} with ${KEY}`, status: kind },
        headers,
      );
  });
  const service = {
    url: server.url,
    replies: {} as Replies,
    interrupt: () => {},
    advance: (_milliseconds: number) => {},
    /** Called for each creation. The service replies when the promise resolves. */
    beforeReply: async (_name: string): Promise<void> => {},
    mostInFlight: 0,
    names: () => names,
    /** The number of different idempotency keys in all creations, including rejected ones. */
    keyCount: () => animals.size,
    requestCount: () => server.requests.length,
  };
  return service;
}

async function realService(quota: Quota): ReturnType<typeof scriptedService> {
  const { listening, clock, accessLog } = await start({ quota, time: '2026-11-20T12:00:00Z' });
  const created = () => accessLog.filter(({ status, method }) => method === 'POST' && status === 201);
  return {
    url: `${listening.origin}/v1`,
    replies: {},
    interrupt: () => {},
    beforeReply: async () => {},
    mostInFlight: 0,
    advance: (milliseconds) => clock.advance(milliseconds),
    names: () => created().map(() => 'animal'),
    keyCount: () => created().length,
    requestCount: () => accessLog.length,
  };
}

/** A reply with 429 that asks to wait for `seconds`. */
export const limited =
  (seconds: number): Reply =>
  (response) =>
    replyError(response, 429, 'rate_limited', { 'Retry-After': String(seconds) });

/** A reply that rejects the row with this message. */
export const rejection =
  (message: string): Reply =>
  (response) =>
    reply(response, 422, { code: 'unwanted', message, status: 422 });

/** Sends Ctrl-C when the command starts to wait. */
export const interruptWait = {
  onSleep: (_milliseconds: number, raise: (signal: Signal) => void) => raise('SIGINT'),
};
