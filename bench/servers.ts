import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Lab } from './lab.ts';

const TIMEOUT_MILLISECONDS = 60_000;
const POLL_MILLISECONDS = 2;

/** The paths of the built command, and of a program in bench/peers with which `pets` is compared. */
export const pets = join(import.meta.dirname, '..', 'dist', 'pets.js');
export const peer = (name: string): string => join(import.meta.dirname, 'peers', name);

/** The arguments of Node for `pets serve` with more options, on a free port, with a key of plan enterprise. */
export const serve = (...options: string[]): string[] => [
  pets,
  ...'serve --json --quiet --no-profile --plan enterprise --port 0'.split(' '),
  ...options,
];

export type Server = {
  pid: number;
  /** The base URL. The list of animals is at `/pets` below the base URL. */
  url: string;
  key: string;
  /** The time from the start of the process to its first response with status 200. */
  milliseconds: number;
  stop(): Promise<void>;
};

type Launch = {
  /** The arguments of Node, which are a script and its arguments. */
  args: readonly string[];
  /** A command that runs Node, such as `taskset` with its arguments. */
  prefix?: readonly string[] | undefined;
  /** The URL at which the server will listen. Without `url`, the server must print a line of JSON with its URL. */
  url?: string;
  /** The API key, if the server prints none. */
  key?: string;
};

/** Starts a server and waits for its first response with status 200. @throws if the process ends or takes too long */
export async function start(
  lab: Lab,
  { args, prefix = [], url: known, key: knownKey = 'any' }: Launch,
): Promise<Server> {
  const started = performance.now();
  const child = lab.spawn([...prefix, process.execPath, ...args], {
    stdio: ['ignore', known ? 'ignore' : 'pipe', known ? 'ignore' : 'inherit'],
  });
  const ended = once(child, 'close');
  const endedEarly = ended.then(([code]) => {
    throw new Error(`${args.join(' ')} ended with ${code} before it responded`);
  });
  endedEarly.catch(() => {});
  const { url, key } = known
    ? { url: known, key: knownKey }
    : await Promise.race([firstLine(child, knownKey), endedEarly]);
  await Promise.race([waitForResponse(url, key), endedEarly]);
  return {
    pid: child.pid ?? Number.NaN,
    url,
    key,
    milliseconds: performance.now() - started,
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** Launches a server, stops it after its first response, and returns the milliseconds until that response. */
export async function ready(launch: () => Promise<Server>): Promise<number> {
  const { milliseconds, stop } = await launch();
  await stop();
  return milliseconds;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

async function firstLine(
  { stdout }: { stdout: Readable | null },
  key: string,
): Promise<{ url: string; key: string }> {
  const [line] = await once(createInterface({ input: stdout as Readable }), 'line');
  return { key, ...JSON.parse(line) };
}

async function waitForResponse(url: string, key: string): Promise<void> {
  const headers = { Authorization: `Bearer ${key}` };
  const deadline = performance.now() + TIMEOUT_MILLISECONDS;
  while (performance.now() < deadline) {
    const reply = await fetch(`${url}/pets`, { headers }).catch(() => undefined);
    await reply?.arrayBuffer();
    if (reply?.ok) return;
    await sleep(POLL_MILLISECONDS);
  }
  throw new Error(`${url}/pets did not respond with 200 within ${TIMEOUT_MILLISECONDS / 1000} s`);
}
